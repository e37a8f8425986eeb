// Starting that fails, stopping, the end of the tree.

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <thread>

#include "unit/shim/fixture.hpp"

using namespace shim_test;

namespace {
const wire::StopStep term{wire::stop_signal, SIGTERM, 200, 0};
const wire::StopStep interrupt{wire::stop_signal, SIGINT, 200, 0};
const wire::StopStep close_input{wire::stop_close_input, 0, 200, 0};
}  // namespace

TEST_CASE("init that fails is reported in its own words, the finisher follows, no runner is started") {
  const std::string mode = GENERATE("fail", "die");
  Run run({.script = "exit 0", .init = mode});
  REQUIRE(run.report.outcome == wire::start_failed);
  REQUIRE(std::string(run.report.step) == (mode == "fail" ? "mount-proc" : "init-lost"));
  REQUIRE(run.wait());
  REQUIRE(run.slot().state == wire::exit_ended);
  REQUIRE(std::string(run.slot().cause) == "start-failed");
  REQUIRE(run.slot().kind == wire::kind_none);
  REQUIRE_FALSE(run.exists("j"));
  REQUIRE(run.exists("finished-1"));
  REQUIRE(run.no_process_left());
}

TEST_CASE("a program that cannot be executed is a failed start") {
  Run run({.script = "exit 0", .program = "/nonexistent/harness"});
  REQUIRE(run.report.outcome == wire::start_failed);
  REQUIRE(std::string(run.report.step) == "exec");
  REQUIRE(run.wait());
  REQUIRE(std::string(run.slot().cause) == "start-failed");
  REQUIRE(run.no_process_left());
}

TEST_CASE("a damaged spawn document is refused by name and nothing starts") {
  Run run({.script = "exit 0", .bad_document = true});
  REQUIRE(run.report.outcome == wire::start_failed);
  REQUIRE(std::string(run.report.step) == "spawn-document");
  REQUIRE(run.wait());
  REQUIRE(std::string(run.slot().cause) == "start-failed");
  REQUIRE_FALSE(run.exists("s"));
}

TEST_CASE("stop runs the plan's steps in order and takes the first that works") {
  Run run({.script = "on 15 7\nout ready\nsleep 60000", .stop_steps = {interrupt, term}});
  // SIGINT kills the script-harness by default: it never sees SIGTERM.
  REQUIRE(run.wait_journal("ready"));
  REQUIRE(run.ask('s', wire::control_stop).outcome == wire::control_ok);
  REQUIRE(run.wait());
  REQUIRE(run.slot().kind == wire::kind_signal);
  REQUIRE(run.slot().value == SIGINT);
  REQUIRE(run.slot().stop_requested == wire::stop_asked);
  REQUIRE(run.journal().find("kind 5 exit 2 2 1") != std::string::npos);
}

TEST_CASE("closing the input is a step of its own") {
  Run run({.script = "out ready\neof\nout bye\nexit 5", .stop_steps = {close_input}});
  REQUIRE(run.wait_journal("ready"));
  run.ask('s', wire::control_stop);
  REQUIRE(run.wait());
  REQUIRE(run.slot().value == 5);
  REQUIRE(run.journal().find(" bye\n") != std::string::npos);
}

TEST_CASE("a harness that ignores every step is killed, its last bytes are kept") {
  Run run({.script = "ignore 15\nignore 2\nout ready\neof\nout still here\nsleep 60000",
           .stop_steps = {close_input, interrupt, term}});
  REQUIRE(run.wait_journal("ready"));
  const auto begin = std::chrono::steady_clock::now();
  run.ask('s', wire::control_stop);
  REQUIRE(run.wait());
  REQUIRE(std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(590));
  REQUIRE(run.slot().kind == wire::kind_signal);
  REQUIRE(run.slot().value == SIGKILL);
  REQUIRE(run.journal().find(" still here\n") != std::string::npos);
  REQUIRE(run.no_process_left());
}

TEST_CASE("kill ends the whole tree: own sessions, double forks, stopped, stubborn, fork storms") {
  const std::string init = GENERATE("plain", "pidns");
  Run run({.script = "spawn-setsid 600000\nspawn-double 600000\nspawn-stopped\nspawn-stubborn "
                     "600000\nhold-pipe 600000\nfork-storm 4\nout ready\nstop",
           .init = init,
           .flags = init == "plain" ? wire::flag_no_pid_namespace : 0u,
           .stop_steps = {term}});
  REQUIRE(run.wait_journal("ready"));
  REQUIRE(run.ask('s', wire::control_kill).outcome == wire::control_ok);
  REQUIRE(run.wait());
  REQUIRE(run.slot().kind == wire::kind_signal);
  REQUIRE(run.slot().value == SIGKILL);
  REQUIRE(run.slot().stop_requested == wire::stop_kill);
  REQUIRE(std::string(run.slot().cause).empty());
  REQUIRE(run.no_process_left());
}

TEST_CASE("a grandchild that holds the output does not hold the run") {
  const std::string init = GENERATE("plain", "pidns");
  const auto begin = std::chrono::steady_clock::now();
  Run run({.script = "out ready\nhold-pipe 600000\nexit 0",
           .init = init,
           .flags = init == "plain" ? wire::flag_no_pid_namespace : 0u});
  REQUIRE(run.wait());
  REQUIRE(std::chrono::steady_clock::now() - begin < std::chrono::seconds(2));
  REQUIRE(run.no_process_left());
}

TEST_CASE("stop steps given at a moment when the runner is dead still work") {
  Run run({.script = "on 15 9\nout ready\nsleep 60000", .runner = "", .stop_steps = {term}});
  REQUIRE(run.wait_journal("ready"));
  kill(run.runner_pid(), SIGKILL);
  run.ask('s', wire::control_stop);
  REQUIRE(run.wait());
  REQUIRE(run.slot().value == 9);
  REQUIRE(run.journal().find("kind 5 exit 1 9 1") != std::string::npos);
}

TEST_CASE("the caller may ask to stop at each step, repeatedly: one exit, one finisher") {
  Run run({.script = "ignore 15\nout ready\nsleep 60000", .stop_steps = {term, term}});
  REQUIRE(run.wait_journal("ready"));
  for (int i = 0; i < 3; ++i) {
    REQUIRE(run.ask('s', wire::control_stop).answered);
    kill(run.runner_pid(), SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  REQUIRE(run.wait());
  const std::string journal = run.journal();
  const auto at = journal.find("kind 5 exit 2 9 1");
  REQUIRE(at != std::string::npos);
  REQUIRE(journal.find("kind 5", at + 1) == std::string::npos);
  REQUIRE_FALSE(run.exists("finished-2"));
}

TEST_CASE("the wall limit runs the stop steps and names itself as the cause") {
  Run run(
      {.script = "on 15 0\nout ready\nsleep 60000", .limits = limits(0, 0, 0, 300), .stop_steps = {term}});
  REQUIRE(run.wait());
  REQUIRE(std::string(run.slot().cause) == "run-timeout");
  REQUIRE(run.slot().stop_requested == wire::stop_timeout);
  REQUIRE(run.journal().find("kind 6") != std::string::npos);  // mapped to its end all the same
}

TEST_CASE("an adapter may end the run, and may signal the harness") {
  Run ended({.script = "on 15 0\nout END\nsleep 60000", .stop_steps = {term}});
  REQUIRE(ended.wait());
  REQUIRE(ended.slot().value == 0);
  REQUIRE(ended.slot().stop_requested == wire::stop_end_run);
  Run signalled({.script = "on 10 6\nout SIGNAL 10\nsleep 60000"});
  REQUIRE(signalled.wait());
  REQUIRE(signalled.slot().value == 6);
  Run refused({.script = "out SIGNAL 9\nsleep 300\nexit 4"});  // SIGKILL is not the adapter's to send
  REQUIRE(refused.wait());
  REQUIRE(refused.slot().value == 4);
}

TEST_CASE("a harness killed from outside and one whose init is lost or mute") {
  Run killed({.script = "out ready\nsleep 60000"});
  REQUIRE(killed.wait_journal("ready"));
  kill(killed.report.leader_pid, SIGKILL);
  REQUIRE(killed.wait());
  REQUIRE(killed.slot().value == SIGKILL);
  REQUIRE(killed.slot().source == wire::source_init);
  REQUIRE(killed.slot().stop_requested == wire::stop_none);

  Run lost({.script = "out ready\nsleep 60000"});
  REQUIRE(lost.wait_journal("ready"));
  kill(lost.report.init_pid, SIGKILL);
  REQUIRE(lost.wait());
  REQUIRE(lost.slot().kind == wire::kind_signal);  // the leader died with init and became the shim's to reap
  REQUIRE(lost.slot().source == wire::source_wait);
  REQUIRE(lost.no_process_left());

  Run mute({.script = "out ready\nexit 3", .init = "mute"});
  REQUIRE(mute.wait());
  REQUIRE((mute.slot().kind == wire::kind_unknown || mute.slot().value == 3));
  REQUIRE(mute.slot().source != wire::source_init);
}

TEST_CASE("SIGKILL of the shim ends its harness and its runner and leaves the slot as running") {
  const std::string init = GENERATE("plain", "pidns");
  Run run({.script = "spawn-setsid 600000\nout ready\nsleep 60000",
           .init = init,
           .flags = init == "plain" ? wire::flag_no_pid_namespace : 0u});
  REQUIRE(run.wait_journal("ready"));
  const int runner = run.runner_pid();
  kill(run.pid, SIGKILL);
  REQUIRE_FALSE(run.wait());
  REQUIRE(run.exit_code() == 1009);
  REQUIRE(run.slot().state == wire::exit_running);
  REQUIRE(run.slot().leader_pid == run.report.leader_pid);
  // The orphans are ours now: runner and harness die by themselves.
  bool runner_dead = false;
  bool leader_dead = false;
  for (int i = 0; i < 400 && !(runner_dead && leader_dead); ++i) {
    waitpid(-1, nullptr, WNOHANG);
    runner_dead = kill(runner, 0) != 0;
    leader_dead = kill(run.report.leader_pid, 0) != 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  REQUIRE(runner_dead);
  REQUIRE(leader_dead);
}

TEST_CASE("SIGTERM to the shim is a stop, not an end") {
  Run run({.script = "on 15 2\nout ready\nsleep 60000", .stop_steps = {term}});
  REQUIRE(run.wait_journal("ready"));
  kill(run.pid, SIGTERM);
  REQUIRE(run.wait());
  REQUIRE(run.slot().value == 2);
  REQUIRE(run.slot().stop_requested == wire::stop_asked);
}
