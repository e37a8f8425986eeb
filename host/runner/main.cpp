// hitchrail-runner: holds one adapter in a confined process. Started by the host (--plan, --check) and the
// shim (--run), never by hand.

#include <unistd.h>

#include <string_view>

#include "runner/check.hpp"
#include "runner/plan.hpp"
#include "runner/run.hpp"

int main(int argc, char** argv) {
  const std::string_view mode = argc == 2 ? argv[1] : "";
  if (mode == "--run") {
    return hitchrail::runner::run_main();
  }
  if (mode == "--plan") {
    return hitchrail::runner::plan_main();
  }
  if (mode == "--check") {
    return hitchrail::runner::check_main();
  }
  constexpr std::string_view usage =
      "hitchrail-runner is started by hitchrail and hitchrail-shim (--run, --plan, --check)\n";
  return ::write(2, usage.data(), usage.size()) < 0 ? 5 : 2;
}
