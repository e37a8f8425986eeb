#include "pathfs/pathfs.hpp"
#include "pathfs/raw.hpp"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/file.hpp"

namespace hitchrail::pathfs {
namespace {

namespace fs = std::filesystem;

// A directory tree with one of everything, gone at the end.
struct Tree {
  Tree() {
    std::string pattern = (fs::temp_directory_path() / "pathfs-XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path = fs::canonical(pattern).string();
    fs::create_directories(path + "/root/dir/sub");
    std::ofstream(path + "/root/dir/file") << "content";
    std::ofstream(path + "/outside") << "outside";
    fs::create_symlink("dir", path + "/root/link");
    fs::create_symlink("../outside", path + "/root/dir/escape");
    fs::create_symlink("/", path + "/root/absolute");
    REQUIRE(::mkfifo((path + "/root/fifo").c_str(), 0600) == 0);
    root = Fd(::open((path + "/root").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    REQUIRE(root);
  }
  ~Tree() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  std::string path;
  Fd root;
};

template <class T>
std::string code(const Result<T>& result) {
  return result.has_error() ? result.error().code : "";
}

TEST_CASE("a file below the root is read, by its components") {
  const Tree tree;
  CHECK(read_beneath(tree.root.get(), "dir/file", 100).value() == "content");
  CHECK(open_directory_beneath(tree.root.get(), "dir/sub").has_value());
}

TEST_CASE("no link is followed, wherever in the path it stands") {
  const Tree tree;
  CHECK(code(read_beneath(tree.root.get(), "link/file", 100)) == "symlink-rejected");
  CHECK(code(read_beneath(tree.root.get(), "dir/escape", 100)) == "symlink-rejected");
  CHECK(code(open_directory_beneath(tree.root.get(), "link")) == "symlink-rejected");
  CHECK(code(open_directory_beneath(tree.root.get(), "absolute/etc")) == "symlink-rejected");
}

TEST_CASE("a path that could leave the root is refused before anything is opened") {
  const Tree tree;
  for (const char* path : {"", "/", "/etc/passwd", "..", "../outside", "dir/../../outside", "//"}) {
    INFO(path);
    CHECK(code(open_beneath(tree.root.get(), path, O_RDONLY)) == "path-escape");
  }
  CHECK(code(open_beneath(tree.root.get(), std::string("dir\0/x", 6), O_RDONLY)) == "path-escape");
}

TEST_CASE("a FIFO never blocks: it is refused by its type") {
  const Tree tree;
  CHECK(code(read_beneath(tree.root.get(), "fifo", 100)) == "not-regular-file");
  CHECK(code(open_directory_beneath(tree.root.get(), "fifo")) == "not-directory");
  CHECK(code(open_regular_beneath(tree.root.get(), "dir")) == "not-regular-file");
}

TEST_CASE("what is missing or too large says so with its name") {
  const Tree tree;
  const auto missing = read_beneath(tree.root.get(), "dir/none", 100);
  CHECK(code(missing) == "not-found");
  CHECK(missing.error().object == "dir/none");
  const auto large = read_beneath(tree.root.get(), "dir/file", 6);
  CHECK(code(large) == "too-large");
  CHECK(large.error().object == "dir/file");
}

TEST_CASE("an identity is the file's, not the name's") {
  const Tree tree;
  fs::create_hard_link(tree.path + "/root/dir/file", tree.path + "/root/second");
  const Identity one = identify_at(tree.root.get(), "second").value();
  const Fd file = open_regular_beneath(tree.root.get(), "dir/file").value();
  CHECK(identify(file.get()).value().same_file(one));
  CHECK(one.type == FileType::regular);
  CHECK(one.size == 7);
  CHECK(one.uid == ::geteuid());
  CHECK(identify_at(tree.root.get(), "link").value().type == FileType::symlink);
  CHECK(identify_at(tree.root.get(), "fifo").value().type == FileType::other);
  const Identity absent = identify_at(tree.root.get(), "none").value();
  CHECK(absent.type == FileType::absent);
  CHECK_FALSE(absent.same_file(absent));
}

TEST_CASE("the operator's directory is resolved to its canonical path") {
  const Tree tree;
  for (const std::string tail : {"", "/", "/.", "//./", "/dir/..", "/dir/sub/../.."}) {
    INFO(tail);
    CHECK(resolve_directory(tree.path + "/root" + tail).value().path == tree.path + "/root");
  }
  CHECK(resolve_directory("/").value().path == "/");
}

TEST_CASE("a link on the way is followed when it is ours, the last component is never a link") {
  const Tree tree;
  CHECK(resolve_directory(tree.path + "/root/link/sub").value().path == tree.path + "/root/dir/sub");
  for (const char* tail : {"", "/", "/."}) {
    INFO(tail);
    CHECK(code(resolve_directory(tree.path + "/root/link" + tail)) == "symlink-rejected");
  }
}

TEST_CASE("a link on the way that somebody else made is refused") {
  const Tree tree;
  if (::geteuid() == 0) {  // only root can make somebody else's link here
    REQUIRE(::lchown((tree.path + "/root/link").c_str(), 12345, 12345) == 0);
    CHECK(code(resolve_directory(tree.path + "/root/link/sub")) == "symlink-rejected");
  } else {  // and everybody has root's: /proc/self is one, and it is followed
    CHECK(resolve_directory("/proc/self/task").has_value());
  }
}

TEST_CASE("links in a circle, files and missing names end the resolution with their code") {
  const Tree tree;
  fs::create_symlink("b", tree.path + "/a");
  fs::create_symlink("a", tree.path + "/b");
  CHECK(code(resolve_directory(tree.path + "/a/x")) == "symlink-rejected");
  CHECK(code(resolve_directory(tree.path + "/outside")) == "not-directory");
  CHECK(code(resolve_directory(tree.path + "/outside/x")) == "not-directory");
  CHECK(code(resolve_directory(tree.path + "/none")) == "not-found");
  CHECK(code(resolve_directory("")) == "not-found");
  CHECK(code(resolve_directory(tree.path + "/root/fifo")) == "not-directory");
}

TEST_CASE("a directory lies within itself and what is above it, by identity") {
  const Tree tree;
  const Fd sub = open_directory_beneath(tree.root.get(), "dir/sub").value();
  const Identity root = identify(tree.root.get()).value();
  CHECK(lies_within(sub.get(), root).value());
  CHECK(lies_within(tree.root.get(), root).value());
  CHECK_FALSE(lies_within(tree.root.get(), identify(sub.get()).value()).value());
}

TEST_CASE("the raw calls follow nothing either, and say why by errno") {
  const Tree tree;
  const auto why = [&tree](const std::string& path, int flags) {
    errno = 0;
    return raw::open_below(tree.root.get(), path, flags) ? 0 : errno;
  };
  CHECK(why("", O_RDONLY | O_DIRECTORY) == 0);
  CHECK(why("dir/sub", O_RDONLY | O_DIRECTORY) == 0);
  CHECK(why("link/file", O_RDONLY) == ELOOP);
  CHECK(why("link", O_RDONLY | O_DIRECTORY) == ELOOP);
  CHECK(why("dir/file/x", O_RDONLY) == ENOTDIR);
  CHECK(why("none", O_RDONLY) == ENOENT);
  CHECK(why("../outside", O_RDONLY) == EXDEV);
  CHECK(why(std::string(256, 'x'), O_RDONLY) == ENAMETOOLONG);
  raw::Stat seen;
  CHECK(raw::look(tree.root.get(), "link", seen));
  CHECK(S_ISLNK(seen.mode));
  CHECK(raw::look(tree.root.get(), "", seen));
  CHECK(S_ISDIR(seen.mode));
  for (const char* path : {"link/file", "..", "../outside", "/etc"}) {
    INFO(path);
    CHECK_FALSE(raw::look(tree.root.get(), path, seen));
    CHECK(errno == EINVAL);
  }
  std::size_t names = 0;
  CHECK(raw::list_names(tree.root.get(), [&names](const char*, unsigned char) { return ++names > 0; }) == 0);
  CHECK(names == 4);
}

TEST_CASE("a component exchanged with a link while it is opened never leads outside") {
  const Tree tree;
  fs::create_directory(tree.path + "/secret");
  std::ofstream(tree.path + "/secret/file") << "secret";
  fs::create_symlink(tree.path + "/secret", tree.path + "/root/swap");
  const pid_t exchanger = ::fork();
  if (exchanger == 0) {
    const std::string a = tree.path + "/root/dir";
    const std::string b = tree.path + "/root/swap";
    for (;;) {
      ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE);
    }
  }
  int seen = 0;
  int leaked = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto text = read_beneath(tree.root.get(), "dir/file", 100);
    seen += text.has_value() ? 1 : 0;
    leaked += text.has_value() && text.value() != "content" ? 1 : 0;
  }
  ::kill(exchanger, SIGKILL);
  ::waitpid(exchanger, nullptr, 0);
  CHECK(seen > 0);
  CHECK(leaked == 0);
}

}  // namespace
}  // namespace hitchrail::pathfs
