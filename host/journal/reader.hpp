#pragma once
// run-event/v1: the read side. Never takes the writer's lock, never changes a file; a last line without its
// line feed is not there yet, nor is what a living writer has written and not yet synced.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/json.hpp"
#include "core/result.hpp"

namespace hitchrail::journal {

struct Line {
  std::uint64_t sequence = 0;  // 0 = the header line
  std::string_view kind;       // "" = the header line; the views are valid until the next call
  std::string_view text;       // without the line feed
  std::string_view payload;    // the payload's bytes within text
  std::string_view hash;       // "sha256:…", this line's `line`
  std::uint64_t offset = 0;    // of the line's first byte
};

class Reader {
 public:
  static Result<Reader> open(int attempt_dirfd);
  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) noexcept;
  ~Reader();
  // The next whole line, verified against the chain; nullopt at the present end. Error journal-damaged names
  // byte offset and sequence.
  Result<std::optional<Line>> next();
  // Waits by inotify until the file grew or the time is up; true = grew.
  Result<bool> wait(std::chrono::milliseconds limit);

 private:
  struct State;
  explicit Reader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The payload of an event as it was before it was spilled: the spill file's bytes when it says so (checked
// against its hash; errors spill-missing, spill-damaged), else the payload itself.
Result<std::string> whole_payload(int attempt_dirfd, std::string_view payload);

// The last whole line without reading or verifying the rest: for status displays. Error journal-absent.
struct Tail {
  std::uint64_t sequence = 0;
  std::string kind;  // "" when only the header is there
};
Result<Tail> read_tail(int attempt_dirfd);
// Whether a writer lives now (asks its locks, takes none).
bool has_writer(int attempt_dirfd);

bool is_terminal_kind(std::string_view kind);  // run.completed, run.failed, run.interrupted

// The whole chain and every payloadHash.
struct Verified {
  std::uint64_t events = 0;
  std::uint64_t bytes = 0;
  std::uint64_t torn_bytes = 0;
  bool terminal = false;
  std::string last_line_hash;
};
Result<Verified> verify(int attempt_dirfd);

}  // namespace hitchrail::journal
