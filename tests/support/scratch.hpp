#pragma once
// Scratch room for tests: a temporary directory that goes with its owner, and a small real file system (tmpfs
// in a mount namespace of a child process) for tests of a full disk. Works as root and as an ordinary uid.

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <string>

#include "core/fd.hpp"
#include "core/file.hpp"

namespace hitchrail::test {

class TempDir {
 public:
  TempDir() {
    const char* base = std::getenv("TMPDIR");
    std::string pattern =
        std::string(base != nullptr && base[0] == '/' ? base : "/tmp") + "/hitchrail-test-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) {
      throw std::runtime_error("mkdtemp: " + std::string(std::strerror(errno)));
    }
    path_ = pattern;
    fd_.reset(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    const std::size_t slash = path_.rfind('/');
    const Fd parent(::open(path_.substr(0, slash).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    (void)remove_tree_at(parent.get(), path_.substr(slash + 1));
  }
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
  Fd fd_;
};

inline std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}
inline void spit(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

inline void write_proc(const char* path, const std::string& text) {
  const Fd fd(::open(path, O_WRONLY | O_CLOEXEC));
  if (::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    throw std::runtime_error(std::string(path) + ": " + std::strerror(errno));
  }
}

// Runs `body` in a child process on a fresh tmpfs of `bytes` at the given path (a directory made here).
// `body` gives "" when all went as expected, else what did not; that is also the result here. A machine
// without mount rights gives a sentence, never "".
inline std::string on_small_disk(std::size_t bytes,
                                 const std::function<std::string(const std::string& mount_point)>& body) {
  TempDir at;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return "pipe";
  }
  const pid_t child = ::fork();
  if (child == 0) {
    std::string said;
    try {
      const uid_t uid = ::geteuid();
      const gid_t gid = ::getegid();
      if (::unshare(CLONE_NEWNS) != 0) {
        if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
          throw std::runtime_error("unshare: " + std::string(std::strerror(errno)));
        }
        write_proc("/proc/self/setgroups", "deny");
        write_proc("/proc/self/uid_map", std::to_string(uid) + " " + std::to_string(uid) + " 1");
        write_proc("/proc/self/gid_map", std::to_string(gid) + " " + std::to_string(gid) + " 1");
      }
      const std::string options = "mode=0700,size=" + std::to_string(bytes);
      if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
          ::mount("small", at.path().c_str(), "tmpfs", MS_NOSUID | MS_NODEV, options.c_str()) != 0) {
        throw std::runtime_error("mount: " + std::string(std::strerror(errno)));
      }
      said = body(at.path());
    } catch (const std::exception& e) {
      said = std::string("threw: ") + e.what();
    }
    said = said.empty() ? "ok" : said;
    (void)!::write(ends[1], said.data(), said.size());
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string said;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(ends[0], buffer, sizeof buffer)) > 0;) {
    said.append(buffer, static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (said.empty()) {
    return "the child ended with wait status " + std::to_string(status);
  }
  return said == "ok" ? "" : said;
}

// Fills the file system below `directory` to its last byte.
inline void fill_disk(const std::string& directory) {
  const Fd fd(::open((directory + "/filler").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const std::string block(64 * 1024, 'x');
  for (std::size_t size = block.size(); size > 0;) {
    if (::write(fd.get(), block.data(), size) <= 0) {
      size /= 2;
    }
  }
}

}  // namespace hitchrail::test
