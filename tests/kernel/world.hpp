#pragma once
// A small world for boundary tests: a temporary directory with a worktree, the directories of one attempt,
// and things outside that must not be reached. Removed at the end.

#include <filesystem>
#include <string>

#include "boundary/boundary.hpp"

namespace hitchrail::test {

class World {
 public:
  World();
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  [[nodiscard]] std::string path(const std::string& name) const { return base_ + "/" + name; }
  [[nodiscard]] std::string worktree() const { return path("tree"); }
  [[nodiscard]] std::string outside() const { return path("outside"); }
  void write(const std::string& path, const std::string& text) const;
  [[nodiscard]] std::string read(const std::string& path) const;

  // Run by root: makes worktree and run directories those of uid 65534. Else nothing: they are this user's.
  void give_to_user() const;

  // The preset and roots a test starts from; `programs` is granted as a package.
  [[nodiscard]] boundary::Preset preset() const;
  [[nodiscard]] boundary::Roots roots(const std::string& programs = "") const;
  [[nodiscard]] boundary::RunDirectories run() const;
  [[nodiscard]] int attempt() const { return attempt_.get(); }

  static const boundary::Machine& machine();  // probed once a process
  static bool has_landlock();                 // ABI 3: the landlock backend is to be had
  static std::vector<boundary::Backend> backends();

  // Compiled with placeholders made; what goes wrong fails the test.
  [[nodiscard]] boundary::Compiled compiled(boundary::Backend backend) const;
  // `sh -c SCRIPT` inside, from the worktree.
  [[nodiscard]] boundary::Command shell(const boundary::Compiled& compiled, const std::string& script) const;
  [[nodiscard]] boundary::RunOutput run_shell(boundary::Backend backend, const std::string& script,
                                              boundary::RunLimits limits = {}) const;

 private:
  std::string base_;
  Fd attempt_;
};

// How many processes of this machine have `token` in their command line.
int processes_with(const std::string& token);
// Waits up to five seconds for it to be `count`.
bool becomes(const std::string& token, int count);

}  // namespace hitchrail::test
