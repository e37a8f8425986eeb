#pragma once
// One run event as one line for people, and the running totals a live view shows. Everything foreign is
// escaped and cut.

#include <cstdint>
#include <string>

#include "core/json.hpp"

namespace hitchrail::cli {

// "  7  command.completed  /bin/bash -lc 'ls' (exit 0)"
std::string event_line(const json::Value& event);
// The event's foreign content in at most `columns` characters.
std::string event_summary(const json::Value& event, std::size_t columns);

struct Progress {
  std::uint64_t events = 0;
  std::string step;          // kind of the last event that says what the agent does
  std::string last_command;  // escaped
  std::int64_t tokens = 0;
  std::int64_t started_unix_ms = 0;
  bool terminal = false;
  std::string terminal_kind;
};
void advance(Progress& progress, const json::Value& event);
// "step · last command · 1,234 tokens · 12.3 s", fitting `columns`.
std::string progress_line(const Progress& progress, std::int64_t now_unix_ms, std::size_t columns);

}  // namespace hitchrail::cli
