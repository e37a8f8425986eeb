#include "unit/pathfs/world.hpp"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace hitchrail::pathfs::test {
namespace {

void take_openat2_away() {
  const sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{sizeof program / sizeof program[0], const_cast<sock_filter*>(program)};
  open_how how{};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0 ||
      ::syscall(SYS_openat2, AT_FDCWD, ".", &how, sizeof how) != -1 || errno != ENOSYS) {
    std::perror("openat2 could not be taken away");
    std::abort();
  }
}

const bool taken_away = [] {
  const bool wanted = std::getenv(no_openat2_variable) != nullptr;
  if (wanted) {
    take_openat2_away();
  }
  return wanted;
}();

}  // namespace

bool without_openat2() {
  return taken_away;
}

Temporary::Temporary(const fs::path& below) {
  std::string pattern = (below / "pathfs-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    throw std::runtime_error("no temporary directory below " + below.string());
  }
  path = fs::canonical(pattern).string();
}

Temporary::~Temporary() {
  std::error_code ignored;
  fs::permissions(path, fs::perms::owner_all, ignored);
  fs::remove_all(path, ignored);
}

std::map<std::string, std::string> picture(const std::string& top) {
  std::map<std::string, std::string> out;
  const auto add = [&out, &top](const std::string& path) {
    struct stat st {};
    if (::lstat(path.c_str(), &st) != 0) {
      throw std::runtime_error("cannot look at " + path);
    }
    std::ostringstream line;
    line << st.st_ino << ' ' << st.st_mode << ' ' << st.st_uid << ' ' << st.st_gid << ' ' << st.st_nlink
         << ' ' << st.st_size << ' ' << st.st_mtim.tv_sec << '.' << st.st_mtim.tv_nsec << ' '
         << st.st_ctim.tv_sec << '.' << st.st_ctim.tv_nsec;
    if (S_ISREG(st.st_mode)) {
      line << ' ' << get(path);
    } else if (S_ISLNK(st.st_mode)) {
      line << ' ' << fs::read_symlink(path).string();
    }
    out[path.substr(top.size())] = line.str();
  };
  add(top);
  for (const auto& entry : fs::recursive_directory_iterator(top)) {
    add(entry.path().string());
  }
  return out;
}

void put(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << bytes;
  if (!file.flush()) {
    throw std::runtime_error("cannot write " + path);
  }
}

std::string get(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace hitchrail::pathfs::test
