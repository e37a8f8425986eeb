#pragma once
// The bytes of a journal line, shared by writer and reader. Both ends of a line have a fixed shape, so that
// checking the chain needs no parser:
//   header  {"signature":"hitchrail-journal","version":1, … ,"prev":"sha256:H","line":"sha256:H"}
//   event   {"schemaVersion":"run-event/v1","sequence":N,"kind":"K","eventId":"E","origin":{…},"dedupeKey":…
//   ,"payload":{…},
//           "payloadHash":"H","prev":"sha256:H","line":"sha256:H"}

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "journal/hash.hpp"
#include "journal/journal.hpp"

namespace hitchrail::journal {

inline constexpr const char* file_name = "journal.jsonl";
inline constexpr const char* spill_folder = "spill";
inline constexpr std::size_t max_line = 1u << 20;       // a longer line is damage
inline constexpr std::size_t spill_threshold = 8192;    // payload bytes
inline constexpr std::size_t max_parts = 256;           // of a merged event
inline constexpr std::size_t max_payload = 128u << 20;  // a 16 MiB record of control characters, escaped

// Open-file-description locks on the journal tell readers what is durable: `[durable, alive_byte)` is locked
// while a commit is in flight (and from 0 while a new writer verifies), alive_byte as long as a writer lives.
inline constexpr std::int64_t alive_byte = std::int64_t{1} << 62;

inline constexpr std::string_view header_prefix = "{\"signature\":\"hitchrail-journal\",\"version\":1,";
inline constexpr std::string_view event_prefix = "{\"schemaVersion\":\"run-event/v1\",\"sequence\":";
inline constexpr std::string_view payload_mark = ",\"payload\":";
inline constexpr std::string_view payload_hash_mark = ",\"payloadHash\":\"";
inline constexpr std::string_view prev_mark = ",\"prev\":\"sha256:";
inline constexpr std::string_view line_mark = ",\"line\":\"sha256:";
inline constexpr std::size_t chain_tail =
    prev_mark.size() + 65 + line_mark.size() + 66;  // both hashes, their quotes, "}"

// Appends `prev`, hashes what `line` holds from `start` on, appends `line` and the line feed. Gives the
// line's hash.
Hash close_line(std::string& line, std::size_t start, const Hash& prev, Hasher& hasher);

struct LineView {  // views into the line's text
  std::uint64_t sequence = 0;
  std::string_view kind;
  std::string_view event_id;
  std::string_view origin;  // the object's text
  std::string_view payload;
  std::string_view payload_hash;  // 64 hex
  Hash hash{};
};
// Checks shape, chain and sequence of one line (no line feed); the error is a sentence, empty = sound.
// `first`: the header.
std::string_view check_line(std::string_view text, bool first, const Hash& prev, std::uint64_t sequence,
                            Hasher& hasher, LineView& out);
// Whether an unterminated tail begins with a whole sound line: then the byte after it should have been its
// line feed, and the tail is damage, not a torn write.
bool tail_hides_line(std::string_view tail, bool first, const Hash& prev, std::uint64_t sequence,
                     Hasher& hasher);

// "r1:1024:0", "i7:2", "h:run.started"
void append_dedupe_key(std::string& out, const Origin& origin);
void append_origin_members(std::string& out, const Origin& origin);  // without the braces
struct Known {
  std::string key;
  std::uint64_t hash = 0;  // first 8 bytes of the payload hash
};
// The origins of one checked line with the hashes of their payloads.
bool line_origins(const LineView& line, std::vector<Known>& out);
std::uint64_t short_hash(const Hash& hash);

Error damaged(std::uint64_t sequence, std::uint64_t offset, std::string_view reason);

}  // namespace hitchrail::journal
