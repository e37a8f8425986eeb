#pragma once
// A draft's payload as bytes: assembled, redacted, and replaced by a reference when it is over 8 KiB.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/redact.hpp"
#include "core/result.hpp"
#include "journal/hash.hpp"
#include "journal/journal.hpp"

namespace hitchrail::journal {

struct Ids {  // after bounds and redaction
  std::string session, turn, item, provider_event, parent;
};

struct Payload {
  std::string bytes;                 // the whole payload, redacted
  std::uint64_t original_bytes = 0;  // before redaction
  std::vector<std::string> redacted;
  std::string_view text,
      raw;  // views into the draft, `storage` or `bytes`: the text and raw member as persisted
  Ids ids;
  std::string storage;
  Hash hash{};
};

// Fills `out`; its buffers are reused. Error event-invalid.
Status build_payload(const Draft& draft, const SecretRedactor* redactor, Payload& out);

struct MergedPart {
  Origin origin;
  std::size_t text_bytes = 0;
  std::uint64_t hash_prefix = 0;
  Hash hash{};
};
// {providerType?, text, raws?}; `raws` is the comma-joined list of raw members. Redacts once more, since a
// secret may lie across two parts.
void build_merged_payload(std::string_view provider_type, std::string_view text, std::string_view raws,
                          const SecretRedactor* redactor, Payload& out);

std::string spill_name(std::string_view attempt_id, std::string_view kind, std::string_view dedupe_key,
                       Hasher& hasher);
// What stays in the line of a spilled payload.
std::string spilled_payload(const Draft& draft, const SecretRedactor* redactor, std::string_view whole,
                            const std::string& name, const Hash& hash);

bool valid_kind(std::string_view kind);
bool valid_timestamp(std::string_view text);  // RFC 3339

}  // namespace hitchrail::journal
