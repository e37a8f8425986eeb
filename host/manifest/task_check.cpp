// What can be said about a task before anything else is looked at.

#include <algorithm>
#include <array>

#include "core/text.hpp"
#include "manifest/fields.hpp"
#include "manifest/manifest.hpp"
#include "manifest/task_bounds.hpp"

namespace hitchrail::manifest {
namespace {

Error task_error(const char* code, std::string field, std::string detail, std::string remedy) {
  return Error{ErrorClass::usage, code, "read the task", std::move(field), std::move(detail),
               std::move(remedy)};
}

Status check_entries(const char* field, std::size_t count, std::size_t max) {
  if (count > max) {
    return task_error("task-bounds", field,
                      "it comes to " + std::to_string(count) + " entries of up to " +
                          std::to_string(bounds::chunk) + " characters, at most " + std::to_string(max),
                      "put the bulk into a file of the worktree and name that file");
  }
  return {};
}

Status check_text(const std::string& field, std::string_view text) {
  if (text.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos) {
    return task_error("task-bounds", field, "it has no text", "write it or leave it away");
  }
  for (const auto& [bad, code, what] :
       {std::tuple{'\x7f', "task-has-del", "U+007F"}, std::tuple{'\0', "task-has-nul", "U+0000"}}) {
    if (text.find(bad) != std::string_view::npos) {
      return task_error(code, field, std::string("it has the character ") + what, "remove it");
    }
  }
  if (!is_valid_utf8(text)) {
    return task_error("task-invalid-utf8", field, "it is not valid UTF-8",
                      "convert it, for example with iconv");
  }
  return {};
}

std::vector<std::string> instruction_texts(const TaskSpec& task) {
  std::vector<std::string> texts;
  for (const InstructionText& one : task.instructions) {
    texts.push_back(one.content);
  }
  return texts;
}

}  // namespace

std::vector<std::string> split_text(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    parts.push_back(cut_code_points(text, bounds::chunk));
    text.remove_prefix(parts.back().size());
  }
  return parts;
}

std::vector<std::string> split_texts(const std::vector<std::string>& texts) {
  std::vector<std::string> parts;
  for (const std::string& text : texts) {
    for (std::string& part : split_text(text)) {
      parts.push_back(std::move(part));
    }
  }
  return parts;
}

bool valid_task_id(std::string_view id) {
  const auto alnum = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  return !id.empty() && id.size() <= bounds::id && alnum(id.front()) &&
         std::all_of(id.begin(), id.end(),
                     [&](char c) { return alnum(c) || c == '.' || c == '_' || c == '-'; });
}

bool valid_output_path(std::string_view path) {
  if (path.empty() || path.size() > bounds::scope || path.find('\0') != std::string_view::npos) {
    return false;
  }
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    const std::string_view component = path.substr(at, end - at);
    if (component.empty() || component == "." || component == "..") {
      return false;
    }
    at = end + 1;
  }
  return true;
}

Status check_task_message(std::string_view message) {
  if (message.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos) {
    return task_error("task-empty", "message", "the message has no text",
                      "give it by -m TEXT, --task FILE or on standard input");
  }
  if (message.size() > max_task_bytes) {
    return task_error("task-too-large", "message",
                      std::to_string(message.size()) + " bytes, at most " + std::to_string(max_task_bytes),
                      "put the bulk into a file of the worktree and name that file in the message");
  }
  if (!is_valid_utf8(message)) {
    return task_error("task-invalid-utf8", "message", "the message is not valid UTF-8",
                      "convert it, for example with iconv");
  }
  if (message.find('\x7f') != std::string_view::npos) {
    return task_error("task-has-del", "message", "the message has the character U+007F",
                      "remove it: tr -d '\\177'");
  }
  if (message.find('\0') != std::string_view::npos) {
    return task_error("task-has-nul", "message", "the message has the character U+0000",
                      "remove it: tr -d '\\000'");
  }
  return {};
}

Status check_task(const TaskSpec& task) {
  HR_CHECK(check_task_message(task.message));
  if (cut_code_points(task.title, bounds::short_characters) != task.title) {
    return task_error("task-bounds", "title", "more than 500 characters",
                      "shorten it; the message may be long");
  }
  if (task.title.find('\n') != std::string::npos) {
    return task_error("task-bounds", "title", "it has more than one line", "keep one line");
  }
  HR_CHECK(check_entries("background", split_texts(task.background).size(), bounds::background));
  HR_CHECK(
      check_entries("acceptanceCriteria", split_texts(task.acceptance_criteria).size(), bounds::criteria));
  if (task.instructions.size() > bounds::instructions) {
    return task_error(
        "task-bounds", "instructions",
        std::to_string(task.instructions.size()) + " texts, at most " + std::to_string(bounds::instructions),
        "join them");
  }
  for (const InstructionText& one : task.instructions) {
    HR_CHECK(check_text("instructions (" + one.origin + ")", one.content));
  }
  // The envelope keeps instructions as constraints, and adds one line of the host's own.
  HR_CHECK(
      check_entries("constraints and instructions",
                    split_texts(task.constraints).size() + split_texts(instruction_texts(task)).size() + 1,
                    bounds::constraints));
  const bool commit_output =
      std::any_of(task.expected_outputs.begin(), task.expected_outputs.end(),
                  [](const ExpectedOutput& output) { return output.kind == "commit" && output.required; });
  if (task.commit_policy == "forbidden" && commit_output) {
    return task_error("task-commit-conflict", "expectedOutputs",
                      "a commit is a required output, and commits are forbidden",
                      "allow commits, or make that output `required: false`");
  }
  return {};
}

std::string render_context(const TaskSpec& task) {
  if (task.instructions.empty() && !task.checkpoint) {
    return {};
  }
  std::vector<json::Value> instructions;
  for (const InstructionText& one : task.instructions) {
    instructions.push_back(json::Value::object({{"origin", one.origin}, {"content", one.content}}));
  }
  json::Value out = json::Value::object({{"schemaVersion", "render-context/v1"},
                                         {"instructions", json::Value::array(std::move(instructions))}});
  if (task.checkpoint) {
    out.set("checkpoint", json::Value::object({{"resumeCount", task.checkpoint->resume_count},
                                               {"savedAt", task.checkpoint->saved_at},
                                               {"step", task.checkpoint->step},
                                               {"state", task.checkpoint->state}}));
  }
  return json::write(out);
}

std::string effective_commit_policy(std::string_view command_line, const TaskSpec& task) {
  if (!command_line.empty()) {
    return std::string(command_line);
  }
  return task.commit_policy.empty() ? "allowed" : task.commit_policy;
}

}  // namespace hitchrail::manifest
