#pragma once
// Shapes of secrets in short texts of documents: bearer tokens, keys with well-known prefixes, NAME=value
// pairs. For refusing such texts and for redacting arguments. Known values are SecretRedactor's business
// (redact.hpp).

#include <string>
#include <string_view>

namespace hitchrail {

// "Bearer …" and "Basic …" that look random, "sk-…", "ghp_…", "github_pat_…" and their like (12 characters or
// more), and `token=…`, `password: …` of more than a word of prose, each value replaced by [REDACTED].
std::string redact_secret_shapes(std::string_view text);
bool holds_secret_shape(std::string_view text);

}  // namespace hitchrail
