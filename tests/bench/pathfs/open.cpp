// pathfs beside the plain call: opening and closing a file six directories deep, in alternating rounds of one
// run on one core. Prints nanoseconds per open (p50 and p99 of the rounds) and the ratio, which is to be at
// most 1.3.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "bench/bench.hpp"
#include "pathfs/pathfs.hpp"

namespace {

using namespace hitchrail;

constexpr int kRounds = 400;
constexpr int kOpens = 1000;
constexpr const char* kPath = "one/two/three/four/five/file";

double nanoseconds_each(const std::function<bool()>& once) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kOpens; ++i) {
    if (!once()) {
      std::fprintf(stderr, "an open failed\n");
      std::exit(1);
    }
  }
  const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
  return spent.count() / kOpens;
}

struct Line {
  const char* name;
  std::function<bool()> once;
  std::vector<double> rounds;
};

double at(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1,
                         static_cast<std::size_t>(share * static_cast<double>(values.size())))];
}

}  // namespace

int main() {
  namespace fs = std::filesystem;
  bench::pin_to_one_core();
  std::string top = (fs::temp_directory_path() / "pathfs-bench-XXXXXX").string();
  if (::mkdtemp(top.data()) == nullptr) {
    return 1;
  }
  fs::create_directories(fs::path(top) / fs::path(kPath).parent_path());
  std::ofstream(fs::path(top) / kPath) << "content";
  const Fd root(::open(top.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::string path = kPath;
  const std::string absolute = top + "/" + path;
  const auto plain = [](int dirfd, const std::string& name) {
    const Fd fd(::openat(dirfd, name.c_str(), O_RDONLY | O_CLOEXEC));
    return fd.valid();
  };
  Line lines[] = {
      {"openat, relative", [&] { return plain(root.get(), path); }, {}},
      {"pathfs open", [&] { return pathfs::open_beneath(root.get(), path, O_RDONLY).has_value(); }, {}},
      {"openat + fstat",
       [&] {
         const Fd fd(::openat(root.get(), path.c_str(), O_RDONLY | O_CLOEXEC));
         struct stat st {};
         return fd.valid() && ::fstat(fd.get(), &st) == 0 && S_ISREG(st.st_mode);
       },
       {}},
      {"pathfs open of a regular file",
       [&] { return pathfs::open_regular_beneath(root.get(), path).has_value(); },
       {}},
      {"open, absolute", [&] { return plain(AT_FDCWD, absolute); }, {}},
  };
  for (int round = 0; round < kRounds; ++round) {
    for (Line& line : lines) {
      line.rounds.push_back(nanoseconds_each(line.once));
    }
  }
  std::printf("%-30s %9s %9s %9s\n", "depth 6, ns per open", "p50", "p99", "p50 x");
  for (std::size_t i = 0; i < std::size(lines); ++i) {
    const double peer = at(lines[i == 2 || i == 3 ? 2 : 0].rounds, 0.5);
    std::printf("%-30s %9.0f %9.0f %9.2f\n", lines[i].name, at(lines[i].rounds, 0.5),
                at(lines[i].rounds, 0.99), at(lines[i].rounds, 0.5) / peer);
  }
  fs::remove_all(top);
}
