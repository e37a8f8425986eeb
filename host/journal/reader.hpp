#pragma once
// run-event/v1: the read side. Never takes the writer's lock, never changes a file; a last line without its line feed is not there yet.

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
  std::string_view text;       // without the line feed; valid until the next call
};

class Reader {
 public:
  static Result<Reader> open(int attempt_dirfd);
  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) noexcept;
  ~Reader();
  // The next whole line, verified against the chain; nullopt at the present end. Error journal-damaged names byte offset and sequence.
  Result<std::optional<Line>> next();
  // Waits by inotify until the file grew or the time is up; true = grew.
  Result<bool> wait(std::chrono::milliseconds limit);

 private:
  struct State;
  explicit Reader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

bool is_terminal_kind(std::string_view kind);  // run.completed, run.failed, run.interrupted

struct Verified {
  std::uint64_t events = 0;
  std::uint64_t bytes = 0;
  std::uint64_t torn_bytes = 0;
  bool terminal = false;
  std::string last_line_hash;
};
Result<Verified> verify(int attempt_dirfd);

}  // namespace hitchrail::journal
