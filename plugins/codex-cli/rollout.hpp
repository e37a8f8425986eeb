#pragma once
// The program's own session file (CODEX_HOME/sessions/…/rollout-*.jsonl), read after the exit: what the last
// task asked for and answered. It lies in a folder that tool commands can write, so it is only ever used to
// doubt a success.

#include <string_view>

#include "state.hpp"

namespace hitchrail::codex_cli {

// Takes one line into `file`. `thread` is the conversation as the stream told it. A line that is not a JSON
// object is passed over: the program may have been killed while it wrote.
void read_session_line(SessionFile& file, std::string_view line, std::string_view thread);

}  // namespace hitchrail::codex_cli
