// Runners that die, hang, crash or cannot write.

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "unit/shim/fixture.hpp"

using namespace shim_test;

static std::string chatter(int asks) {
  std::string script;
  for (int i = 1; i <= asks; ++i) {
    script += "deltas 20 d" + std::to_string(i) + "\nask " + std::to_string(i) + "\nexpect answer " +
              std::to_string(i) + "\n";
  }
  return script + "record 300000 9\nout over\nexit 0";
}

// Which of two streams ends first is the kernel's to say.
static std::vector<std::string> without_ends(const Run& run) {
  std::vector<std::string> out;
  for (const auto& line : run.journal_lines()) {
    if (line[0] != 'e') {
      out.push_back(line);
    }
  }
  return out;
}

TEST_CASE(
    "a runner killed before each third commit is followed by successors: same journal, each answer written "
    "once") {
  Run quiet({.script = chatter(12)});
  REQUIRE(quiet.wait());
  Run killed({.script = chatter(12), .runner = "kill-every=3"});
  REQUIRE(killed.wait(30000));
  REQUIRE(killed.slot().value == 0);  // exit 97: a doubled answer, 98: a lost one
  REQUIRE(killed.slot().runner_restarts >= 4);
  REQUIRE(without_ends(killed) == without_ends(quiet));
  REQUIRE(killed.no_process_left());
}

TEST_CASE("an answer published by a runner that dies before it says so is written exactly once") {
  Run run({.script = "ask 1\nexpect answer 1\nask 2\nexpect answer 2\nout over\nexit 0",
           .runner = "kill-published"});
  REQUIRE(run.wait());
  REQUIRE(run.slot().value == 0);
  REQUIRE(run.slot().runner_restarts == 1);
  REQUIRE(run.journal().find(" over\n") != std::string::npos);
}

TEST_CASE("SIGKILL from outside at any moment restarts the runner and counts against nobody") {
  Run run({.script = "deltas 400 d 2\nout over\nexit 0"});
  for (int i = 0; i < 8; ++i) {
    const int pid = run.runner_pid();
    REQUIRE(pid > 0);
    kill(pid, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(40));
  }
  REQUIRE(run.wait());
  REQUIRE(std::string(run.slot().cause).empty());
  REQUIRE(run.slot().runner_restarts >= 6);
  const auto lines = run.journal_lines();
  REQUIRE(lines.size() == 400 + 1 + 4);
  REQUIRE(run.no_process_left());
}

TEST_CASE("three crashes on one record end the attempt as adapter-crashed with the record quarantined") {
  const std::string word = GENERATE("SEGV", "ABRT");
  Run run({.script = "out fine\nsleep 50\nout " + word + " here\nsleep 60000"});
  REQUIRE(run.wait());
  const wire::ExitSlot slot = run.slot();
  REQUIRE(std::string(slot.cause) == "adapter-crashed");
  REQUIRE(slot.state == wire::exit_ended);
  REQUIRE(slot.runner_restarts == 2);
  REQUIRE(slot.kind == wire::kind_signal);
  REQUIRE(slot.stop_requested == wire::stop_cause);
  const std::string name = "quarantine/stream-1-offset-5";
  REQUIRE(run.file(name) == word + " here\n");
  struct stat info {};
  REQUIRE(stat((run.dir + "/" + name).c_str(), &info) == 0);
  REQUIRE((info.st_mode & 0777) == 0600);
  REQUIRE(run.journal().find(" fine\n") != std::string::npos);
  REQUIRE(run.exists("finished-1"));
  REQUIRE(run.no_process_left());
}

TEST_CASE("a control input that crashes three times is quarantined by its id") {
  Run run({.script = "out fine\nsleep 60000"});
  REQUIRE(run.wait_journal("fine"));
  REQUIRE(run.say("SEGV please").outcome == wire::control_ok);
  REQUIRE(run.wait());
  REQUIRE(std::string(run.slot().cause) == "adapter-crashed");
  REQUIRE(run.file("quarantine/input-1").find("SEGV please") != std::string::npos);
}

TEST_CASE("a hook that burns its CPU budget or sleeps over its wall budget is killed and counted") {
  const std::string word = GENERATE("SPIN", "HANG");
  const auto begin = std::chrono::steady_clock::now();
  Run run(
      {.script = "out " + word + "\nsleep 60000", .limits = limits(0, 300, word == "HANG" ? 600 : 20000)});
  REQUIRE(run.wait(20000));
  const auto took = std::chrono::steady_clock::now() - begin;
  REQUIRE(took > std::chrono::milliseconds(900));
  const wire::ExitSlot slot = run.slot();
  REQUIRE(std::string(slot.cause) == "adapter-crashed");
  REQUIRE(std::string(slot.cause_detail).find("watchdog") != std::string::npos);
  REQUIRE(run.file("quarantine/stream-1-offset-0") == word + "\n");
}

TEST_CASE("a hook that says it failed ends the attempt with its own words") {
  Run run({.script = "out FAIL\nsleep 60000"});
  REQUIRE(run.wait());
  REQUIRE(std::string(run.slot().cause) == "adapter-failed");
  REQUIRE(std::string(run.slot().cause_detail) == "bad-record: it said FAIL");
  REQUIRE(run.no_process_left());
}

TEST_CASE("a runner that kills itself on one record without end is given up as runner-killed") {
  Run run({.script = "out SELFKILL\nsleep 600000"});
  REQUIRE(run.wait(90000));
  REQUIRE(std::string(run.slot().cause) == "runner-killed");
  REQUIRE(run.no_process_left());
}

TEST_CASE("a journal on a full disk is tried again and nothing is lost") {
  Run run({.script = "deltas 50 d\nout over\nexit 0", .runner = "enospc=4"});
  REQUIRE(run.wait(20000));
  REQUIRE(std::string(run.slot().cause).empty());
  REQUIRE(run.slot().runner_restarts == 4);
  REQUIRE(run.journal_lines().size() == 50 + 1 + 4);
}

TEST_CASE("timers fire as numbered inputs, once") {
  Run run({.script = "out begin\nsleep 900\nexit 0", .runner = "timers"});
  REQUIRE(run.wait());
  const std::string journal = run.journal();
  const auto at = journal.find("kind 4 timer 7");
  REQUIRE(at != std::string::npos);
  REQUIRE(journal.find("kind 4", at + 1) == std::string::npos);
}

TEST_CASE("a finisher killed twice is started again") {
  Run run({.script = "sleep 300\nexit 0"});
  write_path(run.dir + "/finish-dies", "2");
  REQUIRE(run.wait());
  REQUIRE(run.exists("finished-3"));
  REQUIRE_FALSE(run.exists("finished-4"));
}

TEST_CASE("a finisher that could not finish is started again, and not for ever") {
  Run once({.script = "sleep 300\nexit 0"});
  write_path(once.dir + "/finish-fails", "1");
  REQUIRE(once.wait());
  REQUIRE(once.exists("finished-2"));
  REQUIRE_FALSE(once.exists("finished-3"));
  Run always({.script = "sleep 300\nexit 0"});
  write_path(always.dir + "/finish-fails", "9");
  REQUIRE(always.wait());
  REQUIRE(always.exists("finished-4"));
  REQUIRE_FALSE(always.exists("finished-5"));
  REQUIRE(always.slot().state == wire::exit_ended);
}
