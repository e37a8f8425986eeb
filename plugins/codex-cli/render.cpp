#include "render.hpp"

#include "hitchrail/render.hpp"

namespace hitchrail::codex_cli {

std::string render_task(const hr_render_request& request) {
  return sdk::render_task(
      request,
      {"Codex CLI", "Your final message is the report; it is captured from the output of this process."});
}

}  // namespace hitchrail::codex_cli
