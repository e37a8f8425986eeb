// Single changes below a root: what they do, what they refuse, and that the refused entry stays as it was.
#include "pathfs/edit.hpp"

#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <catch2/catch.hpp>

#include "unit/pathfs/world.hpp"

namespace hitchrail::pathfs {
namespace {

using namespace test;

// One of everything, and the same names outside.
struct Tree {
  Tree() {
    fs::create_directories(top / "root/dir/sub");
    fs::create_directories(top / "outside");
    put(top / "root/dir/file", "content");
    put(top / "outside/file", "outside");
    fs::create_symlink(top / "outside", top / "root/linked");
    fs::create_symlink(top / "outside/file", top / "root/dir/link");
    fs::create_symlink("nowhere", top / "root/dir/dangling");
    REQUIRE(::mkfifo((top / "root/dir/fifo").c_str(), 0600) == 0);
    root = Fd(::open((top / "root").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    REQUIRE(root);
    outside = picture(top / "outside");
  }
  ~Tree() { CHECK(picture(top / "outside") == outside); }

  Temporary top;
  Fd root;
  std::map<std::string, std::string> outside;
};

std::vector<std::string> names(const Tree& tree, const std::string& directory) {
  const Fd fd = directory.empty() ? Fd(::dup(tree.root.get()))
                                  : open_directory_beneath(tree.root.get(), directory).value();
  return list_directory(fd.get()).value();
}

mode_t mode_of(const std::string& path) {
  struct stat st {};
  REQUIRE(::lstat(path.c_str(), &st) == 0);
  return st.st_mode & 07777;
}

TEST_CASE("write makes a file, replaces one whole, and leaves nothing else behind") {
  const Tree tree;
  const int root = tree.root.get();
  const Identity made = write_beneath(root, "dir/new", "first").value();
  CHECK(made.type == FileType::regular);
  CHECK(mode_of(tree.top / "root/dir/new") == 0644);
  CHECK(get(tree.top / "root/dir/new") == "first");
  REQUIRE(::chmod((tree.top / "root/dir/new").c_str(), 0751) == 0);
  const Identity replaced = write_beneath(root, "dir/new", "second").value();
  CHECK(get(tree.top / "root/dir/new") == "second");
  CHECK(mode_of(tree.top / "root/dir/new") == 0751);
  CHECK(replaced.unchanged(identify_beneath(root, "dir/new").value()));
  CHECK_FALSE(replaced.same_file(made));
  CHECK(names(tree, "dir") == std::vector<std::string>{"dangling", "fifo", "file", "link", "new", "sub"});
}

TEST_CASE("a reader that has the old file open keeps the old content") {
  const Tree tree;
  const Fd reader = open_regular_beneath(tree.root.get(), "dir/file").value();
  REQUIRE(write_beneath(tree.root.get(), "dir/file", "x").has_value());
  char bytes[16] = {};
  CHECK(::read(reader.get(), bytes, sizeof bytes) == 7);
  CHECK(std::string(bytes) == "content");
}

TEST_CASE("set-id bits do not survive a write") {
  const Tree tree;
  REQUIRE(::chmod((tree.top / "root/dir/file").c_str(), 06755) == 0);
  REQUIRE(write_beneath(tree.root.get(), "dir/file", "x").has_value());
  CHECK(mode_of(tree.top / "root/dir/file") == 0755);
}

TEST_CASE("a file that root replaces keeps its owner") {
  const Tree tree;
  const std::string file = tree.top / "root/dir/file";
  if (::geteuid() == 0) {
    REQUIRE(::chown(file.c_str(), 12345, 23456) == 0);
  }
  const Identity before = identify_beneath(tree.root.get(), "dir/file").value();
  const Identity after = write_beneath(tree.root.get(), "dir/file", "x").value();
  CHECK(after.uid == before.uid);
  CHECK(after.gid == before.gid);
}

TEST_CASE("write without replacing refuses every name that is taken") {
  const Tree tree;
  WriteOptions fresh;
  fresh.replace = false;
  const auto taken = write_beneath(tree.root.get(), "dir/file", "x", fresh);
  CHECK(code(taken) == "io");
  CHECK(io_reason(taken.error()) == "eexist");
  CHECK(get(tree.top / "root/dir/file") == "content");
  CHECK(code(write_beneath(tree.root.get(), "dir/dangling", "x", fresh)) == "symlink-rejected");
}

TEST_CASE("write refuses links, directories and what is no file, and never waits for it") {
  const Tree tree;
  const int root = tree.root.get();
  CHECK(code(write_beneath(root, "dir/link", "x")) == "symlink-rejected");
  CHECK(code(write_beneath(root, "dir/dangling", "x")) == "symlink-rejected");
  CHECK(code(write_beneath(root, "linked/file", "x")) == "symlink-rejected");
  CHECK(code(write_beneath(root, "linked/new", "x")) == "symlink-rejected");
  CHECK(code(write_beneath(root, "dir/sub", "x")) == "not-regular-file");
  CHECK(code(write_beneath(root, "dir/fifo", "x")) == "not-regular-file");
  CHECK(code(write_beneath(root, "dir/file/x", "x")) == "not-directory");
  CHECK(code(write_beneath(root, "none/x", "x")) == "not-found");
  CHECK(code(write_beneath(root, "../outside/file", "x")) == "path-escape");
  CHECK(code(write_beneath(root, tree.top / "outside/file", "x")) == "path-escape");
  CHECK(names(tree, "dir").size() == 5);
}

TEST_CASE("mkdir makes one directory, or all that are missing") {
  const Tree tree;
  const int root = tree.root.get();
  CHECK(make_directory_beneath(root, "dir/one").has_value());
  CHECK(io_reason(make_directory_beneath(root, "dir/one").error()) == "eexist");
  CHECK(code(make_directory_beneath(root, "a/b/c")) == "not-found");
  DirectoryOptions parents;
  parents.parents = true;
  parents.mode = 0700;
  const Fd deep = make_directory_beneath(root, "a/b/c", parents).value();
  CHECK(identify(deep.get()).value().same_file(identify_beneath(root, "a/b/c").value()));
  CHECK(mode_of(tree.top / "root/a/b") == 0700);
  CHECK(make_directory_beneath(root, "a/b/c", parents).has_value());
}

TEST_CASE("mkdir makes what is missing below a directory that may be entered and not read") {
  const Tree tree;
  fs::create_directories(tree.top / "root/closed/open");
  REQUIRE(::chmod((tree.top / "root/closed").c_str(), 0300) == 0);
  DirectoryOptions parents;
  parents.parents = true;
  CHECK(make_directory_beneath(tree.root.get(), "closed/open/new", parents).has_value());
  REQUIRE(::chmod((tree.top / "root/closed").c_str(), 0700) == 0);
}

TEST_CASE("a directory that root makes is its new owner's") {
  const Tree tree;
  DirectoryOptions options;
  options.owner = ::geteuid() == 0 ? Owner{12345, 23456} : Owner{::geteuid(), ::getegid()};
  options.parents = true;
  REQUIRE(make_directory_beneath(tree.root.get(), "dir/a/b", options).has_value());
  for (const char* path : {"dir/a", "dir/a/b"}) {
    const Identity made = identify_beneath(tree.root.get(), path).value();
    CHECK(made.uid == options.owner->uid);
    CHECK(made.gid == options.owner->gid);
  }
}

TEST_CASE("mkdir goes through no link and over no file") {
  const Tree tree;
  DirectoryOptions parents;
  parents.parents = true;
  for (const bool with : {false, true}) {
    parents.parents = with;
    INFO(with);
    CHECK(code(make_directory_beneath(tree.root.get(), "linked/new", parents)) == "symlink-rejected");
    CHECK(code(make_directory_beneath(tree.root.get(), "dir/file/new", parents)) == "not-directory");
    CHECK(code(make_directory_beneath(tree.root.get(), "dir/../new", parents)) == "path-escape");
  }
  parents.parents = true;
  CHECK(code(make_directory_beneath(tree.root.get(), "dir/dangling/new", parents)) == "symlink-rejected");
  CHECK(code(make_directory_beneath(tree.root.get(), "dir/link", parents)) == "symlink-rejected");
  CHECK(code(make_directory_beneath(tree.root.get(), "dir/file", parents)) == "not-directory");
}

TEST_CASE("chmod changes files and directories, also those that we may not read") {
  const Tree tree;
  const int root = tree.root.get();
  CHECK(chmod_beneath(root, "dir/file", 0640).has_value());
  CHECK(mode_of(tree.top / "root/dir/file") == 0640);
  for (const mode_t mode : {mode_t{0000}, mode_t{0200}, mode_t{0000}, mode_t{0644}}) {
    INFO(mode);
    CHECK(chmod_beneath(root, "dir/file", mode).has_value());
    CHECK(mode_of(tree.top / "root/dir/file") == mode);
  }
  CHECK(chmod_beneath(root, "dir/sub", 0000).has_value());
  CHECK(mode_of(tree.top / "root/dir/sub") == 0000);
  CHECK(chmod_beneath(root, "dir/sub", 0755).has_value());
  CHECK(mode_of(tree.top / "root/dir/sub") == 0755);
}

TEST_CASE("chmod refuses links, FIFOs, sockets and devices, and changes nothing") {
  const Tree tree;
  const int root = tree.root.get();
  const Fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string at = "/proc/self/fd/" + std::to_string(root) + "/socket";
  at.copy(static_cast<char*>(address.sun_path), sizeof address.sun_path - 1);
  REQUIRE(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  CHECK(code(chmod_beneath(root, "dir/link", 0600)) == "symlink-rejected");
  CHECK(code(chmod_beneath(root, "dir/dangling", 0600)) == "symlink-rejected");
  CHECK(code(chmod_beneath(root, "linked/file", 0600)) == "symlink-rejected");
  CHECK(code(chmod_beneath(root, "dir/fifo", 0666)) == "not-regular-file");
  CHECK(code(chmod_beneath(root, "socket", 0666)) == "not-regular-file");
  CHECK(mode_of(tree.top / "root/dir/fifo") == 0600);
  if (::geteuid() == 0) {  // only root makes devices; where even root may not, there are none in a workspace
    if (::mknod((tree.top / "root/device").c_str(), S_IFCHR | 0600, (1 << 8) | 3) == 0) {
      CHECK(code(chmod_beneath(root, "device", 0666)) == "not-regular-file");
    }
  }
  CHECK(code(read_beneath(root, "socket", 10)) == "not-regular-file");
  CHECK(code(write_beneath(root, "socket", "x")) == "not-regular-file");
}

TEST_CASE("rename moves the entry itself and replaces only when told to") {
  const Tree tree;
  const int root = tree.root.get();
  CHECK(rename_beneath(root, "dir/file", "dir/sub/moved").has_value());
  CHECK(get(tree.top / "root/dir/sub/moved") == "content");
  put(tree.top / "root/dir/file", "second");
  CHECK(io_reason(rename_beneath(root, "dir/file", "dir/sub/moved").error()) == "eexist");
  CHECK(rename_beneath(root, "dir/file", "dir/sub/moved", true).has_value());
  CHECK(get(tree.top / "root/dir/sub/moved") == "second");
  CHECK(rename_beneath(root, "dir/link", "dir/sub/link").has_value());
  CHECK(fs::is_symlink(tree.top / "root/dir/sub/link"));
  CHECK(rename_beneath(root, "dir", "elsewhere").has_value());
  CHECK(fs::exists(tree.top / "root/elsewhere/sub/moved"));
}

TEST_CASE("rename goes through no link, in neither path") {
  const Tree tree;
  const int root = tree.root.get();
  CHECK(code(rename_beneath(root, "linked/file", "dir/stolen")) == "symlink-rejected");
  CHECK(code(rename_beneath(root, "dir/file", "linked/given")) == "symlink-rejected");
  CHECK(code(rename_beneath(root, "dir/file", "../outside/given", true)) == "path-escape");
  CHECK(code(rename_beneath(root, "dir/none", "dir/some")) == "not-found");
  CHECK(get(tree.top / "root/dir/file") == "content");
}

TEST_CASE("a second name goes to the entry itself") {
  const Tree tree;
  const int root = tree.root.get();
  CHECK(link_beneath(root, "dir/file", "dir/second").has_value());
  CHECK(identify_beneath(root, "dir/second").value().same_file(identify_beneath(root, "dir/file").value()));
  CHECK(io_reason(link_beneath(root, "dir/file", "dir/second").error()) == "eexist");
  CHECK(code(link_beneath(root, "linked/file", "dir/third")) == "symlink-rejected");
  CHECK(code(link_beneath(root, "dir/file", "linked/third")) == "symlink-rejected");
}

TEST_CASE("remove takes the link, not what it points to") {
  const Tree tree;
  const int root = tree.root.get();
  CHECK(remove_file_beneath(root, "linked").has_value());
  CHECK(remove_file_beneath(root, "dir/link").has_value());
  CHECK(remove_file_beneath(root, "dir/fifo").has_value());
  CHECK(code(remove_file_beneath(root, "dir/sub")) == "not-regular-file");
  CHECK(code(remove_file_beneath(root, "dir/none")) == "not-found");
  CHECK(code(remove_directory_beneath(root, "dir/file")) == "not-directory");
  CHECK(io_reason(remove_directory_beneath(root, "dir").error()) == "enotempty");
  CHECK(remove_directory_beneath(root, "dir/sub").has_value());
}

TEST_CASE("remove goes through no link") {
  const Tree tree;
  const int root = tree.root.get();
  CHECK(code(remove_file_beneath(root, "linked/file")) == "symlink-rejected");
  CHECK(code(remove_directory_beneath(root, "linked/file")) == "symlink-rejected");
  CHECK(code(remove_tree_beneath(root, "linked/file")) == "symlink-rejected");
  CHECK(code(remove_tree_beneath(root, "..")) == "path-escape");
}

TEST_CASE("a tree is removed with its links, FIFOs and unreadable directories") {
  const Tree tree;
  const int root = tree.root.get();
  fs::create_directories(tree.top / "root/dir/closed/below");
  fs::create_symlink(tree.top / "outside", tree.top / "root/dir/closed/away");
  REQUIRE(::chmod((tree.top / "root/dir/closed").c_str(), 0000) == 0);
  CHECK(remove_tree_beneath(root, "dir").has_value());
  CHECK(names(tree, "") == std::vector<std::string>{"linked"});
  CHECK(remove_tree_beneath(root, "linked").has_value());
  CHECK(code(remove_tree_beneath(root, "linked")) == "not-found");
}

TEST_CASE("a full disk leaves the old file and no other") {
  const Tree tree;
  struct rlimit_guard {
    rlimit_guard() {
      ::getrlimit(RLIMIT_FSIZE, &old);
      rlimit low = old;
      low.rlim_cur = 4096;
      ::signal(SIGXFSZ, SIG_IGN);
      ::setrlimit(RLIMIT_FSIZE, &low);
    }
    ~rlimit_guard() { ::setrlimit(RLIMIT_FSIZE, &old); }
    rlimit old{};
  };
  Result<Identity> written = Identity{};
  {
    const rlimit_guard guard;
    written = write_beneath(tree.root.get(), "dir/file", std::string(100'000, 'x'));
  }
  CHECK(code(written) == "io");
  CHECK(io_reason(written.error()) == "efbig");
  CHECK(get(tree.top / "root/dir/file") == "content");
  CHECK(names(tree, "dir").size() == 5);
}

}  // namespace
}  // namespace hitchrail::pathfs
