#pragma once
// The fields of a task document, from the tree of a YAML or JSON file or a Markdown file's front matter.
// Errors are kept by the reader.

#include "manifest/task_markdown.hpp"
#include "manifest/task_spec.hpp"
#include "profiles/yaml.hpp"

namespace hitchrail::manifest {

// `body`: of a Markdown file, whose front matter may not hold what the body does; else nullptr.
TaskSpec read_task_fields(yaml::Reader& reader, const yaml::Document& document, const MarkdownBody* body);

}  // namespace hitchrail::manifest
