#pragma once
// Repositories for tests, made by the real git, and two ways to run it: directly, for what the service does
// with the answers, and in the boundary, for what a hostile repository can do.

#include <string>
#include <vector>

#include "core/fd.hpp"
#include "workspace/workspace.hpp"

namespace hitchrail::workspace::test {

// A temporary directory that is not below anybody's home, gone at the end.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Runs git with an identity and no configuration of this machine; its stdout, or the test fails.
std::string git(const std::string& directory, const std::vector<std::string>& args,
                const std::string& input = {});
bool git_ok(const std::string& directory, const std::vector<std::string>& args);
void write(const std::string& path, const std::string& bytes);
std::string read(const std::string& path);
bool exists(const std::string& path);

// `repo/` with two commits on main, and `attempt/`.
struct Repository {
  explicit Repository(const std::vector<std::string>& init = {});
  [[nodiscard]] std::string head(const std::string& revision = "HEAD") const;
  [[nodiscard]] Worktree open(const OpenOptions& options = {}) const;

  Scratch scratch;
  std::string path;     // of the repository
  std::string attempt;  // of the attempt directory
  Fd attempt_fd;
};

// git as the run sees it: the private directory in the place of the real one.
std::string git_in_run(const Repository& repository, const std::vector<std::string>& args);

GitRunner direct_git();
GitRunner confined_git();

template <class T>
std::string code(const Result<T>& result) {
  return result.has_error() ? result.error().code : "";
}
template <class T>
std::string told(const Result<T>& result) {
  return result.has_error()
             ? result.error().code + ": " + result.error().object + ": " + result.error().detail
             : "";
}

}  // namespace hitchrail::workspace::test
