#include "repository.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "boundary/boundary.hpp"
#include "core/file.hpp"
#include "workspace/inspector.hpp"

namespace hitchrail::workspace::test {
namespace {

namespace fs = std::filesystem;

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (std::string& text : strings) {
    out.push_back(text.data());
  }
  out.push_back(nullptr);
  return out;
}

// Output goes to files: nothing here can block on a pipe.
GitOutcome run_directly(const GitCall& call, const std::string& directory) {
  const Fd in(call.input_fd >= 0 ? ::dup(call.input_fd) : sealed_memfd("in", call.input).value().release());
  const Fd out(::memfd_create("out", MFD_CLOEXEC));
  const Fd err(::memfd_create("err", MFD_CLOEXEC));
  ::lseek(in.get(), 0, SEEK_SET);
  std::vector<std::string> args = {"git"};
  args.insert(args.end(), call.args.begin(), call.args.end());
  std::vector<std::string> env = {"PATH=/usr/bin:/bin", "HOME=/nonexistent"};
  for (const auto& [name, value] : call.env) {
    env.push_back(name + "=" + value);
  }
  const std::vector<char*> argv = pointers(args);
  const std::vector<char*> envp = pointers(env);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::setpgid(0, 0);
    ::dup2(in.get(), 0);
    ::dup2(call.output_fd >= 0 ? call.output_fd : out.get(), 1);
    ::dup2(err.get(), 2);
    if (::chdir(directory.c_str()) == 0) {
      ::execve("/usr/bin/git", argv.data(), envp.data());
    }
    ::_exit(127);
  }
  GitOutcome outcome;
  const auto deadline = std::chrono::steady_clock::now() + call.timeout;
  int status = 0;
  while (::waitpid(pid, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      ::kill(-pid, SIGKILL);
      ::waitpid(pid, &status, 0);
      outcome.timed_out = true;
      break;
    }
    ::usleep(500);
  }
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  outcome.signal = !outcome.timed_out && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  ::lseek(out.get(), 0, SEEK_SET);
  ::lseek(err.get(), 0, SEEK_SET);
  outcome.output = read_all(out.get(), 256u << 20).value();
  outcome.error = read_all(err.get(), 1u << 20).value();
  outcome.output_truncated = outcome.output.size() > call.max_output;
  return outcome;
}

GitCall test_call(const std::vector<std::string>& args) {
  GitCall call;
  call.args = args;
  call.env = {{"GIT_CONFIG_NOSYSTEM", "1"},     {"GIT_CONFIG_GLOBAL", "/dev/null"},
              {"GIT_AUTHOR_NAME", "Ada"},       {"GIT_AUTHOR_EMAIL", "ada@example.org"},
              {"GIT_COMMITTER_NAME", "Ada"},    {"GIT_COMMITTER_EMAIL", "ada@example.org"},
              {"GIT_CONFIG_COUNT", "2"},        {"GIT_CONFIG_KEY_0", "protocol.file.allow"},
              {"GIT_CONFIG_VALUE_0", "always"}, {"GIT_CONFIG_KEY_1", "safe.directory"},
              {"GIT_CONFIG_VALUE_1", "*"}};
  call.timeout = std::chrono::milliseconds(60'000);
  return call;
}

}  // namespace

Scratch::Scratch() {
  std::string pattern = (fs::temp_directory_path() / "workspace-XXXXXX").string();
  REQUIRE(::mkdtemp(pattern.data()) != nullptr);
  path_ = fs::canonical(pattern).string();
}

Scratch::~Scratch() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string git(const std::string& directory, const std::vector<std::string>& args,
                const std::string& input) {
  GitCall call = test_call(args);
  call.input = input;
  GitOutcome outcome = run_directly(call, directory);
  if (outcome.exit_code != 0) {
    std::string text;
    for (const std::string& arg : args) {
      text += " " + arg;
    }
    FAIL("git" << text << ": " << outcome.exit_code << " " << outcome.error);
  }
  while (!outcome.output.empty() && outcome.output.back() == '\n') {
    outcome.output.pop_back();
  }
  return outcome.output;
}

bool git_ok(const std::string& directory, const std::vector<std::string>& args) {
  return run_directly(test_call(args), directory).exit_code == 0;
}

void write(const std::string& path, const std::string& bytes) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << bytes;
  file.close();
  REQUIRE(file.good());
}

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

bool exists(const std::string& path) {
  struct stat st {};
  return ::lstat(path.c_str(), &st) == 0;
}

Repository::Repository(const std::vector<std::string>& init) : path(scratch.path() + "/repo") {
  fs::create_directory(path);
  std::vector<std::string> args = {"init", "-q", "-b", "main"};
  args.insert(args.end(), init.begin(), init.end());
  git(path, args);
  write(path + "/one.txt", "one\n");
  write(path + "/dir/two.txt", "two\n");
  write(path + "/three.txt", "three\n");
  git(path, {"add", "."});
  git(path, {"commit", "-q", "-m", "first"});
  write(path + "/one.txt", "one, again\n");
  git(path, {"commit", "-q", "-a", "-m", "second"});
  attempt = scratch.path() + "/attempt";
  fs::create_directory(attempt);
  ::chmod(attempt.c_str(), 0700);
  attempt_fd = Fd(::open(attempt.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  REQUIRE(attempt_fd);
}

std::string Repository::head(const std::string& revision) const {
  return git(path, {"rev-parse", revision});
}

Worktree Repository::open(const OpenOptions& options) const {
  auto worktree = open_worktree(path, options);
  if (worktree.has_error()) {
    FAIL(told(worktree));
  }
  return worktree.value();
}

std::string git_in_run(const Repository& repository, const std::vector<std::string>& args) {
  std::vector<std::string> all = {"--git-dir=" + repository.attempt + "/git",
                                  "--work-tree=" + repository.path};
  all.insert(all.end(), args.begin(), args.end());
  return git(repository.path, all);
}

GitRunner direct_git() {
  return [](const GitCall& call) -> Result<GitOutcome> { return run_directly(call, call.worktree); };
}

GitRunner confined_git() {
  static const GitRunner runner = inspector_git(boundary::probe_machine());
  return runner;
}

}  // namespace hitchrail::workspace::test
