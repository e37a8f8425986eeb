#include <catch2/catch.hpp>

#include "driver.hpp"
#include "json_view.hpp"

using namespace hitchrail::codex_cli;
using namespace hitchrail::codex_cli::test;

namespace {

struct Answer {
  std::uint32_t outcome = HR_STEP_EXITED;
  std::int32_t code = 0;
  std::string out = "codex-cli 0.145.0\n";
  bool truncated = false;
};

Heard probe(const Answer& answer) {
  Heard heard;
  HostContext context{&heard, {}};
  const hr_host host = make_host(context);
  const hr_adapter* adapter = hitchrail_adapter_entry();
  hr_probe_request request{};
  request.struct_size = sizeof request;
  hr_probe* probe = nullptr;
  REQUIRE(adapter->probe(&host, &request, &probe) == HR_OK);
  hr_probe_step_result result{};
  result.struct_size = sizeof result;
  result.step_id = 1;
  result.outcome = answer.outcome;
  result.code = answer.code;
  result.stdout_truncated = answer.truncated ? 1 : 0;
  result.stdout_bytes = {answer.out.data(), answer.out.size()};
  const hr_result outcome = adapter->on_probe_step(&host, probe, &result);
  CHECK((outcome == HR_OK) == heard.probe_result.has_value());
  adapter->probe_close(probe);
  return heard;
}

}  // namespace

TEST_CASE("The probe asks for the version and nothing else") {
  const Heard heard = probe({});
  CHECK(heard.probe_steps == std::vector<std::vector<std::string>>{{"--version"}});
}

TEST_CASE("The exact version line gives the provider's version, protocol and capabilities") {
  for (const char* out : {"codex-cli 0.145.0\n", "codex-cli 0.145.0", "codex-cli 0.145.0\nmore\n"}) {
    const Heard heard = probe({HR_STEP_EXITED, 0, out, false});
    REQUIRE(heard.probe_result);
    REQUIRE(json::valid(*heard.probe_result));
    const json::View view(*heard.probe_result);
    CHECK(view.get("providerVersion").string() == "0.145.0");
    CHECK(view.get("protocolVersion").string() == "codex-exec-json/v1");
    std::size_t count = 0;
    for (json::View::Walker walker(view.get("capabilities")); walker.next(); ++count) {
      CHECK_FALSE(walker.value().get("id").string().empty());
      CHECK_FALSE(walker.value().get("reason").string().empty());
      const std::string state = walker.value().get("state").string();
      CHECK((state == "supported" || state == "advisory" || state == "unsupported"));
    }
    CHECK(count > 20);
  }
}

TEST_CASE("Any other first line is another version") {
  for (const char* out :
       {"codex-cli 0.144.0\n", "codex-cli 0.145.0-alpha\n", "codex-cli 10.145.0\n", "codex-cli 0.145.00\n",
        "codex-cli 0.145.0 \n", " codex-cli 0.145.0\n", "\ncodex-cli 0.145.0\n", "codex-cli 0.145.0\r\n", "",
        "Codex-cli 0.145.0\n", "codex-cli 0.145.1\n", "codex 0.145.0\n", "\xff\n"}) {
    INFO(out);
    CHECK(probe({HR_STEP_EXITED, 0, out, false}).fail_code == "provider-version-unsupported");
  }
}

TEST_CASE("A version that did not come cleanly is not believed") {
  const std::string good = "codex-cli 0.145.0\n";
  CHECK(probe({HR_STEP_EXITED, 1, good, false}).fail_code == "provider-probe-failed");
  CHECK(probe({HR_STEP_SIGNALED, 9, good, false}).fail_code == "provider-probe-failed");
  CHECK(probe({HR_STEP_TIMED_OUT, 0, good, false}).fail_code == "provider-probe-timeout");
  CHECK(probe({HR_STEP_NOT_STARTED, 0, "", false}).fail_code == "provider-probe-not-started");
  CHECK(probe({HR_STEP_EXITED, 0, good, true}).fail_code == "provider-probe-output");
  CHECK(probe({77, 0, good, false}).fail_code == "provider-probe-failed");
}
