// The run-private git directory: what git inside sees instead of the repository's own; and who the operator
// is in its commits. Identity travels only in the environment.

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>

#include "core/file.hpp"
#include "launch/stages.hpp"
#include "workspace/git_config.hpp"
#include "workspace/inspector.hpp"
#include "workspace/masks.hpp"

namespace hitchrail::launch {

namespace {

constexpr std::size_t max_config_bytes = 256u << 10;

// The operator's own configuration file: theirs, so only read as text here; includes are not followed.
std::string operator_value(const char* key) {
  const std::string home = home_directory();
  if (home.empty()) {
    return "";
  }
  Fd file(::open((home + "/.gitconfig").c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) {
    return "";
  }
  auto text = read_all(file.get(), max_config_bytes);
  if (text.has_error()) {
    return "";
  }
  auto config = workspace::GitConfig::parse(text.value(), "~/.gitconfig");
  return config.has_error() ? "" : config.value().get(key).value_or("");
}

std::string identity_value(const workspace::Worktree& worktree, const char* variable, const char* key) {
  const char* set = std::getenv(variable);
  if (set != nullptr && *set != '\0') {
    return set;
  }
  const auto found = worktree.config.find(key);
  return found != worktree.config.end() && !found->second.empty() ? found->second : operator_value(key);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> git_identity(const workspace::Worktree& worktree) {
  std::vector<std::pair<std::string, std::string>> environment;
  const std::string name = identity_value(worktree, "GIT_AUTHOR_NAME", "user.name");
  const std::string email = identity_value(worktree, "GIT_AUTHOR_EMAIL", "user.email");
  for (const char* role : {"AUTHOR", "COMMITTER"}) {
    if (!name.empty()) {
      environment.emplace_back(std::string("GIT_") + role + "_NAME", name);
    }
    if (!email.empty()) {
      environment.emplace_back(std::string("GIT_") + role + "_EMAIL", email);
    }
  }
  return environment;
}

Status fill_git(const Ground& ground, const Prepared& prepared, int attempt_dirfd) {
  workspace::PrivateGitOptions options;
  options.expected_head = prepared.worktree.baseline.head;
  if (prepared.boundary.compiled.backend == boundary::Backend::native) {
    options.objects_inside = boundary::inside_objects;
  }
  const std::string path = ground.state_path + "/attempts/" + prepared.task.attempt_id;
  HR_TRY(git, workspace::prepare_private_git(prepared.worktree.worktree, attempt_dirfd, path, options));
  (void)git;
  return hide_masks(ground, prepared.worktree.worktree, prepared.boundary.compiled, attempt_dirfd);
}

Status hide_masks(const Ground& ground, const workspace::Worktree& worktree,
                  const boundary::Compiled& compiled, int attempt_dirfd) {
  std::vector<std::string> masked;
  const std::string root = worktree.root + "/";
  for (const boundary::Root& mask : compiled.masks) {
    if (mask.path.starts_with(root)) {
      masked.push_back(mask.path.substr(root.size()));
    }
  }
  if (masked.empty()) {
    return {};
  }
  // Where it is now: an attempt is built under another name than it gets.
  std::string path(PATH_MAX, '\0');
  const ssize_t size =
      ::readlink(("/proc/self/fd/" + std::to_string(attempt_dirfd)).c_str(), path.data(), path.size());
  if (size <= 0 || path.front() != '/') {
    return errno_error("find the attempt directory", "git", size < 0 ? errno : ENOENT);
  }
  path.resize(static_cast<std::size_t>(size));
  return workspace::hide_masked(worktree, attempt_dirfd, path, masked,
                                workspace::inspector_git(ground.machine()));
}

}  // namespace hitchrail::launch
