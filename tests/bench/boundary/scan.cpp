// What looking below a writable root costs, beside `find -links +1` over the same files: 200,000 of them, and
// a repository of ordinary size. First and second look, one processor and all, interleaved in one run.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "boundary/preset.hpp"
#include "boundary/scan.hpp"

namespace {

using namespace hitchrail;
using namespace hitchrail::boundary;

struct Series {
  std::string name;
  std::function<bool()> once;
  std::vector<double> ms;
};

double percentile(std::vector<double>& values, double part) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1) + 0.5)];
}

bool find_links(const std::string& path) {
  const char* argv[] = {"find", path.c_str(), "-links", "+1", "-type", "f", nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  char* env[] = {nullptr};
  pid_t pid = -1;
  int status = -1;
  const bool ok = posix_spawn(&pid, "/usr/bin/find", &actions, nullptr, const_cast<char**>(argv), env) == 0 &&
                  waitpid(pid, &status, 0) == pid && status == 0;
  posix_spawn_file_actions_destroy(&actions);
  return ok;
}

// Twenty files a directory, directories in a tree of tens.
bool make_tree(const std::string& root, int files) {
  std::filesystem::create_directories(root);
  for (int directory = 0; directory * 20 < files; ++directory) {
    std::string path = root;
    for (int rest = directory; rest > 0; rest /= 10) {
      path += "/d" + std::to_string(rest % 10);
    }
    std::filesystem::create_directories(path);
    for (int file = 0; file < 20; ++file) {
      const std::string name = path + "/source-file-" + std::to_string(file) + ".cpp";
      const int fd = open(name.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
      if (fd < 0) {
        std::perror(name.c_str());
        return false;
      }
      close(fd);
    }
  }
  return true;
}

bool measure(const std::string& base, int files, int rounds) {
  const std::string root = base + "/" + std::to_string(files);
  if (!make_tree(root, files)) {
    return false;
  }
  usleep(100'000);  // the second look lists again what changed right before the first
  Roots roots;
  roots.worktree = inspect_writable_root(root).value();
  const Preset preset;
  ScanLimits one;
  one.threads = 1;
  const Scan kept = scan(preset, roots).value();
  const Scan kept_by_one = scan(preset, roots, one).value();
  std::printf("%d files, %zu entries\n", files, kept.entries);
  Series series[] = {
      {"find -links +1", [&] { return find_links(root); }, {}},
      {"scan, one thread", [&] { return scan(preset, roots, one).has_value(); }, {}},
      {"scan, all processors", [&] { return scan(preset, roots).has_value(); }, {}},
      {"second look, one thread", [&] { return recheck_scan(kept_by_one).has_value(); }, {}},
      {"second look, all processors", [&] { return recheck_scan(kept).has_value(); }, {}},
  };
  for (int round = 0; round <= rounds; ++round) {
    for (Series& each : series) {
      const auto begin = std::chrono::steady_clock::now();
      if (!each.once()) {
        std::fprintf(stderr, "%s failed\n", each.name.c_str());
        return false;
      }
      if (round > 0) {  // the first warms the caches
        each.ms.push_back(
            std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
      }
    }
  }
  const double peer = percentile(series[0].ms, 0.5);
  for (Series& each : series) {
    std::printf("%-30s p50 %9.2f ms   p99 %9.2f ms   %.2f x find\n", each.name.c_str(),
                percentile(each.ms, 0.5), percentile(each.ms, 0.99), percentile(each.ms, 0.5) / peer);
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 20;
  std::string base = (std::filesystem::temp_directory_path() / "hitchrail-scan-XXXXXX").string();
  if (access("/usr/bin/find", X_OK) != 0 || mkdtemp(base.data()) == nullptr) {
    std::fprintf(stderr, "find or a temporary directory is missing\n");
    return 1;
  }
  const bool ok = measure(base, 5'000, rounds * 5) && measure(base, 200'000, rounds);
  std::filesystem::remove_all(base);
  return ok ? 0 : 1;
}
