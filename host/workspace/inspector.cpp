#include "workspace/inspector.hpp"

#include <unistd.h>

#include <algorithm>
#include <memory>

#include "core/file.hpp"

namespace hitchrail::workspace {
namespace {

constexpr std::size_t kMaxInput = 512u << 20;

bool lies_in(const std::string& path, const std::string& directory) {
  return path == directory ||
         (path.size() > directory.size() && path.starts_with(directory) && path[directory.size()] == '/');
}

Result<boundary::Executable> system_git() {
  for (const char* path : {"/usr/bin/git", "/bin/git"}) {
    auto root = boundary::resolve_trusted(path);
    if (root.has_value()) {
      return boundary::resolve_executable(root.value().path);
    }
  }
  return Error{ErrorClass::environment, "git-missing",          "run git",
               "/usr/bin/git",          "git is not installed", "install it: apt-get install git"};
}

// Every path once, and none that lies in one that is granted already.
Result<boundary::Inspector> inspector_of(const GitCall& call) {
  boundary::Inspector out;
  HR_TRY(worktree, boundary::resolve_root(call.worktree));
  out.worktree = std::move(worktree);
  std::vector<std::string> granted = {call.worktree};
  if (!call.import_git_dir.empty()) {
    HR_TRY(import, boundary::inspect_writable_root(call.import_git_dir));
    out.import_git_dir = std::move(import);
    granted.push_back(call.import_git_dir);
  }
  for (const std::string& path : call.writable) {
    HR_TRY(root, boundary::resolve_root(path));
    out.writable.push_back(std::move(root));
  }
  out.network = call.network;
  std::vector<std::string> readable = call.readable;
  std::sort(readable.begin(), readable.end());
  for (const std::string& path : readable) {
    const bool covered = std::any_of(granted.begin(), granted.end(),
                                     [&](const std::string& directory) { return lies_in(path, directory); });
    if (!covered) {
      HR_TRY(root, boundary::resolve_root(path));
      out.git_directories.push_back(std::move(root));
      granted.push_back(path);
    }
  }
  return out;
}

Result<GitOutcome> outcome_of(const GitCall& call, boundary::RunOutput ran) {
  GitOutcome out;
  out.error = std::move(ran.err);
  switch (ran.end) {
    case boundary::RunOutput::End::exited:
      out.exit_code = ran.value;
      break;
    case boundary::RunOutput::End::signaled:
      out.signal = ran.value;
      break;
    case boundary::RunOutput::End::stopped:  // nobody stops it
    case boundary::RunOutput::End::timed_out:
      out.timed_out = true;
      break;
    case boundary::RunOutput::End::output_limit:
      out.output_truncated = true;
      break;
  }
  if (call.output_fd >= 0) {
    HR_CHECK(write_all(call.output_fd, ran.out));
  } else {
    out.output = std::move(ran.out);
  }
  return out;
}

}  // namespace

GitRunner inspector_git(const boundary::Machine& machine, const boundary::Options& options) {
  const auto shared = std::make_shared<const boundary::Machine>(machine);
  return [shared, options](const GitCall& call) -> Result<GitOutcome> {
    HR_TRY(inspector, inspector_of(call));
    HR_TRY(compiled, boundary::inspector_boundary(inspector, *shared, options));
    if (compiled.backend == boundary::Backend::native) {
      for (const std::string& path : call.hidden) {
        auto entry = boundary::resolve_root(path, false);
        if (entry.has_value() && !entry.value().directory) {  // gone meanwhile: nothing to wait on
          compiled.masks.push_back(std::move(entry).value());
        }
      }
    }
    HR_CHECK(boundary::admit(compiled));
    boundary::Command command;
    HR_TRY(git, system_git());
    command.executable = std::move(git);
    command.argv = {"git"};
    command.argv.insert(command.argv.end(), call.args.begin(), call.args.end());
    command.env = call.env;
    command.env.emplace_back("HOME", "/nonexistent");
    command.env.emplace_back("PATH", "/usr/bin:/bin");
    command.cwd = call.worktree;
    std::string input = call.input;
    if (call.input_fd >= 0) {
      if (::lseek(call.input_fd, 0, SEEK_SET) != 0) {
        return errno_error("seek", "input of git", errno);
      }
      HR_TRY(bytes, read_all(call.input_fd, kMaxInput));
      input = std::move(bytes);
    }
    boundary::RunLimits limits;
    limits.max_stdout = call.max_output;
    limits.max_stderr = call.max_error;
    limits.wall_ms = call.timeout.count();
    HR_TRY(ran, boundary::run(compiled, command, limits, input));
    return outcome_of(call, std::move(ran));
  };
}

}  // namespace hitchrail::workspace
