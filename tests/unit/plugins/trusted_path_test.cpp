#include "plugins/trusted_path.hpp"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "support/scratch.hpp"
#include "zoo.hpp"

namespace {

using namespace hitchrail;
using plugins::TrustedKind;

class Tree {
 public:
  Tree() {
    std::filesystem::create_directories(dir("a/b/c"));
    std::ofstream(file()) << "x";
    set("a", 0755);
    set("a/b", 0755);
    set("a/b/c", 0755);
    set("a/b/c/lib.so", 0644);
  }
  [[nodiscard]] std::string dir(const std::string& name) const {
    return std::string(root_.path()) + "/" + name;
  }
  [[nodiscard]] std::string file() const { return dir("a/b/c/lib.so"); }
  void set(const std::string& name, mode_t mode) const { REQUIRE(::chmod(dir(name).c_str(), mode) == 0); }

 private:
  test::TempDir root_;
};

std::string code_of(const std::string& path, TrustedKind kind = TrustedKind::file) {
  const auto opened = plugins::open_trusted(path, kind);
  return opened.has_error() ? opened.error().code : "ok";
}

TEST_CASE("a file below real directories of ours is opened") {
  const Tree tree;
  CHECK(code_of(tree.file()) == "ok");
  CHECK(code_of(tree.dir("a/b"), TrustedKind::directory) == "ok");
  CHECK(code_of(tree.dir("a//b/./c/lib.so")) == "ok");
}

TEST_CASE("write permission for group or others at any component is refused and the component is named") {
  for (const char* name : {"a", "a/b", "a/b/c", "a/b/c/lib.so"}) {
    for (const mode_t bit : {S_IWGRP, S_IWOTH}) {
      const Tree tree;
      tree.set(name, (std::string_view(name).ends_with(".so") ? 0644u : 0755u) | bit);
      const auto opened = plugins::open_trusted(tree.file(), TrustedKind::file);
      INFO(name << " " << bit);
      REQUIRE(opened.has_error());
      CHECK(opened.error().code == "plugin-path-unsafe");
      CHECK(opened.error().object == tree.dir(name));
      CHECK(opened.error().remedy == "chmod go-w " + tree.dir(name));
    }
  }
}

TEST_CASE("a sticky folder may be writable by others") {
  const Tree tree;
  tree.set("a/b", 01777);
  CHECK(code_of(tree.file()) == "ok");
}

TEST_CASE("a link at any component is refused, also one that leads to a good place") {
  const Tree tree;
  std::filesystem::create_symlink(tree.dir("a"), tree.dir("link"));
  std::filesystem::create_symlink(tree.file(), tree.dir("a/b/c/link.so"));
  CHECK(code_of(tree.dir("link/b/c/lib.so")) == "plugin-path-unsafe");
  CHECK(code_of(tree.dir("a/b/c/link.so")) == "plugin-path-unsafe");
}

TEST_CASE("a path with .. is refused") {
  const Tree tree;
  CHECK(code_of(tree.dir("a/b/../b/c/lib.so")) == "plugin-path-unsafe");
}

TEST_CASE("what is not a regular file is refused and never waited for") {
  const Tree tree;
  REQUIRE(::mkfifo(tree.dir("a/fifo.so").c_str(), 0600) == 0);
  CHECK(code_of(tree.dir("a/fifo.so")) == "plugin-path-unsafe");
  CHECK(code_of(tree.dir("a/b")) == "plugin-path-unsafe");
  CHECK(code_of(tree.file(), TrustedKind::directory) == "plugin-path-unsafe");
  CHECK(code_of("/") == "plugin-path-unsafe");
}

TEST_CASE("what is not there is said so") {
  const Tree tree;
  CHECK(code_of(tree.dir("a/none/lib.so")) == "enoent");
  CHECK(code_of("") == "plugin-path-unsafe");
}

TEST_CASE("a file of another user is refused") {
  // Seen from an ordinary uid: everything root made is fine, what a third user owns is not.
  const Tree tree;
  if (::geteuid() == 0) {
    REQUIRE(::chown(tree.dir("a/b").c_str(), 4242, 4242) == 0);
    const auto opened = plugins::open_trusted(tree.file(), TrustedKind::file);
    REQUIRE(opened.has_error());
    CHECK(opened.error().object == tree.dir("a/b"));
    CHECK(opened.error().detail.find("owner uid 4242") != std::string::npos);
  } else {
    // Without root: a file that belongs to us, looked at by nobody else than us, must pass.
    CHECK(code_of(tree.file()) == "ok");
  }
}

TEST_CASE("an ordinary user may use what root owns") {
  CHECK(test::in_ordinary_child([] {
          return code_of("/bin/../bin/sh") == "plugin-path-unsafe" && code_of("/usr/bin/env") == "ok" ? 0 : 1;
        }) == 0);
}

}  // namespace
