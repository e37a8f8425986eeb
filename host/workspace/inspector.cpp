#include "workspace/inspector.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "core/file.hpp"

namespace hitchrail::workspace {

namespace {

// What a pack or a file list may weigh in memory while it passes from one boundary to the next.
constexpr std::size_t max_input_bytes = 256u << 20;

Result<boundary::Executable> find_git() {
  for (const char* path : {"/usr/bin/git", "/usr/local/bin/git", "/bin/git"}) {
    if (::access(path, X_OK) == 0) {
      HR_TRY(root, boundary::resolve_trusted(path));
      return boundary::resolve_executable(root.path);
    }
  }
  return Error{
      ErrorClass::environment, "git-missing", "find git", "/usr/bin/git", "the git program is not installed",
      "apt-get install git"};
}

Result<boundary::Compiled> compile_call(const GitCall& call, const boundary::Machine& machine) {
  HR_TRY(compiled, boundary::probe_boundary({}, machine));
  for (const auto& view : call.views) {
    struct stat status {};
    if (::lstat(view.source.c_str(), &status) != 0) {
      return errno_error("look at", view.source, errno);
    }
    HR_TRY(root, boundary::resolve_root(view.source, S_ISDIR(status.st_mode)));
    boundary::Grant grant;
    grant.role = view.writable ? "write" : "read";
    grant.source = std::move(root);
    grant.target = view.target;
    grant.writable = view.writable;
    grant.executable = false;
    compiled.grants.push_back(std::move(grant));
  }
  if (::geteuid() == 0 && call.uid != 0) {
    compiled.uid = call.uid;
    compiled.gid = call.gid;
    compiled.switch_user = true;
  }
  return compiled;
}

Result<std::string> input_of(const GitCall& call) {
  if (call.input_fd < 0) {
    return call.input;
  }
  if (::lseek(call.input_fd, 0, SEEK_SET) != 0) {
    return errno_error("read", "git input", errno);
  }
  return read_all(call.input_fd, max_input_bytes);
}

Result<GitOutcome> run_git(const GitCall& call, const boundary::Machine& machine) {
  HR_TRY(git, find_git());
  HR_TRY(compiled, compile_call(call, machine));
  HR_TRY(input, input_of(call));
  boundary::Command command;
  command.executable = git;
  command.argv.push_back("git");
  command.argv.insert(command.argv.end(), call.args.begin(), call.args.end());
  command.env = call.env;
  command.cwd = call.cwd;
  boundary::RunLimits limits;
  limits.max_stdout = call.output_fd >= 0 ? max_input_bytes : call.max_output;
  limits.max_stderr = call.max_error;
  limits.wall_ms = call.timeout.count();
  HR_TRY(run, boundary::run(compiled, command, limits, input));
  GitOutcome outcome;
  outcome.timed_out = run.end == boundary::RunOutput::End::timed_out;
  outcome.output_truncated = run.out_truncated || run.end == boundary::RunOutput::End::output_limit;
  if (run.end == boundary::RunOutput::End::exited) {
    outcome.exit_code = run.value;
  } else if (run.end == boundary::RunOutput::End::signaled) {
    outcome.signal = run.value;
  }
  outcome.error = std::move(run.err);
  if (call.output_fd >= 0) {
    HR_CHECK(write_all(call.output_fd, run.out));
  } else {
    outcome.output = std::move(run.out);
  }
  return outcome;
}

}  // namespace

GitRunner inspector_git(const boundary::Machine& machine) {
  return [machine](const GitCall& call) { return run_git(call, machine); };
}

}  // namespace hitchrail::workspace
