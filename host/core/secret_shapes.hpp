#pragma once
// Shapes of secrets in short texts of documents: bearer tokens, keys with well-known prefixes, NAME=value
// pairs. For refusing such texts and for redacting arguments. Known values are SecretRedactor's business
// (redact.hpp).

#include <string>
#include <string_view>

namespace hitchrail {

// "Bearer …", "sk-…", "ghp_…", "github_pat_…" (12 characters or more), and `token=…`, `password: …` and the
// like, each value replaced by [REDACTED].
std::string redact_secret_shapes(std::string_view text);
bool holds_secret_shape(std::string_view text);

}  // namespace hitchrail
