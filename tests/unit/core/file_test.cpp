#include "core/file.hpp"

#include <catch2/catch.hpp>

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>

using namespace hitchrail;
namespace fs = std::filesystem;

namespace {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    path = (fs::temp_directory_path() / "hitchrail-file-XXXXXX").string();
    REQUIRE(::mkdtemp(path.data()) != nullptr);
    fd.reset(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    REQUIRE(fd.valid());
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  void put(const std::string& name, std::string_view bytes) const {
    Fd file(::openat(fd.get(), name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    REQUIRE(write_all(file.get(), bytes).has_value());
  }
  void mkdir(const std::string& name) const { REQUIRE(::mkdirat(fd.get(), name.c_str(), 0755) == 0); }
  void link(const std::string& target, const std::string& name) const {
    REQUIRE(::symlinkat(target.c_str(), fd.get(), name.c_str()) == 0);
  }

  std::string path;
  Fd fd;
};

std::string code_of(const Status& status) {
  return status.has_error() ? status.error().code : "ok";
}
template <class T>
std::string code_of(const Result<T>& result) {
  return result.has_error() ? result.error().code : "ok";
}

// From here on openat2 answers ENOSYS to this process, as kernels before 5.6 do.
bool forbid_openat2() {
  sock_filter program[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                           BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  sock_fprog filter{4, program};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0 &&
         ::syscall(SYS_openat2, AT_FDCWD, "/", nullptr, 0) == -1 && errno == ENOSYS;
}

// What open_no_symlinks says about each shape of path, as one line.
std::string link_answers(const TemporaryDirectory& dir) {
  std::string answers;
  const auto ask = [&](const std::string& path, int flags) {
    answers += path + "=" + code_of(open_no_symlinks(dir.fd.get(), path, flags, 0600)) + " ";
  };
  ask("d/e/file", O_RDONLY);
  ask("d//e/./file", O_RDONLY);
  ask("d/e/../e/file", O_RDONLY);
  ask("d/e/", O_RDONLY);
  ask("d/e", O_PATH);
  ask("l/file", O_RDONLY);
  ask("d/lf", O_RDONLY);
  ask("d/lf", O_PATH);
  ask("l", O_RDONLY | O_DIRECTORY);
  ask("l/", O_RDONLY);
  ask("d/e/file/x", O_RDONLY);
  ask("d/e/file/", O_RDONLY);
  ask("d/none/x", O_RDONLY);
  ask("", O_RDONLY);
  ask("d/made", O_WRONLY | O_CREAT | O_EXCL);
  ask("/proc/self/fd/" + std::to_string(dir.fd.get()) + "/d", O_RDONLY);
  ::unlinkat(dir.fd.get(), "d/made", 0);
  answers += code_of(open_no_symlinks(-1, dir.path + "/d/e/file", O_RDONLY));
  return answers;
}

}  // namespace

TEST_CASE("no link is followed in the last component") {
  const TemporaryDirectory dir;
  dir.put("file", "x");
  dir.link("file", "link");
  CHECK(code_of(open_at(dir.fd.get(), "file", O_RDONLY)) == "ok");
  CHECK(code_of(open_at(dir.fd.get(), "link", O_RDONLY)) == "eloop");
  CHECK(code_of(open_at(dir.fd.get(), "link", O_RDONLY | O_DIRECTORY)) == "eloop");
  CHECK(code_of(open_at(dir.fd.get(), "none", O_RDONLY)) == "enoent");
  const auto fd = open_at(dir.fd.get(), "file", O_RDONLY);
  CHECK((::fcntl(fd->get(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("no link is followed in any component, and a kernel without openat2 gets the same answers") {
  const TemporaryDirectory dir;
  dir.mkdir("d");
  dir.mkdir("d/e");
  dir.put("d/e/file", "x");
  dir.link("d/e", "l");
  dir.link("e/file", "d/lf");
  const std::string answers = link_answers(dir);
  CHECK(answers.find(
            "d/e/file=ok d//e/./file=ok d/e/../e/file=ok d/e/=ok d/e=ok l/file=eloop d/lf=eloop d/lf=eloop "
            "l=eloop l/=eloop d/e/file/x=enotdir d/e/file/=enotdir d/none/x=enoent =enoent d/made=ok") == 0);
  CHECK(answers.find("/d=eloop ok") != std::string::npos);
  int report[2];
  REQUIRE(::pipe2(report, O_CLOEXEC) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool sent = forbid_openat2() && write_all(report[1], link_answers(dir)).has_value();
    ::_exit(sent ? 0 : 1);
  }
  ::close(report[1]);
  const auto fallback = read_all(report[0], 1 << 16);
  ::close(report[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  REQUIRE((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  CHECK(*fallback == answers);
}

TEST_CASE("reading stops with an error beyond the limit and takes exactly the limit") {
  const TemporaryDirectory dir;
  dir.put("file", "12345");
  CHECK(read_file_at(dir.fd.get(), "file", 5).value() == "12345");
  CHECK(code_of(read_file_at(dir.fd.get(), "file", 4)) == "file-too-large");
  CHECK(read_file_at(dir.fd.get(), "file", 4).error().object == "file");
  dir.put("empty", "");
  CHECK(read_file_at(dir.fd.get(), "empty", 0).value().empty());
  const std::string big(3'000'000, 'x');
  dir.put("big", big);
  CHECK(read_file_at(dir.fd.get(), "big", big.size()).value() == big);
  CHECK(code_of(read_file_at(dir.fd.get(), "big", big.size() - 1)) == "file-too-large");
}

TEST_CASE("a pipe is read to its end in pieces of any size") {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string piece(777, 'p');
    for (int i = 0; i < 1000; ++i) {
      if (write_all(ends[1], piece).has_error()) {
        ::_exit(1);
      }
    }
    ::_exit(0);
  }
  ::close(ends[1]);
  const auto text = read_all(ends[0], 10'000'000);
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  CHECK(text.value() == std::string(777'000, 'p'));
}

TEST_CASE("only regular files are read: a FIFO, a directory or a link does not hold us") {
  const TemporaryDirectory dir;
  REQUIRE(::mkfifoat(dir.fd.get(), "fifo", 0600) == 0);
  dir.mkdir("directory");
  dir.link("/etc/hostname", "link");
  CHECK(code_of(read_file_at(dir.fd.get(), "fifo", 10)) == "not-a-regular-file");
  CHECK(code_of(read_file_at(dir.fd.get(), "directory", 10)) == "not-a-regular-file");
  CHECK(code_of(read_file_at(dir.fd.get(), "link", 10)) == "eloop");
}

TEST_CASE("an atomic write replaces the file, its mode, and leaves nothing else behind") {
  const TemporaryDirectory dir;
  dir.put("other", "keep");
  dir.link("other", "file");
  REQUIRE(write_file_atomic(dir.fd.get(), "file", "new").has_value());
  CHECK(read_file_at(dir.fd.get(), "file", 10).value() == "new");
  CHECK(read_file_at(dir.fd.get(), "other", 10).value() == "keep");
  struct stat st {};
  REQUIRE(::fstatat(dir.fd.get(), "file", &st, AT_SYMLINK_NOFOLLOW) == 0);
  CHECK((st.st_mode & 07777) == 0600);
  CHECK(list_directory(dir.fd.get()).value() == std::vector<std::string>{"file", "other"});
  Fd path(::open(dir.path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  CHECK(code_of(write_file_atomic(path.get(), "file", "again")) == "ok");
}

TEST_CASE("an atomic write that fails leaves the old file and no temporary one") {
  const TemporaryDirectory dir;
  dir.mkdir("taken");
  CHECK(code_of(write_file_atomic(dir.fd.get(), "taken", "x")) == "eisdir");
  CHECK(code_of(write_file_atomic(dir.fd.get(), "a/b", "x")) == "not-a-file-name");
  CHECK(code_of(write_file_atomic(dir.fd.get(), "..", "x")) == "not-a-file-name");
  CHECK(list_directory(dir.fd.get()).value() == std::vector<std::string>{"taken"});
}

TEST_CASE("names that are not UTF-8 are listed, read, written and removed") {
  const TemporaryDirectory dir;
  const std::string name = "n\xFF\xFE\n";
  REQUIRE(write_file_atomic(dir.fd.get(), name, "bytes").has_value());
  CHECK(list_directory(dir.fd.get()).value() == std::vector<std::string>{name});
  CHECK(read_file_at(dir.fd.get(), name, 10).value() == "bytes");
  CHECK(remove_tree_at(dir.fd.get(), name).has_value());
  CHECK(list_directory(dir.fd.get()).value().empty());
}

TEST_CASE("a sealed memory file cannot be written, grown, cut or unsealed") {
  const auto fd = sealed_memfd("test", "content");
  REQUIRE(fd.has_value());
  CHECK(read_all(fd->get(), 100).value() == "content");
  CHECK(::pwrite(fd->get(), "x", 1, 0) == -1);
  CHECK(::ftruncate(fd->get(), 1) == -1);
  CHECK(::ftruncate(fd->get(), 100) == -1);
  CHECK(::fcntl(fd->get(), F_ADD_SEALS, F_SEAL_WRITE) == -1);
  CHECK(::mmap(nullptr, 7, PROT_READ | PROT_WRITE, MAP_SHARED, fd->get(), 0) == MAP_FAILED);
  const int again = ::open(("/proc/self/fd/" + std::to_string(fd->get())).c_str(), O_RDWR | O_CLOEXEC);
  if (again >= 0) {
    CHECK(::pwrite(again, "x", 1, 0) == -1);
    ::close(again);
  }
}

TEST_CASE("a sealed copy does not change with its source and respects the limit") {
  const TemporaryDirectory dir;
  const std::string big(600'000, 'b');
  dir.put("source", big);
  Fd source(::openat(dir.fd.get(), "source", O_RDWR | O_CLOEXEC));
  const auto copy = sealed_copy("copy", source.get(), big.size());
  REQUIRE(copy.has_value());
  CHECK(::pwrite(source.get(), "x", 1, 0) == 1);
  CHECK(read_all(copy->get(), big.size()).value() == big);
  CHECK(code_of(sealed_copy("copy", source.get(), big.size() - 1)) == "file-too-large");
}

TEST_CASE("a program runs from its sealed copy") {
  Fd program(::open("/bin/true", O_RDONLY | O_CLOEXEC));
  const auto copy = sealed_copy("true", program.get(), 64u << 20);
  REQUIRE(copy.has_value());
  const pid_t child = ::fork();
  if (child == 0) {
    char name[] = "true";
    char* argv[] = {name, nullptr};
    ::fexecve(copy->get(), argv, environ);
    ::_exit(111);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("removing a tree follows no link and takes what is read-only") {
  const TemporaryDirectory dir;
  dir.mkdir("precious");
  dir.put("precious/file", "keep");
  dir.mkdir("tree");
  dir.mkdir("tree/a");
  dir.mkdir("tree/a/b");
  dir.put("tree/a/b/file", "x");
  dir.link("../precious", "tree/link");
  dir.link("../../precious/file", "tree/a/link");
  REQUIRE(::mkfifoat(dir.fd.get(), "tree/a/fifo", 0000) == 0);
  REQUIRE(::fchmodat(dir.fd.get(), "tree/a/b", 0000, 0) == 0);
  REQUIRE(::fchmodat(dir.fd.get(), "tree/a", 0500, 0) == 0);
  CHECK(code_of(remove_tree_at(dir.fd.get(), "tree")) == "ok");
  CHECK(list_directory(dir.fd.get()).value() == std::vector<std::string>{"precious"});
  CHECK(read_file_at(dir.fd.get(), "precious/file", 10).value() == "keep");
}

TEST_CASE("removing what is absent is success, a link or a file goes alone, and only names are taken") {
  const TemporaryDirectory dir;
  dir.mkdir("target");
  dir.put("target/file", "keep");
  dir.link("target", "link");
  CHECK(code_of(remove_tree_at(dir.fd.get(), "absent")) == "ok");
  CHECK(code_of(remove_tree_at(dir.fd.get(), "link")) == "ok");
  CHECK(read_file_at(dir.fd.get(), "target/file", 10).value() == "keep");
  CHECK(code_of(remove_tree_at(dir.fd.get(), "target/file")) == "not-a-file-name");
  CHECK(code_of(remove_tree_at(dir.fd.get(), "..")) == "not-a-file-name");
  CHECK(code_of(remove_tree_at(dir.fd.get(), ".")) == "not-a-file-name");
  CHECK(code_of(remove_tree_at(dir.fd.get(), "")) == "not-a-file-name");
}

TEST_CASE("a tree deeper than descriptors and path lengths allow is removed") {
  const TemporaryDirectory dir;
  Fd at(::dup(dir.fd.get()));
  for (int i = 0; i < 3000; ++i) {
    REQUIRE(::mkdirat(at.get(), "deep", 0700) == 0);
    Fd next(::openat(at.get(), "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    REQUIRE(next.valid());
    // The names the remover itself would choose are already taken here and there.
    if (i % 100 == 5) {
      REQUIRE(::mkdirat(next.get(), ".removing-1", 0700) == 0);
      REQUIRE(::symlinkat("/", next.get(), ".removing-2") == 0);
    }
    at = std::move(next);
  }
  CHECK(code_of(remove_tree_at(dir.fd.get(), "deep")) == "ok");
  CHECK(list_directory(dir.fd.get()).value().empty());
}

TEST_CASE("another file system below the tree is left alone and reported") {
  const TemporaryDirectory dir;
  dir.mkdir("tree");
  dir.mkdir("tree/mounted");
  const std::vector<std::pair<std::string, std::string>> maps = {
      {"/proc/self/setgroups", "deny"},
      {"/proc/self/uid_map", "0 " + std::to_string(::geteuid()) + " 1"},
      {"/proc/self/gid_map", "0 " + std::to_string(::getegid()) + " 1"}};
  const std::string mounted = dir.path + "/tree/mounted";
  const pid_t child = ::fork();
  if (child == 0) {
    // Mounting needs a user and a mount namespace of its own; each exit code below names the step that
    // failed.
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
      ::_exit(10);
    }
    for (const auto& [path, line] : maps) {
      Fd map(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
      if (write_all(map.get(), line).has_error()) {
        ::_exit(11);
      }
    }
    if (::mount("none", mounted.c_str(), "tmpfs", 0, nullptr) != 0) {
      ::_exit(16);
    }
    Fd file(::open((mounted + "/file").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    // A descriptor from before belongs to the mounts of the other namespace.
    Fd here(::open(dir.path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const bool reported = code_of(remove_tree_at(here.get(), "tree")) == "exdev";
    const bool mount_point =
        code_of(remove_tree_at(Fd(::open((dir.path + "/tree").c_str(), O_PATH)).get(), "mounted")) == "exdev";
    ::_exit(!file                                              ? 12
            : !reported                                        ? 13
            : !mount_point                                     ? 14
            : ::access((mounted + "/file").c_str(), F_OK) != 0 ? 15
                                                               : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
