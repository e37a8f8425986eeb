#include "cli/launch_options.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "core/file.hpp"
#include "manifest/manifest.hpp"

namespace hitchrail::cli {

namespace {

Result<std::string> read_task(const std::string& path) {
  // One byte over the bound is read, so that the bound's own check names the excess.
  const std::size_t limit = manifest::max_task_bytes + 1;
  Fd file(path == "-" ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!file) {
    Error error = errno_error("read the task", path, errno);
    error.kind = ErrorClass::usage;
    error.code = "task-file-unreadable";
    return error;
  }
  std::string text(limit, '\0');
  std::size_t size = 0;
  while (size < limit) {
    const ssize_t count = ::read(file.get(), text.data() + size, limit - size);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      Error error = errno_error("read the task", path, errno);
      error.kind = ErrorClass::usage;
      error.code = "task-file-unreadable";
      return error;
    }
    if (count == 0) {
      break;
    }
    size += static_cast<std::size_t>(count);
  }
  text.resize(size);
  return text;
}

}  // namespace

Result<launch::Request> launch_request(const RunOptions& options) {
  launch::Request request;
  request.dirs = {options.common.plugin_dirs, options.common.profile_dirs};
  request.agent = options.agent;
  request.worktree = options.worktree;
  request.sandbox = options.sandbox;
  request.backend = options.backend;
  request.model = options.model;
  if (options.has_resume && options.resume.empty()) {
    return Error{ErrorClass::usage, "attempt-not-found",         "resume",
                 "--resume",        "the attempt's id is empty", "hitchrail runs list"};
  }
  request.resume = options.resume;
  request.executable = options.executable;
  request.relays = options.relays;
  request.phase = options.phase;
  request.plan_artifact = options.plan_artifact;
  request.trust_owner = options.trust_owner;
  request.time_limit_s = options.time_limit_s;
  request.task.message = options.message;
  if (!options.task_file.empty()) {
    HR_TRY(text, read_task(options.task_file));
    request.task.message = std::move(text);
  }
  for (const auto& option : options.provider_options) {
    const auto equals = option.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Error{ErrorClass::usage,     "provider-option-form",
                   "read the options",    option,
                   "it is not KEY=VALUE", "for example --provider-option base_url=http://127.0.0.1:8080/v1"};
    }
    request.provider_options.emplace_back(option.substr(0, equals), option.substr(equals + 1));
  }
  return request;
}

}  // namespace hitchrail::cli
