#pragma once
// What the tests of pathfs share: a directory of their own, a picture of a tree for "nothing there has
// changed", and a process in which openat2 is not there.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "pathfs/pathfs.hpp"

namespace hitchrail::pathfs::test {

namespace fs = std::filesystem;

// Set in the environment by the test runner: this whole process gets ENOSYS from openat2.
inline constexpr const char* no_openat2_variable = "HITCHRAIL_TEST_NO_OPENAT2";
bool without_openat2();

// Memory, where there is some: what is made and renamed by the hundred thousand is no test of a disk.
inline fs::path fast_directory() {
  return ::access("/dev/shm", W_OK | X_OK) == 0 ? fs::path("/dev/shm") : fs::temp_directory_path();
}

class Temporary {
 public:
  explicit Temporary(const fs::path& below = fs::temp_directory_path());
  ~Temporary();
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  [[nodiscard]] std::string operator/(const std::string& name) const { return path + "/" + name; }
  std::string path;
};

// Every entry below `top`: what it is, its inode, mode, owner, size, times of change, and what it holds.
std::map<std::string, std::string> picture(const std::string& top);

void put(const std::string& path, const std::string& bytes);
std::string get(const std::string& path);

template <class T>
std::string code(const Result<T>& result) {
  return result.has_error() ? result.error().code : "";
}

}  // namespace hitchrail::pathfs::test
