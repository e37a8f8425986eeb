#pragma once
// The writer's inside, shared by writer.cpp (files, locks, commit) and append.cpp (what becomes a line).

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "journal/format.hpp"
#include "journal/journal.hpp"
#include "journal/payload.hpp"
#include "journal/spill.hpp"

namespace hitchrail::journal {

struct Merge {  // adjacent deltas that may still grow
  Draft draft;  // the first one's, without its views
  std::int64_t received = 0;
  std::vector<MergedPart> parts;
  std::string text, raws, single;  // single: payload of a merge that stayed alone
  std::uint64_t original_bytes = 0;
  std::vector<std::string> redacted;
  Ids ids;
  Hash hash{};
};

struct Writer::State {
  Fd file;
  Fd directory;  // of the attempt
  Spill spill;
  Limits limits;
  Identity identity;
  const SecretRedactor* redactor = nullptr;
  Opened opened;
  Position durable;
  Hasher hasher;
  Hash last{};  // of the last line, buffered ones included
  bool dead = false;

  std::string buffer;  // whole lines not yet written
  std::uint64_t buffered_events = 0;
  std::string same_text, source_own, source_system;  // constant members of each event
  std::string id_prefix;
  std::uint64_t id_counter = 0;
  std::int64_t time_ms = -1;
  std::string time_text;

  // Origins: those read at open and host keys for good, others for two commits (a runner sends no record
  // again that it committed itself).
  struct KnownOrigin {
    std::uint64_t hash = 0;
    std::size_t line = no_line;  // index into `replayed`, until it was sent again
  };
  static constexpr std::size_t no_line = ~std::size_t{0};
  struct Replayed {  // a line read at open and how many of its origins were not sent again yet
    std::uint64_t offset = 0;
    std::size_t missing = 0;
  };
  std::unordered_map<std::string, KnownOrigin> known;
  std::vector<Replayed> replayed;
  std::size_t first_missing = 0;
  std::array<std::unordered_map<std::string, std::uint64_t>, 2> recent;

  Payload payload;
  std::string key;

  std::optional<Merge> merge;

  void prepare_constants();
  [[nodiscard]] const std::uint64_t* find_known();  // marks it as sent again
  void learn(std::vector<Known>& origins, std::uint64_t offset);
  [[nodiscard]] std::uint64_t origins_from() const;
  void remember(const Origin& origin, std::uint64_t hash);
  void append_times(std::string& line, std::int64_t received, const std::string& provider_timestamp);
  void write_line(const Draft& draft, const Ids& ids, std::string_view origin_members,
                  std::string_view dedupe_key, std::int64_t received,
                  const std::vector<std::string>& redacted, std::uint64_t original_bytes,
                  std::string_view payload_bytes, const Hash& payload_hash);
  void write_single(const Draft& draft, const Ids& ids, std::int64_t received,
                    const std::vector<std::string>& redacted, std::uint64_t original_bytes,
                    std::string_view bytes, const Hash& hash);
  [[nodiscard]] std::uint64_t pending_bytes() const;
  Status check_room(bool reserve, std::size_t payload_bytes) const;
  Status append(const Draft& draft, std::int64_t received, bool reserve);
  Status append_nondeterministic(const Draft& draft, std::uint64_t before, const Hash& now,
                                 std::int64_t received);
  [[nodiscard]] bool can_merge(const Draft& draft) const;
  void add_to_merge(const Draft& draft, std::int64_t received);
  void flush_merge();
  Status fail(Error error);
  Result<Position> commit();
};

Error journal_error(ErrorClass kind, const char* code, const char* operation, std::string detail,
                    std::string remedy = "");
void append_member(std::string& out, std::string_view name, std::string_view value);
// `,"source":{…}` of events whose statement is the provider's or, with "system", the host's.
std::string source_text(const Identity& identity, std::string_view provider);

}  // namespace hitchrail::journal
