// The launch baseline of 100,000 files, 500 of them changed, beside git's own status of the same worktree,
// and the second look beside both. Prints p50 and p99 of each and the ratio; decides nothing. Target: at most
// 1.2 x `git status --porcelain=v2 -uall` + 10 ms.
//   baseline_bench [RUNS]

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "boundary/boundary.hpp"
#include "workspace/inspector.hpp"
#include "workspace/workspace.hpp"

namespace {

namespace fs = std::filesystem;
namespace ws = hitchrail::workspace;
using Clock = std::chrono::steady_clock;

void shell(const std::string& command) {
  if (std::system(command.c_str()) != 0) {
    std::fprintf(stderr, "failed: %s\n", command.c_str());
    std::exit(1);
  }
}

void make(const std::string& root) {
  for (int folder = 0; folder < 1000; ++folder) {
    const std::string path = root + "/d" + std::to_string(folder / 32) + "/e" + std::to_string(folder % 32);
    fs::create_directories(path);
    for (int i = 0; i < 100; ++i) {
      std::ofstream(path + "/f" + std::to_string(i) + ".txt") << folder << " " << i << "\n";
    }
  }
  shell("cd '" + root + "' && git init -q && git add . && git -c user.name=a -c user.email=a@b commit -qm x");
  for (int i = 0; i < 500; ++i) {
    const std::string path = root + "/d" + std::to_string(i % 31) + "/e" + std::to_string(i / 31);
    std::ofstream(path + (i < 400 ? "/f1.txt" : "/new")) << "changed " << i << "\n";
  }
  ::usleep(1'100'000);  // so that no index entry is as young as the index
  shell("cd '" + root + "' && git status > /dev/null");
}

double at(std::vector<double>& values, double part) {
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1,
                         static_cast<std::size_t>(part * static_cast<double>(values.size())))];
}

template <class F>
double timed(F&& what) {
  const auto begun = Clock::now();
  what();
  return std::chrono::duration<double, std::milli>(Clock::now() - begun).count();
}

}  // namespace

int main(int argc, char** argv) {
  const int runs = argc > 1 ? std::atoi(argv[1]) : 15;
  std::string root = (fs::temp_directory_path() / "baseline-bench-XXXXXX").string();
  if (::mkdtemp(root.data()) == nullptr) {
    return 1;
  }
  make(root);
  auto worktree = ws::open_worktree(root);
  if (worktree.has_error()) {
    std::fprintf(stderr, "%s: %s\n", worktree.error().code.c_str(), worktree.error().detail.c_str());
    return 1;
  }
  const ws::GitRunner git = ws::inspector_git(hitchrail::boundary::probe_machine());
  std::vector<double> peer, ours, again;
  bool right = true;
  for (int i = 0; i < runs; ++i) {
    peer.push_back(
        timed([&] { shell("cd '" + root + "' && exec git status --porcelain=v2 -uall -z > /dev/null"); }));
    auto captured = ws::capture_baseline(worktree.value(), git);
    ours.push_back(timed([&] { captured = ws::capture_baseline(worktree.value(), git); }));
    again.push_back(timed([&] {
      right = right && captured.has_value() && captured.value().files.size() == 500 &&
              ws::baseline_still(worktree.value(), captured.value(), git).has_value();
    }));
  }
  std::printf("git status -uall     p50 %7.1f ms  p99 %7.1f ms\n", at(peer, 0.5), at(peer, 0.99));
  std::printf("capture_baseline     p50 %7.1f ms  p99 %7.1f ms  ratio %.2f, less 10 ms %.2f (target 1.2)\n",
              at(ours, 0.5), at(ours, 0.99), at(ours, 0.5) / at(peer, 0.5),
              (at(ours, 0.5) - 10) / at(peer, 0.5));
  std::printf("baseline_still       p50 %7.1f ms  p99 %7.1f ms\n", at(again, 0.5), at(again, 0.99));
  fs::remove_all(root);
  return right ? 0 : 1;
}
