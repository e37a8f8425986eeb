#include "workspace/nested_git.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/fd.hpp"
#include "core/ids.hpp"

using namespace hitchrail;
namespace fs = std::filesystem;

namespace {

struct Tree {
  Tree() {
    char name[] = "/var/tmp/hitchrail-nested-XXXXXX";
    root = ::mkdtemp(name);
    fs::create_directories(root + "/.git/hooks");
    fs::create_directories(root + "/old/in/.git/hooks");
    write("old/in/.git/config", "[core]\n");
    fs::create_directories(root + "/sub");
    write("sub/.git", "gitdir: ../.git/modules/sub\n");
    ::usleep(30'000);
    fs::create_directories(root + "/.github");
    since = unix_millis_now();
    ::usleep(30'000);
  }
  ~Tree() { fs::remove_all(root); }
  void write(const std::string& path, const std::string& text) const {
    std::ofstream(root + "/" + path) << text;
  }
  workspace::NestedGit found() const {
    Fd fd(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const auto found = workspace::changed_nested_git(fd.get(), since);
    REQUIRE(found.has_value());
    REQUIRE(found.value().complete);
    return found.value();
  }
  std::vector<std::string> changed() const { return found().changed; }
  std::string root;
  std::int64_t since = 0;
};

}  // namespace

TEST_CASE("git directories that were there before the run are not reported") {
  Tree tree;
  tree.write("old/in/file", "new work\n");
  tree.write(".git/config", "the top level is the boundary's business\n");
  CHECK(tree.changed().empty());
}

TEST_CASE("a new git directory below the top level is reported") {
  Tree tree;
  fs::create_directories(tree.root + "/lib/deep/.git");
  CHECK(tree.changed() == std::vector<std::string>{"lib/deep/.git"});
}

TEST_CASE("a changed configuration of an old one is reported, also with its times set back") {
  Tree tree;
  tree.write("old/in/.git/config", "[core]\nfsmonitor = x\n");
  const timespec times[2] = {{1, 0}, {1, 0}};
  REQUIRE(::utimensat(AT_FDCWD, (tree.root + "/old/in/.git/config").c_str(), times, 0) == 0);
  CHECK(tree.changed() == std::vector<std::string>{"old/in/.git"});
}

TEST_CASE("a new hook of an old one is reported") {
  Tree tree;
  tree.write("old/in/.git/hooks/pre-commit", "#!/bin/sh\n");
  CHECK(tree.changed() == std::vector<std::string>{"old/in/.git"});
}

TEST_CASE("a submodule's file that became a directory is reported") {
  Tree tree;
  fs::remove(tree.root + "/sub/.git");
  fs::create_directories(tree.root + "/sub/.git");
  CHECK(tree.changed() == std::vector<std::string>{"sub/.git"});
}

TEST_CASE("a repository of any other name is reported when the run made it, completed it or changed it") {
  Tree tree;
  for (const char* name :
       {"/lib/x.git/objects", "/lib/x.git/refs", "/half/objects", "/moved/refs", "/a/objects"}) {
    fs::create_directories(tree.root + name);
  }
  tree.write("half/HEAD", "x");
  tree.write("moved/HEAD", "x");
  tree.write("lib/x.git/HEAD", "ref: refs/heads/main\n");
  fs::create_directories(tree.root + "/linked");
  tree.write("linked/HEAD", "x");
  tree.write("linked/commondir", "../..\n");
  CHECK(tree.changed() == std::vector<std::string>{"lib/x.git", "linked"});
  ::usleep(30'000);
  tree.since = unix_millis_now();
  ::usleep(30'000);
  tree.write("lib/x.git/objects/new", "only an object\n");
  CHECK(tree.changed().empty());
  tree.write("lib/x.git/config", "[core]\nfsmonitor = x\n");
  fs::rename(tree.root + "/a/objects", tree.root + "/moved/objects");
  CHECK(tree.changed() == std::vector<std::string>{"lib/x.git", "moved"});
}

TEST_CASE("links are not followed") {
  Tree tree;
  fs::create_directory_symlink("/", tree.root + "/rootlink");
  fs::create_directory_symlink("..", tree.root + "/old/up");
  CHECK(tree.changed().empty());
}

TEST_CASE("dotfiles that came by the run are named, also renamed ones; old ones are not") {
  Tree tree;
  CHECK(tree.found().dot_names.empty());
  fs::create_directories(tree.root + "/old/.cache/.deep");
  tree.write(".env", "x");
  tree.write("file", "x");
  fs::rename(tree.root + "/file", tree.root + "/old/.renamed");
  fs::create_directories(tree.root + "/.claude");  // the boundary's
  const workspace::NestedGit found = tree.found();
  CHECK(found.dot_names ==
        std::vector<std::string>{".env", "old/.cache", "old/.cache/.deep", "old/.renamed"});
  CHECK(found.dot_count == 4);
  CHECK(found.changed.empty());
}

TEST_CASE("an old dot folder with a new file in it is no new name, and the list is bounded") {
  Tree tree;
  tree.write(".github/new", "x");
  CHECK(tree.found().dot_names.empty());
  for (int i = 0; i < 100; ++i) {
    tree.write(".n" + std::to_string(i), "x");
  }
  CHECK(tree.found().dot_names.size() == 64);
  CHECK(tree.found().dot_count == 100);
}
