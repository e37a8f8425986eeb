#include "manifest/task_spec.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/text.hpp"
#include "manifest/task_fields.hpp"
#include "manifest/task_markdown.hpp"
#include "profiles/yaml.hpp"

namespace hitchrail::manifest {
namespace {

// Without case: TASK.YAML read as text would lose its gates and its bounds without a word.
bool ends_with(std::string_view name, std::string_view end) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return name.size() > end.size() &&
         std::equal(end.begin(), end.end(), name.end() - static_cast<std::ptrdiff_t>(end.size()),
                    [&](char a, char b) { return a == lower(b); });
}

TaskForm form_of(std::string_view name) {
  if (ends_with(name, ".yaml") || ends_with(name, ".yml")) {
    return TaskForm::yaml;
  }
  if (ends_with(name, ".json")) {
    return TaskForm::json;
  }
  return ends_with(name, ".md") || ends_with(name, ".markdown") ? TaskForm::markdown : TaskForm::text;
}

std::string place_of(std::string_view bytes, std::size_t at, const std::string& name) {
  const std::string_view before = bytes.substr(0, at);
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  return name + ":" + std::to_string(std::count(before.begin(), before.end(), '\n') + 1) + ":" +
         std::to_string(before.size() - line_start + 1);
}

// What no form of a task may hold, with its place in the file.
Status check_bytes(std::string_view bytes, const std::string& name) {
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t length = utf8_length(bytes, at);
    if (length == 0 || bytes[at] == '\x7f' || bytes[at] == '\0') {
      Error error = check_task_message(length == 0 ? "\xff" : std::string("x") + bytes[at]).error();
      error.object = place_of(bytes, at, escape_visible(name));
      return error;
    }
    at += length;
  }
  return {};
}

Status check_leaves(const yaml::Node& node, yaml::Reader& reader) {
  const auto bad = [](std::string_view text) {
    return text.find('\x7f') != std::string_view::npos || text.find('\0') != std::string_view::npos;
  };
  std::vector<const yaml::Node*> todo = {&node};
  while (!todo.empty()) {
    const yaml::Node& next = *todo.back();
    todo.pop_back();
    if (bad(next.text)) {
      const bool del = next.text.find('\x7f') != std::string::npos;
      reader.fail(next.at, del ? "task-has-del" : "task-has-nul",
                  del ? "an escape gives the character U+007F" : "an escape gives the character U+0000",
                  "remove the escape");
    }
    for (const yaml::Node& item : next.items) {
      todo.push_back(&item);
    }
    for (const yaml::Entry& entry : next.entries) {
      if (bad(entry.key)) {
        reader.fail(entry.at, "task-key", "a field's name has a control character", "remove the escape");
      }
      todo.push_back(&entry.value);
    }
  }
  return reader.status();
}

// A JSON document as the tree that YAML ones are read from. Places are not known (line 0).
yaml::Node to_node(const json::Value& value) {
  yaml::Node node;
  switch (value.type()) {
    case json::Type::null:
      return node;
    case json::Type::boolean:
      node.kind = yaml::Kind::scalar;
      node.text = value.as_bool() ? "true" : "false";
      return node;
    case json::Type::number:
      node.kind = yaml::Kind::scalar;
      node.text = value.number_text();
      return node;
    case json::Type::string:
      node.kind = yaml::Kind::scalar;
      node.quoted = true;
      node.text = value.as_string();
      return node;
    case json::Type::array:
      node.kind = yaml::Kind::sequence;
      for (const json::Value& item : value.items()) {
        node.items.push_back(to_node(item));
      }
      return node;
    case json::Type::object:
      node.kind = yaml::Kind::mapping;
      for (const auto& [key, member] : value.members()) {
        node.entries.push_back({key, {}, to_node(member)});
      }
      return node;
  }
  return node;
}

// One family of codes, whatever the form: yaml-anchor and json-depth become task-anchor and task-depth.
Error as_task_error(Error error) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kRemedies = {
      {{"task-anchor", "write the value out where it is used"},
       {"task-alias", "write the value out where it is used"},
       {"task-merge-key", "write the fields out"},
       {"task-tag", "remove the tag"},
       {"task-duplicate-key", "keep one of the two"},
       {"task-depth", "no field of a task nests that deep"},
       {"task-documents", "keep one document"},
       {"task-missing-field", "add it; docs/operators/tasks.md shows a whole task"},
       {"task-syntax", "mend the file's syntax there"}}};
  for (const std::string_view family : {"yaml-", "json-"}) {
    if (error.code.compare(0, family.size(), family) == 0) {
      error.code = "task-" + error.code.substr(family.size());
    }
  }
  if (error.code == "task-utf8") {
    error.code = "task-invalid-utf8";
  }
  error.operation = "read the task";
  for (const auto& [code, remedy] : kRemedies) {
    if (error.remedy.empty() && error.code == code) {
      error.remedy = remedy;
    }
  }
  if (error.remedy.empty()) {
    error.remedy = "docs/operators/tasks.md has every field and its bounds";
  }
  return error;
}

Result<yaml::Document> read_json(std::string_view bytes, const std::string& name) {
  HR_TRY(value, json::parse(bytes, json::Duplicates::refuse, name));
  yaml::Document document{name, "read the task", to_node(value)};
  return document;
}

Result<TaskSpec> read_document(const yaml::Document& document, const MarkdownBody* body) {
  yaml::Reader reader(document);
  HR_CHECK(check_leaves(document.root, reader));
  TaskSpec task = read_task_fields(reader, document, body);
  HR_CHECK(reader.status());
  return task;
}

Result<TaskSpec> read_markdown(std::string_view bytes, const std::string& name) {
  HR_TRY(parts, split_markdown(bytes, name));
  yaml::Document document{name, "read the task", {}};
  document.root.kind = yaml::Kind::mapping;
  document.root.at = {1, 1};
  if (parts.front_matter.find_first_not_of(" \t\r\n") != std::string::npos) {
    HR_TRY(parsed, yaml::parse(parts.front_matter, name, "read the task"));
    document = std::move(parsed);
  }
  return read_document(document, &parts.body);
}

Result<TaskSpec> read_form(std::string_view bytes, TaskForm form, const std::string& name) {
  switch (form) {
    case TaskForm::automatic:
    case TaskForm::text:
      break;
    case TaskForm::yaml: {
      HR_TRY(document, yaml::parse(bytes, name, "read the task"));
      return read_document(document, nullptr);
    }
    case TaskForm::json: {
      HR_TRY(document, read_json(bytes, name));
      return read_document(document, nullptr);
    }
    case TaskForm::markdown:
      return read_markdown(bytes, name);
  }
  TaskSpec task;
  task.message = bytes;
  return task;
}

}  // namespace

Result<TaskSpec> parse_task(std::string_view bytes, TaskForm form, const std::string& name) {
  if (bytes.size() > max_task_bytes) {
    Error error = check_task_message(bytes).error();
    error.object = name;
    return error;
  }
  HR_CHECK(check_bytes(bytes, name));
  if (form == TaskForm::automatic) {
    form = form_of(name);
  }
  if (form == TaskForm::markdown && !has_front_matter(bytes)) {
    form = TaskForm::text;
  }
  auto task = read_form(bytes, form, name);
  if (task.has_error()) {
    return as_task_error(std::move(task).error());
  }
  HR_CHECK(check_task(*task));
  return task;
}

}  // namespace hitchrail::manifest
