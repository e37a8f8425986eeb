// What the quick commands cost, beside /bin/true in the same run: `hitchrail version` and `hitchrail plugins
// list` with six libraries. usage: command_bench [PATH-OF-HITCHRAIL]
#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "support/scratch.hpp"

namespace {

struct Cost {
  double wall_ms = 0;
  double cpu_ms = 0;
};

double milliseconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) / 1e3;
}

// One run, from spawn to reaped. Ends the program when the command fails: a failure is no figure.
Cost run(std::vector<std::string> command, const std::string& home) {
  std::vector<char*> argv;
  for (std::string& argument : command) {
    argv.push_back(argument.data());
  }
  argv.push_back(nullptr);
  std::string home_variable = "HITCHRAIL_HOME=" + home;
  std::string path = "PATH=/usr/bin:/bin";
  char* env[] = {home_variable.data(), path.data(), nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  const auto begin = std::chrono::steady_clock::now();
  pid_t pid = -1;
  const int failed = ::posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), env);
  int status = -1;
  rusage used{};
  if (failed != 0 || ::wait4(pid, &status, 0, &used) != pid || status != 0) {
    std::fprintf(stderr, "%s failed (status %d)\n", command[0].c_str(), status);
    std::exit(1);
  }
  const std::chrono::duration<double, std::milli> wall = std::chrono::steady_clock::now() - begin;
  ::posix_spawn_file_actions_destroy(&actions);
  return {wall.count(), milliseconds(used.ru_utime) + milliseconds(used.ru_stime)};
}

double at(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1))];
}

}  // namespace

int main(int argc, char** argv) {
  const std::string hitchrail = argc > 1 ? argv[1] : HITCHRAIL_BINARY_DIR "/bin/hitchrail";
  const hitchrail::test::TempDir root;
  const std::string home = root.path() + "/home";
  const std::string plugins = root.path() + "/plugins";
  for (const std::string& dir : {home, plugins}) {
    std::filesystem::create_directory(dir);
    std::filesystem::permissions(dir, std::filesystem::perms::owner_all);
  }
  // With the one installed: six.
  for (int i = 0; i < 5; ++i) {
    std::filesystem::copy_file(HITCHRAIL_BINARY_DIR "/plugins/codex-cli.so",
                               plugins + "/copy" + std::to_string(i) + ".so");
  }
  struct Row {
    const char* name;
    std::vector<std::string> command;
    std::vector<double> wall, cpu;
  };
  std::vector<Row> rows = {
      {"/bin/true", {"/bin/true"}, {}, {}},
      {"version", {hitchrail, "version"}, {}, {}},
      {"plugins list", {hitchrail, "plugins", "list", "--plugin-dir", plugins}, {}, {}},
  };
  constexpr int warm = 3;
  constexpr int rounds = 50;
  for (int i = 0; i < warm + rounds; ++i) {
    for (Row& row : rows) {  // interleaved, so that a busy moment falls on all of them
      const Cost cost = run(row.command, home);
      if (i >= warm) {
        row.wall.push_back(cost.wall_ms);
        row.cpu.push_back(cost.cpu_ms);
      }
    }
  }
  const double base = at(rows[0].wall, 0.5);
  for (const Row& row : rows) {
    std::printf("%-14s wall p50 %6.2f ms  p99 %6.2f ms  cpu p50 %6.2f ms  %5.2f x /bin/true\n", row.name,
                at(row.wall, 0.5), at(row.wall, 0.99), at(row.cpu, 0.5), at(row.wall, 0.5) / base);
  }
  return 0;
}
