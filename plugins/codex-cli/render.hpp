#pragma once
// task-envelope/v1 as the text that Codex gets on its standard input: the SDK's common form
// (hitchrail/render.hpp has its promises and refusals) with Codex's name and its way to report.

#include <hitchrail/adapter.h>

#include <string>

namespace hitchrail::codex_cli {

std::string render_task(const hr_render_request& request);

}  // namespace hitchrail::codex_cli
