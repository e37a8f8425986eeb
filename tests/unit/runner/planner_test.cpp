#include "plugins/planner.hpp"

#include <fcntl.h>
#include <hitchrail/adapter.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <string>

#include "core/fd.hpp"
#include "core/file.hpp"
#include "core/ids.hpp"
#include "plugins/plan_wire.hpp"
#include "shim/wire.hpp"

using namespace hitchrail;
using namespace hitchrail::plugins;

namespace {

Result<Planner> start(const std::string& adapter, const PlannerLimits& limits = {}) {
  const Fd runner(
      ::open((std::string(HITCHRAIL_BINARY_DIR) + "/bin/hitchrail-runner").c_str(), O_RDONLY | O_CLOEXEC));
  const Fd file(::open((std::string(HITCHRAIL_BINARY_DIR) + "/test-plugins/" + adapter + ".so").c_str(),
                       O_RDONLY | O_CLOEXEC));
  auto sealed = sealed_copy("adapter", file.get(), 64u << 20);
  REQUIRE(sealed.has_value());
  return Planner::start(runner.get(), sealed.value().get(), limits);
}

Planner started(const std::string& adapter, const PlannerLimits& limits = {}) {
  auto planner = start(adapter, limits);
  INFO((planner.has_error() ? planner.error().code + ": " + planner.error().detail : ""));
  REQUIRE(planner.has_value());
  return std::move(planner).value();
}

bool no_children() {
  return ::waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD;
}

}  // namespace

TEST_CASE("the planning runner says which adapter it holds") {
  const Planner planner = started("script");
  CHECK(planner.info().provider_id == "script");
  CHECK(planner.info().version == "1.0.0");
}

TEST_CASE("a probe asks for steps until it has its result") {
  Planner planner = started("odd");
  auto first = planner.probe("{}");
  REQUIRE(first.has_value());
  REQUIRE(first.value().steps.size() == 1);
  CHECK(first.value().steps[0].argv == std::vector<std::string>{"first"});
  CHECK(first.value().steps[0].timeout_ms == 5000);
  CHECK(first.value().steps[0].max_output == 8192);
  auto second = planner.probe_step({1, HR_STEP_EXITED, 0, false, false, "", ""});
  REQUIRE(second.has_value());
  REQUIRE(second.value().steps.size() == 1);
  CHECK(second.value().steps[0].argv == std::vector<std::string>{"second", "\xff"});
  CHECK(second.value().steps[0].timeout_ms == 100);
  CHECK_FALSE(second.value().result_json.has_value());
  CHECK(planner.take_logs() == std::vector<std::string>{"warning one more"});
  auto third = planner.probe_step({2, HR_STEP_EXITED, 0, false, false, "7.1", "noise \xff"});
  REQUIRE(third.has_value());
  CHECK(third.value().steps.empty());
  CHECK(third.value().result_json == R"({"providerVersion":"7.1"})");
  // One more result than steps: the adapter is not asked.
  CHECK(planner.probe_step({3, HR_STEP_EXITED, 0, false, false, "", ""}).error().code == "adapter-protocol");
  // And a probe may begin anew.
  CHECK(planner.probe("{}").value().steps.size() == 1);
}

TEST_CASE("a probe that ends without a result is a failing hook") {
  Planner planner = started("odd");
  CHECK(planner.probe("no-steps").error().code == "adapter-hook-failed");
  REQUIRE(planner.probe("silent").has_value());
  REQUIRE(planner.probe_step({1, HR_STEP_EXITED, 0, false, false, "", ""}).has_value());
  const auto last = planner.probe_step({2, HR_STEP_EXITED, 0, false, false, "", ""});
  REQUIRE(last.has_error());
  CHECK(last.error().code == "adapter-hook-failed");
  CHECK(last.error().object == "on_probe_step");
}

TEST_CASE("render gives the request text byte for byte") {
  Planner planner = started("script");
  const std::string message = "-/ first\\nsecond \xf0\x9f\x9a\x82 \\u0007";
  const auto text = planner.render(R"({"subject":{"message":")" + message + "\"}}", 0);
  REQUIRE(text.has_value());
  CHECK(text.value() == "-/ first\nsecond \xf0\x9f\x9a\x82 \x07");
}

TEST_CASE("launch gives a checked plan and the snapshot of the planned session") {
  Planner planner = started("odd");
  const auto launched = planner.launch("{}", HR_LAUNCH_NEW, std::string("do\0it", 5));
  INFO((launched.has_error() ? launched.error().detail : ""));
  REQUIRE(launched.has_value());
  const LaunchPlan& plan = launched.value().plan;
  CHECK(launched.value().snapshot == "odd");
  CHECK(plan.argv == std::vector<std::string>{"--json"});
  REQUIRE(plan.initial_input.size() == 2);
  CHECK(plan.initial_input[0].bytes == std::string("do\0it", 5));
  CHECK(plan.initial_input[1].kind == HR_PART_SECRET);
  CHECK(plan.initial_input[1].encoding == HR_ENCODE_JSON_STRING);
  REQUIRE(plan.env.size() == 3);
  CHECK(plan.env[1].value == "\xfe");
  CHECK(plan.env[2].value == "sub/dir");
  REQUIRE(plan.streams.size() == 2);
  CHECK(plan.streams[0].stream == HR_STREAM_STDOUT);
  CHECK(plan.streams[0].framing == HR_FRAME_CHUNKS);
  REQUIRE(plan.file_streams.size() == 1);
  CHECK(plan.file_streams[0].pattern == "sessions/*/r-?.jsonl");
  CHECK(plan.file_streams[0].carry);
  CHECK(plan.file_streams[0].record_cap == 8u << 20);
  CHECK(plan.home_files.at(0).bytes == std::string("a\0b", 3));
  REQUIRE(plan.stop.size() == 2);
  CHECK(plan.stop[0].parts.at(0).bytes == "bye\n");
  CHECK(plan.stop[1].signal == 15);
  REQUIRE(plan.timers.size() == 1);
  CHECK(plan.timers[0].after_ms == 1500);
  CHECK(outbox_bytes(plan.initial_input).size() == 2 * sizeof(wire::OutboxPart) + 5 + 3);
}

TEST_CASE("a plan out of bounds is refused with its field") {
  Planner planner = started("odd");
  const std::vector<std::pair<std::string, std::string>> faults = {
      {"dotdot", "homeFiles"}, {"absolute", "homeFiles"},      {"nul", "argv"},
      {"env", "env"},          {"env-twice", "env.A"},         {"stream-twice", "streams.1"},
      {"cap", "streams.1"},    {"pattern", "fileStreams.1"},   {"stop-signal", "stop.2"},
      {"argv", "argv"},        {"secret-name", "initialInput"}};
  for (const auto& [how, field] : faults) {
    INFO(how);
    const auto launched = planner.launch("{}", HR_LAUNCH_NEW, how);
    REQUIRE(launched.has_error());
    CHECK(launched.error().code == "adapter-plan-invalid");
    CHECK(launched.error().detail.find(field) != std::string::npos);
  }
  CHECK(planner.launch("{}", HR_LAUNCH_NEW, "fine").has_value());
}

TEST_CASE("the host checks a plan itself, whatever the child let through") {
  LaunchPlan plan;
  plan.home_files.push_back({"../up", ""});
  CHECK(check_plan(plan).error().object == "homeFiles");
  plan = {};
  plan.timers.resize(17);
  CHECK(check_plan(plan).error().object == "timers");
  plan = {};
  plan.transport = HR_TRANSPORT_WEBSOCKET;
  CHECK(check_plan(plan).error().object == "endpoint");
  plan = {};
  REQUIRE(check_plan(plan).has_value());
  const auto again = launch_plan_from(to_value(plan));
  REQUIRE(again.has_value());
  CHECK(again.value().streams.size() == 2);
  CHECK(launch_plan_from(json::Value::object()).has_error());
}

TEST_CASE("a refused argument keeps the adapter's own code, another failure does not") {
  Planner planner = started("odd");
  const auto refused = planner.launch("{}", HR_LAUNCH_NEW, "refuse");
  REQUIRE(refused.has_error());
  CHECK(refused.error().code == "model-unknown");
  CHECK(refused.error().kind == ErrorClass::refused);
  CHECK(refused.error().object == "launch");
  const auto failed = planner.render("fail", 0);
  REQUIRE(failed.has_error());
  CHECK(failed.error().code == "adapter-hook-failed");
  CHECK(failed.error().detail.find("the adapter is broken") != std::string::npos);
}

TEST_CASE("a crashing hook is named with its signal, and the planner stays dead") {
  Planner planner = started("odd");
  const auto crashed = planner.launch("{}", HR_LAUNCH_NEW, "abort");
  REQUIRE(crashed.has_error());
  CHECK(crashed.error().code == "adapter-crashed");
  CHECK(crashed.error().object == "launch");
  CHECK(crashed.error().detail.find("signal 6") != std::string::npos);
  CHECK(planner.render("x", 0).error().code == "adapter-crashed");
  CHECK(no_children());
}

TEST_CASE("an adapter that ends its process is as good as crashed") {
  Planner planner = started("odd");
  const auto gone = planner.render("exit", 0);
  REQUIRE(gone.has_error());
  CHECK(gone.error().code == "adapter-crashed");
  CHECK(gone.error().detail.find("code 7") != std::string::npos);
}

TEST_CASE("a hook that computes or sleeps too long is killed") {
  const std::int64_t begin = monotonic_nanos();
  Planner looping = started("odd", {200, 20'000});
  const auto computed = looping.probe("loop");
  REQUIRE(computed.has_error());
  CHECK(computed.error().code == "adapter-watchdog");
  CHECK(computed.error().object == "probe");
  CHECK(computed.error().detail.find("CPU") != std::string::npos);
  Planner sleeping = started("odd", {5000, 300});
  CHECK(sleeping.render("sleep", 0).error().code == "adapter-watchdog");
  CHECK(monotonic_nanos() - begin < 15'000'000'000);
  CHECK(no_children());
}

TEST_CASE("what is not an adapter does not start") {
  const Fd runner(
      ::open((std::string(HITCHRAIL_BINARY_DIR) + "/bin/hitchrail-runner").c_str(), O_RDONLY | O_CLOEXEC));
  const auto sealed = sealed_memfd("adapter", "not an ELF file");
  const auto planner = Planner::start(runner.get(), sealed.value().get());
  REQUIRE(planner.has_error());
  CHECK(planner.error().code == "adapter-load-failed");
  CHECK(planner.error().detail.find("plugin-not-elf") != std::string::npos);
  CHECK(no_children());
}

TEST_CASE("base64 is read back and anything else refused") {
  for (const std::string text : {"", "a", "ab", "abc", "abcd", "\xff\x00\xfe"}) {
    json::Value part = to_value(ProbeStep{1, 1, 1, 1, 0, {text}, text});
    CHECK(probe_step_from(part).value().input == text);
  }
  CHECK(base64_decode("ab").has_error());
  CHECK(base64_decode("ab=c").has_error());
  CHECK(base64_decode("a b=").has_error());
}
