// Private memory (Private_Clean + Private_Dirty of smaps_rollup) of an idle hitchrail-runner that has mapped
// a session, with the adapter of Codex CLI. Target: at most 6 MiB. The runner is not dumpable, so only root
// may look.

#include <fcntl.h>
#include <hitchrail/adapter.h>
#include <unistd.h>

#include <cstdio>
#include <sstream>
#include <string>

#include "../unit/runner/fake_shim.hpp"
#include "codex_stream.hpp"
#include "core/file.hpp"
#include "plugins/planner.hpp"

using namespace hitchrail;

namespace {

long private_kib(pid_t pid) {
  std::istringstream lines(test::slurp("/proc/" + std::to_string(pid) + "/smaps_rollup"));
  long total = -1;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("Private_", 0) == 0) {
      total = std::max(total, 0l) + std::stol(line.substr(line.find(':') + 1));
    }
  }
  return total;
}

}  // namespace

int main() {
  const std::string binary = HITCHRAIL_BINARY_DIR;
  const Fd runner(::open((binary + "/bin/hitchrail-runner").c_str(), O_RDONLY | O_CLOEXEC));
  const Fd plugin(::open((binary + "/plugins/codex-cli.so").c_str(), O_RDONLY | O_CLOEXEC));
  const auto sealed = sealed_copy("adapter", plugin.get(), 64u << 20);
  auto planner = plugins::Planner::start(runner.get(), sealed.value().get());
  if (planner.has_error()) {
    std::fprintf(stderr, "memory_bench: %s\n", planner.error().detail.c_str());
    return 1;
  }
  const auto launch = planner.value().launch(
      R"({"profileId":"codex-cli","providerVersion":"0.145.0","worktree":"/w","home":"/h","temp":"/t","providerSandbox":"delegated"})",
      HR_LAUNCH_NEW, "do it");
  test::ShimSetup setup;
  setup.adapter = binary + "/plugins/codex-cli.so";
  setup.snapshot = launch.value().snapshot;
  setup.config = runner::config_for(launch.value().plan);
  setup.streams = {1, 2, 8, 9};
  test::FakeShim shim(setup);
  shim.arrive(1, bench::recorded_stream(4000));
  shim.start();
  if (shim.settle() != "settled") {
    std::fprintf(stderr, "memory_bench: the runner failed: %s\n", shim.failure_code.c_str());
    return 1;
  }
  const long idle = private_kib(shim.pid());
  shim.arrive(1, bench::MadeStream().make(8u << 20));
  shim.settle();
  const long after = private_kib(shim.pid());
  if (idle < 0) {
    std::printf("runner idle, private: needs root to read smaps_rollup of a process that is not dumpable\n");
    return 0;
  }
  std::printf("runner idle, private: %ld KiB (target 6144); after 8 MiB of output: %ld KiB\n", idle, after);
  return idle <= 6144 ? 0 : 1;
}
