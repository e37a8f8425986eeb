// The real hitchrail-runner with the script adapter, driven by a shim of the test's own.

#include <hitchrail/adapter.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

#include "core/json.hpp"
#include "fake_shim.hpp"

using namespace hitchrail;
using namespace hitchrail::test;

namespace {

ShimSetup script_setup() {
  ShimSetup setup;
  setup.config = script_config();
  return setup;
}
std::string delta(const std::string& item, const std::string& text) {
  return R"({"type":"delta","item":")" + item + R"(","text":")" + text + "\"}\n";
}
std::string message(const std::string& text) {
  return R"({"type":"message","text":")" + text + "\"}\n";
}
const std::string done = "{\"type\":\"done\",\"status\":\"success\",\"summary\":\"all good\"}\n";

using Kinds = std::vector<std::string>;

}  // namespace

TEST_CASE("a whole run is mapped, committed and ended with the adapter's verdict") {
  FakeShim shim(script_setup());
  shim.arrive(1, message("hello"));
  shim.arrive(2, "a note on stderr\n");
  shim.arrive(1, delta("a", "one ") + delta("a", "two"));
  shim.arrive(1, "not json\n" + done);
  shim.exit_and_end();
  shim.start();
  REQUIRE(shim.run() == "done");
  CHECK(shim.wait_status == 0);
  CHECK(kinds(shim.attempt()) == Kinds{"message.assistant hello", "stream.stderr a note on stderr",
                                       "message.delta one two", "provider.unknown",
                                       "message.assistant all good", "run.verdict"});
  CHECK(shim.slot().session_state == 2);
  CHECK(shim.slot().streams[0].ended == 1);
}

TEST_CASE("an answer reaches the harness once, in the commit of the record that asked") {
  FakeShim shim(script_setup());
  shim.arrive(1, "{\"type\":\"ask\",\"id\":7}\n{\"type\":\"ask\",\"id\":8}\n");
  shim.start();
  REQUIRE(shim.settle() == "settled");
  CHECK(shim.sent_to_harness == "answer 7\nanswer 8\n");
  shim.kill();
  shim.exit_and_end();
  shim.start();
  REQUIRE(shim.run() == "done");
  CHECK(shim.sent_to_harness == "answer 7\nanswer 8\n");
}

TEST_CASE("end of input, signals and the end of the run are handed to the shim") {
  FakeShim shim(script_setup());
  shim.arrive(1, "{\"type\":\"signal\",\"n\":2}\n{\"type\":\"signal\",\"n\":15}\n");
  shim.start();
  REQUIRE(shim.settle() == "settled");
  CHECK(shim.signals == std::vector<std::int32_t>{2, 15});
  CHECK_FALSE(shim.input_closed);
  shim.arrive(1, "{\"type\":\"close\"}\n");
  REQUIRE(shim.settle() == "settled");
  CHECK(shim.input_closed);
  CHECK_FALSE(shim.end_run);
  shim.arrive(1, "{\"type\":\"end\"}\n");
  REQUIRE(shim.settle() == "settled");
  CHECK(shim.end_run);
}

TEST_CASE("nothing is sent after the end of input, also by a successor") {
  FakeShim shim(script_setup());
  shim.arrive(1, "{\"type\":\"close\"}\n");
  shim.start();
  REQUIRE(shim.settle() == "settled");
  shim.kill();
  shim.arrive(1, "{\"type\":\"ask\",\"id\":1}\n");
  shim.start();
  REQUIRE(shim.run() == "failed");
  CHECK(shim.failure == wire::runner_hook_failed);
  CHECK(shim.failure_code == "adapter-hook-failed");
  CHECK(shim.failure_detail.find("send answered HR_E_STATE") != std::string::npos);
  CHECK(shim.sent_to_harness.empty());
}

TEST_CASE("a timer fires once, and not when it was set again meanwhile") {
  FakeShim shim(script_setup());
  shim.arrive(1, "{\"type\":\"timer\",\"ms\":50}\n");
  shim.start();
  REQUIRE(shim.settle() == "settled");
  REQUIRE(shim.timers.count(1) == 1);
  CHECK(shim.timers[1].after_ms == 50);
  const wire::TimerInput stale{1, 0, shim.timers[1].action};
  shim.arrive(1, "{\"type\":\"timer\",\"ms\":70}\n");
  REQUIRE(shim.settle() == "settled");
  const wire::TimerInput fresh{1, 0, shim.timers[1].action};
  CHECK(fresh.action > stale.action);
  shim.input(wire::input_timer, {reinterpret_cast<const char*>(&stale), sizeof(stale)});
  REQUIRE(shim.settle() == "settled");
  CHECK(shim.sent_to_harness.empty());
  CHECK(shim.timers.count(1) == 1);
  shim.input(wire::input_timer, {reinterpret_cast<const char*>(&fresh), sizeof(fresh)});
  shim.input(wire::input_timer, {reinterpret_cast<const char*>(&fresh), sizeof(fresh)});
  REQUIRE(shim.settle() == "settled");
  CHECK(shim.sent_to_harness == "timer\n");
  CHECK(shim.timers.empty());
  CHECK(kinds(shim.attempt()) == Kinds{"script.timer"});
}

TEST_CASE("a timer of the plan is armed by the first commit, once") {
  ShimSetup setup = script_setup();
  setup.config.timers = {{1, 30}};
  FakeShim shim(setup);
  shim.start();
  while (shim.commits == 0 && shim.step(1000)) {
  }
  REQUIRE(shim.timers.count(1) == 1);
  const std::uint64_t action = shim.timers[1].action;
  shim.kill();
  shim.arrive(1, message("x"));
  shim.start();
  REQUIRE(shim.settle() == "settled");
  CHECK(shim.timers[1].action == action);
}

TEST_CASE("an approval is journaled, resolved by the operator's decision and never twice") {
  FakeShim shim(script_setup());
  shim.arrive(1, "{\"type\":\"approve\",\"id\":\"rm -rf\"}\n{\"type\":\"approve\",\"id\":\"two\"}\n");
  shim.start();
  REQUIRE(shim.settle() == "settled");
  shim.kill();
  shim.decide(HR_DECISION_ALLOW_ONCE, "rm -rf");
  shim.decide(HR_DECISION_DENY, "rm -rf");
  shim.decide(HR_DECISION_DENY, "never asked");
  shim.exit_and_end();
  shim.start();
  REQUIRE(shim.run() == "done");
  CHECK(shim.sent_to_harness == "decision allow-once\n");
  const auto events = comparable_journal(shim.attempt());
  REQUIRE(events.size() == 5);
  const auto field = [&](std::size_t index, const char* key) {
    return json::parse(events[index], json::Duplicates::refuse).value().get("payload").get(key).as_string();
  };
  CHECK(field(0, "approvalId") == "rm -rf");
  CHECK(field(0, "actionHash").substr(0, 7) == "sha256:");
  CHECK(field(2, "decision") == "allow-once");
  CHECK(field(3, "approvalId") == "two");
  CHECK(field(3, "decision") == "cancelled");
  CHECK(kinds(shim.attempt()) == Kinds{"approval.requested", "approval.requested", "approval.resolved",
                                       "approval.resolved", "run.verdict"});
}

TEST_CASE("a service nobody granted is refused at once, in order") {
  FakeShim shim(script_setup());
  shim.arrive(1, "{\"type\":\"call\"}\n" + message("after"));
  shim.arrive(1, "{\"type\":\"call\"}\n");
  shim.start();
  REQUIRE(shim.settle() == "settled");
  CHECK(shim.sent_to_harness == "called 1 refused\ncalled 2 refused\n");
  CHECK(kinds(shim.attempt()) ==
        Kinds{"script.called refused", "message.assistant after", "script.called refused"});
}

TEST_CASE("a control is answered in the journal under the number of its input") {
  FakeShim shim(script_setup());
  shim.control(HR_CONTROL_STEER, "left");
  shim.control(HR_CONTROL_INTERRUPT, "");
  shim.start();
  REQUIRE(shim.settle() == "settled");
  CHECK(shim.sent_to_harness == "steer left\n");
  CHECK(kinds(shim.attempt()) == Kinds{"control.result", "conversation.steered left", "control.result"});
  const auto events = comparable_journal(shim.attempt());
  CHECK(events[0].find(R"("origin":{"input":1,"ordinal":0})") != std::string::npos);
  CHECK(events[2].find(R"("outcome":"impossible")") != std::string::npos);
}

TEST_CASE("conversation and turn stay on later events, also of a successor") {
  FakeShim shim(script_setup());
  shim.arrive(1, "{\"type\":\"thread\",\"id\":\"th1\"}\n{\"type\":\"turn\",\"id\":\"t9\"}\n");
  shim.start();
  REQUIRE(shim.settle() == "settled");
  shim.kill();
  shim.arrive(1, message("later"));
  shim.start();
  REQUIRE(shim.settle() == "settled");
  const auto events = comparable_journal(shim.attempt());
  REQUIRE(events.size() == 2);
  CHECK(events[1].find(R"("sessionId":"th1","turnId":"t9")") != std::string::npos);
}

TEST_CASE("a full ring is journaled as output-blocked") {
  FakeShim shim(script_setup());
  const std::uint64_t stream = 1;
  shim.input(wire::input_blocked, {reinterpret_cast<const char*>(&stream), sizeof(stream)});
  shim.start();
  REQUIRE(shim.settle() == "settled");
  CHECK(kinds(shim.attempt()) == Kinds{"stream.output-blocked"});
}

TEST_CASE("records of 300 KB and 5 MB arrive whole however they were cut") {
  FakeShim shim(script_setup());
  const std::string big = delta("big", std::string(5'000'000, 'x'));
  const std::string middle = delta("mid", std::string(300'000, 'y'));
  for (std::size_t at = 0; at < big.size(); at += 70'001) {
    shim.arrive(1, big.substr(at, 70'001));
  }
  shim.arrive(1, middle + done);
  shim.exit_and_end();
  shim.start();
  REQUIRE(shim.run() == "done");
  const auto events = comparable_journal(shim.attempt());
  REQUIRE(events.size() == 4);
  const auto text = [&](std::size_t index) {
    return json::parse(events[index], json::Duplicates::refuse)
        .value()
        .get("payload")
        .get("text")
        .as_string();
  };
  CHECK(text(0) == std::string(5'000'000, 'x'));
  CHECK(text(1) == std::string(300'000, 'y'));
}

TEST_CASE("a record over its cap ends the run after what came before it is durable") {
  ShimSetup setup = script_setup();
  setup.config.streams[0].record_cap = 1000;
  FakeShim shim(setup);
  shim.arrive(1, message("kept") + std::string(1001, 'x'));
  shim.start();
  REQUIRE(shim.run() == "failed");
  CHECK(shim.failure == wire::runner_record_too_long);
  CHECK(shim.failure_code == "record-too-long");
  CHECK(kinds(shim.attempt()) == Kinds{"message.assistant kept"});
}

TEST_CASE("a truncated record says how much was dropped, also across a restart inside it") {
  ShimSetup setup = script_setup();
  setup.config.streams[1].record_cap = 10;
  FakeShim shim(setup);
  shim.arrive(2, "0123456789abc");
  shim.start();
  REQUIRE(shim.settle() == "settled");
  CHECK(shim.slot().streams[1].discarding == 1);
  shim.kill();
  shim.arrive(2, "def\nnext\n");
  shim.start();
  REQUIRE(shim.settle() == "settled");
  CHECK(kinds(shim.attempt()) ==
        Kinds{"stream.stderr 0123456789", "stream.record-truncated", "stream.stderr next"});
  CHECK(comparable_journal(shim.attempt())[1].find(
            R"("payload":{"stream":"stderr","offset":0,"droppedBytes":6})") != std::string::npos);
}

TEST_CASE("file streams are mapped after the exit; a missing one is one absent record") {
  ShimSetup setup = script_setup();
  setup.streams = {1, 2, 8, 9};
  setup.config.streams.push_back({8, HR_FRAME_WHOLE, HR_OVERFLOW_TRUNCATE, 1000});
  setup.config.streams.push_back({9, HR_FRAME_LINES, HR_OVERFLOW_TRUNCATE, 1000});
  FakeShim shim(setup);
  shim.eof(1);
  shim.eof(2);
  const wire::ExitInput exit{wire::kind_code, 0, 0, 0};
  shim.input(wire::input_exit, {reinterpret_cast<const char*>(&exit), sizeof(exit)});
  shim.arrive(8, "first line\nsecond");
  shim.eof(8);
  shim.eof(9, wire::eof_absent);
  shim.start();
  REQUIRE(shim.settle() == "settled");
  CHECK(shim.slot().session_state == 1);
  shim.kill();
  shim.input(wire::input_end);
  shim.start();
  REQUIRE(shim.run() == "done");
  // Not JSON objects, so the script adapter calls both unknown; a successor frames no end of stream a second
  // time.
  CHECK(kinds(shim.attempt()) == Kinds{"provider.unknown", "provider.unknown", "run.verdict"});
}

TEST_CASE("a runner started after the end was committed says so and ends") {
  FakeShim shim(script_setup());
  shim.arrive(1, done);
  shim.exit_and_end();
  shim.start();
  REQUIRE(shim.run() == "done");
  const auto before = comparable_journal(shim.attempt());
  shim.start();
  REQUIRE(shim.run() == "done");
  CHECK(comparable_journal(shim.attempt()) == before);
}

TEST_CASE("a failing hook ends the attempt with its reason after what came before it") {
  FakeShim shim(script_setup());
  shim.arrive(1, message("kept") + "{\"type\":\"crash\",\"how\":\"fail\"}\n" + message("never"));
  shim.start();
  REQUIRE(shim.run() == "failed");
  CHECK(shim.failure == wire::runner_hook_failed);
  CHECK(shim.failure_detail.find("script-failed") != std::string::npos);
  CHECK(shim.failure_detail.find("map_events") != std::string::npos);
  CHECK(kinds(shim.attempt()) == Kinds{"message.assistant kept"});
}

TEST_CASE("a crashing record takes nothing else with it") {
  FakeShim shim(script_setup());
  std::string batch;
  for (int i = 0; i < 50; ++i) {
    batch += message(std::to_string(i));
  }
  shim.arrive(1, batch + "{\"type\":\"crash\",\"how\":\"segv\"}\n" + message("never"));
  shim.start();
  CHECK(shim.run() == "signal 11");
  CHECK(shim.area().current.busy.load() == wire::hook_map_events);
  CHECK(shim.area().current.stream == 1);
  CHECK(shim.area().current.offset == batch.size());
  shim.start();
  CHECK(shim.run() == "signal 11");
  CHECK(kinds(shim.attempt()).size() == 50);
  CHECK(shim.slot().streams[0].mapped == batch.size());
}

TEST_CASE("events already in the journal are not written again") {
  FakeShim shim(script_setup());
  shim.hold_applied = true;
  shim.start();
  for (int i = 0; i < 3; ++i) {
    shim.arrive(1, message(std::to_string(i)) + delta("d", std::to_string(i)));
    while (kinds(shim.attempt()).size() < static_cast<std::size_t>(2 * i + 2) && shim.alive()) {
      shim.step(10);
    }
  }
  // The third batch is durable but cannot be published: the shim has not taken over the generation below it.
  shim.kill();
  CHECK(shim.slot().generation == 3);
  CHECK(kinds(shim.attempt()).size() == 6);
  shim.hold_applied = false;
  shim.exit_and_end();
  shim.start();
  REQUIRE(shim.run() == "done");
  CHECK(kinds(shim.attempt()) == Kinds{"message.assistant 0", "message.delta 0", "message.assistant 1",
                                       "message.delta 1", "message.assistant 2", "message.delta 2",
                                       "run.verdict"});
}

TEST_CASE("a secret is nowhere in the attempt directory") {
  ShimSetup setup = script_setup();
  setup.secrets = {{"SCRIPT_SECRET", "hunter2-very-secret"}, {"OTHER", "zzTOPsecretzz"}};
  FakeShim shim(setup);
  shim.arrive(1, message("key hunter2-very-secret") + delta("a", "hunter2-ver") + delta("a", "y-secret") +
                     delta("b", "zzTOPsecretzz"));
  shim.arrive(2, "stderr hunter2-very-secret\n");
  shim.arrive(1, delta("c", std::string(20'000, 'x') + "hunter2-very-secret"));
  shim.arrive(1, "{\"type\":\"done\",\"status\":\"success\",\"summary\":\"used hunter2-very-secret\"}\n");
  shim.control(HR_CONTROL_STEER, "say hunter2-very-secret");
  shim.exit_and_end();
  shim.start();
  REQUIRE(shim.run() == "done");
  CHECK_FALSE(anywhere(shim.path(), "hunter2-very-secret"));
  CHECK_FALSE(anywhere(shim.path(), "zzTOPsecretzz"));
  CHECK(anywhere(shim.path(), "[REDACTED:SCRIPT_SECRET]"));
}

TEST_CASE("a full journal is said as such, and what fits stays") {
  ShimSetup setup = script_setup();
  setup.config.journal.max_events = 70;  // 64 are kept for the host
  FakeShim shim(setup);
  for (int i = 0; i < 20; ++i) {
    shim.arrive(1, message(std::to_string(i)));
  }
  shim.start();
  REQUIRE(shim.run() == "failed");
  CHECK(shim.failure == wire::runner_journal_full);
  CHECK(kinds(shim.attempt()).size() == 6);
}

namespace {
ShimSetup odd_setup() {
  ShimSetup setup;
  setup.adapter = std::string(HITCHRAIL_BINARY_DIR) + "/test-plugins/odd.so";
  setup.snapshot = "odd";
  setup.config = script_config();
  return setup;
}
}  // namespace

TEST_CASE("an adapter that says something else the second time is journaled as nondeterministic") {
  FakeShim shim(odd_setup());
  shim.hold_applied = true;
  shim.start();
  for (int i = 1; i <= 3; ++i) {
    shim.arrive(1, "clock\n");
    while (kinds(shim.attempt()).size() < static_cast<std::size_t>(i) && shim.alive()) {
      shim.step(10);
    }
  }
  shim.kill();  // the third event is durable, its commit is not published
  shim.hold_applied = false;
  shim.start();
  REQUIRE(shim.settle() == "settled");
  const auto events = kinds(shim.attempt());
  REQUIRE(events.size() == 4);
  CHECK(events[3].substr(0, 24) == "adapter-nondeterministic");
}

TEST_CASE("a missing verdict is a failure, not a guess") {
  FakeShim shim(odd_setup());
  shim.exit_and_end();
  shim.start();
  REQUIRE(shim.run() == "done");
  const auto events = comparable_journal(shim.attempt());
  REQUIRE(events.size() == 1);
  CHECK(events[0].find(R"("status":"failed","code":"no-verdict")") != std::string::npos);
}

TEST_CASE("the reason of a failing hook is told without secrets") {
  ShimSetup setup = odd_setup();
  setup.secrets = {{"KEY", "open-sesame-123"}};
  FakeShim shim(setup);
  shim.arrive(1, "secret\n");
  shim.start();
  REQUIRE(shim.run() == "failed");
  CHECK(shim.failure_code == "adapter-hook-failed");
  CHECK(shim.failure_detail.find("open-sesame") == std::string::npos);
  CHECK(shim.failure_detail.find("[REDACTED:KEY]") != std::string::npos);
}

TEST_CASE("what is not an adapter is a failed load") {
  ShimSetup setup = script_setup();
  setup.adapter = std::string(HITCHRAIL_SOURCE_DIR) + "/CMakeLists.txt";
  FakeShim shim(setup);
  shim.start();
  REQUIRE(shim.run() == "failed");
  CHECK(shim.failure == wire::runner_load_failed);
  CHECK(shim.failure_code == "plugin-not-elf");
}

TEST_CASE("a full disk is the journal's failure, and after room was made a successor goes on") {
  const std::string said = on_small_disk(3u << 20, [](const std::string& mount_point) -> std::string {
    ::setenv("TMPDIR", mount_point.c_str(), 1);
    FakeShim shim(script_setup());
    shim.arrive(1, message("before"));
    shim.start();
    if (shim.settle() != "settled") {
      return "the run did not begin";
    }
    fill_disk(mount_point);
    for (int i = 0; i < 200; ++i) {
      shim.arrive(1, message("filling " + std::to_string(i) + std::string(1000, 'x')));
    }
    if (shim.run() != "failed" || shim.failure != wire::runner_journal_failed) {
      return "the full disk gave failure " + std::to_string(shim.failure) + " " + shim.failure_code + " " +
             shim.failure_detail;
    }
    ::unlink((mount_point + "/filler").c_str());
    shim.arrive(1, done);
    shim.exit_and_end();
    shim.start();
    if (shim.run() != "done") {
      return "the successor did not end: " + shim.failure_code + " " + shim.failure_detail;
    }
    const auto events = kinds(shim.attempt());
    return events.size() == 203 ? "" : "the journal has " + std::to_string(events.size()) + " events";
  });
  CHECK(said == "");
}
