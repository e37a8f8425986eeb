#include "session.hpp"

namespace hitchrail::codex_cli {
namespace {

// The answer that the program's own files have: the last message's file first, else the session file.
const Fingerprint* recorded_answer(const State& state) {
  if (state.last_message_read && state.last_message.size > 0) {
    return &state.last_message;
  }
  const SessionFile& file = state.session_file;
  if (file.ours() && file.answer.present && file.answer.size > 0) {
    return &file.answer;
  }
  return nullptr;
}

std::string_view answer_check(const State& state) {
  const Fingerprint* recorded = recorded_answer(state);
  if (recorded == nullptr) {
    return state.answer.present ? "unchecked" : "none";
  }
  return *recorded == state.answer ? "same" : "missing";
}

bool commands_vanished(const State& state) {
  const SessionFile& file = state.session_file;
  return file.ours() && file.commands_asked > 0 && state.work_items == 0;
}

Ending completed(const State& state) {
  Ending out;
  if (commands_vanished(state)) {
    // Its sandbox did nothing, or refused everything: either way the requested work was not seen to happen.
    out.findings.emplace_back("codex-commands-without-items");
    out.error = "the turn asked for commands or patches and none of them shows in the stream";
  }
  if (state.not_started > 0) {
    out.findings.emplace_back("codex-inner-sandbox");
    out.error =
        out.error.empty() ? "the program's own sandbox could not start what the turn asked for" : out.error;
  }
  if (answer_check(state) == "missing") {
    out.findings.emplace_back("codex-final-answer-missing");
    out.error = out.error.empty() ? "the stream lacks the final answer that the program recorded" : out.error;
  }
  // A sub-agent's file in its place leaves the requests unchecked, which is no sign of anything.
  if (!state.session_file.ours() && state.session_file.owner != Owner::subagent) {
    out.findings.emplace_back("codex-session-file-missing");
    out.error = out.error.empty() ? "the program's session file is missing, so its stream cannot be checked"
                                  : out.error;
  }
  if (state.truncated > 0) {
    out.findings.emplace_back("codex-record-truncated");
    out.error = out.error.empty() ? "a record was longer than its cap and was cut" : out.error;
  }
  out.status = out.findings.empty() ? HR_VERDICT_SUCCESS : HR_VERDICT_PARTIAL;
  out.code = out.findings.empty() ? "" : out.findings.front();
  return out;
}

std::string exit_text(const State& state) {
  switch (state.exit_kind) {
    case HR_EXIT_CODE:
      return "exit code " + std::to_string(state.exit_value);
    case HR_EXIT_SIGNAL:
      return "signal " + std::to_string(state.exit_value);
    default:
      return "an unknown status";
  }
}

// A program that fails before its first record says why on stderr only.
std::string missing_end_text(const State& state) {
  std::string out = "codex ended with " + exit_text(state) + " and without a terminal record";
  const std::string& reason = state.last_error.empty() ? state.stderr_tail : state.last_error;
  return reason.empty() ? out : out + ": " + reason;
}

void add(std::string& out, std::string_view name, std::string_view value) {
  out += out.size() > 1 ? ",\"" : "\"";
  out += name;
  out += "\":";
  out += value;
}

std::string exit_json(const State& state) {
  const char* kind = state.exit_kind == HR_EXIT_CODE     ? "code"
                     : state.exit_kind == HR_EXIT_SIGNAL ? "signal"
                                                         : "unknown";
  return std::string("{\"kind\":\"") + kind + "\",\"value\":" + std::to_string(state.exit_value) + "}";
}

const char* owner_json(const SessionFile& file) {
  switch (file.owner) {
    case Owner::thread:
      return "\"read\"";
    case Owner::subagent:
      return "\"of a sub-agent\"";
    case Owner::other:
      return "\"foreign\"";
    default:
      return file.read ? "\"unreadable\"" : "\"missing\"";
  }
}

}  // namespace

Ending verdict(const State& state) {
  if (!state.foreign_thread.empty()) {
    return {HR_VERDICT_FAILED,
            "conversation-mismatch",
            "the program answered with thread " + state.foreign_thread + " instead of " +
                (state.resume ? state.wanted_thread : state.thread),
            {}};
  }
  if (state.terminal == Terminal::completed) {
    return completed(state);
  }
  if (state.terminal == Terminal::failed) {
    return {HR_VERDICT_FAILED, "turn-failed", state.failure.empty() ? "the turn failed" : state.failure, {}};
  }
  if (state.stop_requested || state.interrupt_asked) {
    return {HR_VERDICT_INTERRUPTED, "", "", {}};
  }
  return {HR_VERDICT_FAILED, "no-terminal-record", missing_end_text(state), {}};
}

std::string verdict_details(const State& state, const Ending& ending) {
  const SessionFile& file = state.session_file;
  std::string out = "{";
  add(out, "exit", exit_json(state));
  add(out, "sessionFile", owner_json(file));
  if (file.ours()) {
    add(out, "commandsAsked", std::to_string(file.commands_asked));
  }
  add(out, "workItems", std::to_string(state.work_items));
  add(out, "failedItems", std::to_string(state.failed_items));
  add(out, "notStarted", std::to_string(state.not_started));
  add(out, "openItems", std::to_string(state.open.size() + state.open_unlisted));
  add(out, "truncatedRecords", std::to_string(state.truncated));
  add(out, "finalAnswer", "\"" + std::string(answer_check(state)) + "\"");
  std::string findings = "[";
  for (const std::string& finding : ending.findings) {
    findings += (findings.size() > 1 ? ",\"" : "\"") + finding + "\"";
  }
  add(out, "findings", findings + "]");
  return out + "}";
}

}  // namespace hitchrail::codex_cli
