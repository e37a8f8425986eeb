#include "rollout.hpp"

#include <algorithm>
#include <array>

namespace hitchrail::codex_cli {
namespace {

// Calls that have to show as a command_execution or file_change item. write_stdin feeds a command already
// shown.
bool asks_for_work(const json::View& payload) {
  constexpr std::array functions{"exec_command", "shell", "shell_command", "container.exec", "apply_patch"};
  const json::View type = payload.get("type");
  if (type.equals("local_shell_call")) {
    return true;
  }
  if (!type.equals("function_call") && !type.equals("custom_tool_call")) {
    return false;
  }
  const json::View space = payload.get("namespace");
  if (space.is_string() && !space.equals("")) {
    return false;  // a tool of an MCP server
  }
  const json::View name = payload.get("name");
  return std::any_of(functions.begin(), functions.end(),
                     [&](const char* known) { return name.equals(known); });
}

void read_event(SessionFile& file, const json::View& payload) {
  const json::View type = payload.get("type");
  if (type.equals("task_started")) {
    ++file.tasks;
    file.commands_asked = 0;
    file.answer = {};
    file.usage_base = file.usage;
    file.usage_known = false;
  } else if (type.equals("task_complete")) {
    const json::View answer = payload.get("last_agent_message");
    if (answer.is_string()) {
      std::string scratch;
      file.answer = fingerprint(answer.string(scratch));
    }
  } else if (type.equals("token_count")) {
    if (const auto total = read_usage(payload.get("info").get("total_token_usage"))) {
      file.usage = *total;
      file.usage_known = true;
    }
  }
}

}  // namespace

void read_session_line(SessionFile& file, std::string_view line, std::string_view thread) {
  if (!json::valid(line)) {
    return;
  }
  const json::View record(line);
  const json::View type = record.get("type");
  const json::View payload = record.get("payload");
  if (!payload.is_object()) {
    return;
  }
  file.read = true;
  if (type.equals("session_meta")) {
    const Owner owner = payload.get("id").equals(thread)           ? Owner::thread
                        : payload.get("session_id").equals(thread) ? Owner::subagent
                                                                   : Owner::other;
    file.owner = std::max(file.owner, owner);
  } else if (type.equals("event_msg")) {
    read_event(file, payload);
  } else if (type.equals("response_item") && asks_for_work(payload)) {
    ++file.commands_asked;
  }
}

}  // namespace hitchrail::codex_cli
