#pragma once
// A task written as Markdown: front matter (YAML between two lines `---`, the first line of the file is one),
// then an optional `# Title`, the message, and the sections `## Background`, `## Constraints` and
// `## Acceptance criteria` (docs/operators/tasks.md).
//
// Promises: the message and the background are kept byte for byte but for blank lines around them; a heading
// inside a fence is text. Refuses: task-front-matter (not ended), task-section (any other heading of level 1
// or 2, a section twice, a line of a list section that is no item).

#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"

namespace hitchrail::manifest {

struct MarkdownBody {
  std::string title, message;
  std::vector<std::string> background, constraints, acceptance_criteria;
  int message_line = 1;
};
struct MarkdownTask {
  std::string front_matter;  // with a blank first line: its lines are those of the file
  MarkdownBody body;
};

bool has_front_matter(std::string_view bytes);
Result<MarkdownTask> split_markdown(std::string_view bytes, const std::string& name);

}  // namespace hitchrail::manifest
