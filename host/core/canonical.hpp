#pragma once
// RFC 8785 canonical form and the digests of contract documents (architecture §5).
// digest = "sha256:" + hex SHA-256 of the canonical form without the top-level `digest`.
// Refuses (code canonical-unsupported): numbers that are not integers within ±2^53, non-ASCII keys, U+007F in
// strings; so `jq -cSj 'del(.digest)' | sha256sum` gives the same bytes.

#include <span>
#include <string>
#include <string_view>

#include "core/json.hpp"
#include "core/result.hpp"

namespace hitchrail {

std::string sha256_hex(std::string_view bytes);
std::string sha256_prefixed(std::string_view bytes);  // "sha256:" + hex

// The RFC in full: any finite number in its ECMAScript form, UTF-16 key order. For the RFC's vectors and
// payloads.
Result<std::string> canonicalize(const json::Value& value);
// Our contract documents: the stricter subset above.
Result<std::string> document_digest(const json::Value& document);
// Sets `digest` as the last member and returns it.
Result<std::string> seal_document(json::Value& document);
// Error digest-mismatch when `digest` is absent or wrong.
Status verify_document(const json::Value& document);
// The same after removing the members at these dotted paths ("attempt", "probe.probedAt").
Result<std::string> material_digest(const json::Value& document, std::span<const std::string_view> drop);
// A path as a canonical member: the string itself, or {"base64": "…"} when it is not printable UTF-8.
json::Value path_value(std::string_view path);
// And back; error path-value-invalid.
Result<std::string> path_text(const json::Value& value);

}  // namespace hitchrail
