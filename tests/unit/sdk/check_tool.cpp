// check_tool RUNNER ADAPTER.so: prints what is not passed, exits 0 only when everything passed.
#include <fcntl.h>

#include <cstdio>
#include <string>

#include "core/fd.hpp"
#include "plugins/check.hpp"

int main(int argc, char** argv) {
  using namespace hitchrail;
  if (argc != 3) {
    return 2;
  }
  const Fd runner(::open(argv[1], O_RDONLY | O_CLOEXEC));
  plugins::CheckOptions options;
  options.runner_fd = runner.get();
  const auto report = plugins::check_plugin(argv[2], options);
  if (report.has_error()) {
    std::printf("%s: %s\n", report.error().code.c_str(), report.error().detail.c_str());
    return 4;
  }
  for (const plugins::Finding& finding : report->findings) {
    if (finding.outcome != plugins::Outcome::passed) {
      std::printf("%s %s: %s\n", std::string(plugins::outcome_name(finding.outcome)).c_str(),
                  finding.id.c_str(), finding.detail.c_str());
    }
  }
  std::printf("%s: %zu of %zu passed\n", report->provider.c_str(), report->count(plugins::Outcome::passed),
              report->findings.size());
  return report->passed() ? 0 : 1;
}
