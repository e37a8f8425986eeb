// Task files of every form: any bytes give a task within its bounds, or a refusal with a code of the family
// and a remedy; and what is read can be rendered without any of it forging a section.

#include <hitchrail/render.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "manifest/task_spec.hpp"

using namespace hitchrail;

namespace {

void render(const manifest::TaskSpec& task) {
  std::string envelope = R"({"schemaVersion":"task-envelope/v1","subject":{"objective":"x","message":)";
  json::append_quoted(envelope, task.message);
  envelope += R"(,"constraints":[)";
  for (std::size_t i = 0; i < task.constraints.size(); ++i) {
    envelope += i == 0 ? "" : ",";
    json::append_quoted(envelope, task.constraints[i]);
  }
  envelope += "]}}";
  const std::string context = manifest::render_context(task);
  auto request = sdk::make<hr_render_request>();
  request.envelope_json = sdk::str(envelope);
  request.context_json = sdk::str(context);
  const std::string text = sdk::render_task(request, {"Fuzz", "Say so."});
  const std::string end = "\n## Operator Turn\n\n" + task.message;
  if (text.size() < end.size() || text.substr(text.size() - end.size()) != end) {
    std::abort();
  }
  std::size_t headings = 0;
  const std::string told = text.substr(0, text.size() - end.size());
  for (std::size_t at = told.find("\n## "); at != std::string::npos; at = told.find("\n## ", at + 1)) {
    ++headings;
  }
  if (headings != 12 + (task.instructions.empty() ? 0U : 1U) + (task.checkpoint ? 1U : 0U)) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const char* name : {"t.yaml", "t.json", "t.md", "t.txt"}) {
    const auto task = manifest::parse_task(text, manifest::TaskForm::automatic, name);
    if (task.has_error()) {
      if (task.error().code.substr(0, 5) != "task-" || task.error().remedy.empty()) {
        std::abort();
      }
      continue;
    }
    if (manifest::check_task(*task).has_error()) {
      std::abort();
    }
    render(*task);
  }
  return 0;
}
