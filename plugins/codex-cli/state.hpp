#pragma once
// All that a session of codex-cli remembers between two records, and its snapshot.
//
// Promises: the snapshot holds everything that later events or the verdict depend on, is at most 64 KiB
// whatever the harness printed, and decode(encode(s)) == s. Refuses (nullopt): another version, a length that
// does not fit, bytes left over. Texts that are kept are cut; of a message only length, fingerprint and
// beginning are.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "events.hpp"

namespace hitchrail::codex_cli {

inline constexpr std::size_t kept_text = 8000;   // bytes of the final answer that the verdict's summary shows
inline constexpr std::size_t kept_error = 2000;  // bytes of an error message
inline constexpr std::size_t kept_stderr = 2000;    // last bytes of stderr
inline constexpr std::size_t kept_id = 160;         // bytes of an identifier
inline constexpr std::size_t kept_open_items = 64;  // started and not completed

// Tells equal texts from different ones; no defence against someone who looks for collisions.
struct Fingerprint {
  bool present = false;
  std::uint64_t size = 0;
  std::uint64_t hash = 0;
  bool operator==(const Fingerprint&) const = default;
};
Fingerprint fingerprint(std::string_view text);

enum class Terminal : std::uint8_t { none, completed, failed };

struct OpenItem {
  std::string id;
  ItemType type = ItemType::other;
  bool operator==(const OpenItem&) const = default;
};

// Whose session file it is: a sub-agent of the thread writes one of its own.
enum class Owner : std::uint8_t { unknown, thread, subagent, other };

// What the program's own session file says about the last task in it.
struct SessionFile {
  bool read = false;  // at least one line of it came
  Owner owner = Owner::unknown;
  [[nodiscard]] bool ours() const { return read && owner == Owner::thread; }
  std::uint64_t commands_asked = 0;
  std::uint64_t tasks = 0;
  bool usage_known = false;
  Usage usage_base;    // of the thread, before the last task
  Usage usage;         // of the thread, as last told
  Fingerprint answer;  // last_agent_message of the last task
  bool operator==(const SessionFile&) const = default;
};

struct State {
  bool resume = false;
  std::string wanted_thread;   // resume only
  std::string thread;          // as answered
  std::string foreign_thread;  // an answered id that contradicts; not empty = mismatch
  bool usage_base_known = false;
  Usage usage_base;  // the thread's usage before this run
  bool usage_seen = false;
  Usage usage;  // the thread's usage as last told

  Terminal terminal = Terminal::none;
  std::string failure;             // of turn.failed
  std::string last_error;          // of the last error record
  Fingerprint answer;              // the last agent message
  std::string answer_text;         // its beginning
  std::uint64_t work_items = 0;    // commands and file changes shown
  std::uint64_t failed_items = 0;  // of them with status "failed"
  std::uint64_t not_started = 0;   // commands that the program's own sandbox failed to start
  std::uint64_t truncated = 0;     // records cut at the stream's cap
  std::vector<OpenItem> open;
  std::uint64_t open_unlisted = 0;

  bool interrupt_asked = false;
  std::string stderr_tail;
  std::uint32_t exit_kind = 0;
  std::int32_t exit_value = 0;
  bool stop_requested = false;
  SessionFile session_file;
  bool last_message_read = false;
  Fingerprint last_message;
  bool operator==(const State&) const = default;
};

std::string encode(const State& state);
std::optional<State> decode(std::string_view bytes);

}  // namespace hitchrail::codex_cli
