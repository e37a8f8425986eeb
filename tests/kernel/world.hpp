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

  // The preset and roots a test starts from; `programs` is granted as a package.
  [[nodiscard]] boundary::Preset preset() const;
  [[nodiscard]] boundary::Roots roots(const std::string& programs = "") const;
  [[nodiscard]] boundary::RunDirectories run() const;
  [[nodiscard]] int attempt() const { return attempt_.get(); }

  static const boundary::Machine& machine();  // probed once a process

 private:
  std::string base_;
  Fd attempt_;
};

}  // namespace hitchrail::test
