#pragma once
// One run of `codex exec --json` as the host sees it.
//
// Promises: what the run was is decided by its terminal record, never by the exit code; a completed turn is a
// success only when the program's own files agree with its stream (see `verdict`); the same records give the
// same events, wherever a snapshot was taken in between. Refuses: a resumed run that answers with another
// thread (conversation-mismatch): it is interrupted at once and failed.
//
// Codes of the verdict: conversation-mismatch, turn-failed, no-terminal-record (failed);
// codex-commands-without-items, codex-final-answer-missing, codex-session-file-missing,
// codex-record-truncated (partial).

#include <string>
#include <vector>

#include "config.hpp"
#include "events.hpp"
#include "hitchrail/adapter.hpp"
#include "state.hpp"

namespace hitchrail::codex_cli {

inline constexpr std::uint32_t session_stream = HR_STREAM_FILE_FIRST;
inline constexpr std::uint32_t last_message_stream = HR_STREAM_FILE_FIRST + 1;

class CodexSession : public sdk::Session {
 public:
  explicit CodexSession(const Launch& launch);
  explicit CodexSession(State state) : state_(std::move(state)) {}

  void map_events(sdk::Host& host, const hr_record& record) override;
  void control(sdk::Host& host, const hr_control& control) override;
  void on_exit(sdk::Host& host, const hr_exit& exit) override;
  void on_end(sdk::Host& host) override;
  [[nodiscard]] std::string snapshot(sdk::Host& host) const override;

 private:
  void stdout_record(sdk::Host& host, const hr_record& record);
  void stderr_record(sdk::Host& host, const hr_record& record);
  void truncated_record(sdk::Host& host, const hr_record& record);
  void thread_started(sdk::Host& host, const Mapped& mapped);
  void mismatch(sdk::Host& host, std::string_view answered);
  void take_item(const Mapped& mapped);
  void take_usage(sdk::Host& host, const Usage& usage);

  State state_;
  Mapper mapper_;
};

// What the end of the run was, from everything the session saw.
struct Ending {
  std::uint32_t status = HR_VERDICT_FAILED;
  std::string code;
  std::string error;
  std::vector<std::string> findings;  // every doubt about a completed turn, the first is the code
};
Ending verdict(const State& state);
std::string verdict_details(const State& state, const Ending& ending);

}  // namespace hitchrail::codex_cli
