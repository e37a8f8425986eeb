// The two sockets.

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "unit/shim/fixture.hpp"

using namespace shim_test;

TEST_CASE("the sockets are 0600 and answer status with the true pids") {
  Run run({.script = "sleep 500\nexit 0"});
  for (const char* name : {"/s", "/c"}) {
    struct stat info {};
    REQUIRE(stat((run.dir + name).c_str(), &info) == 0);
    REQUIRE((info.st_mode & 0777) == 0600);
  }
  const Reply reply = run.ask('s', wire::control_status);
  REQUIRE(reply.answered);
  REQUIRE(reply.status.phase == wire::phase_running);
  REQUIRE(reply.status.leader_pid == run.report.leader_pid);
  REQUIRE(reply.status.started_unix_ms > 0);
  REQUIRE(run.wait());
}

TEST_CASE("a wrong token and a wrong protocol get one answer and nothing else") {
  Run run({.script = "sleep 600\nexit 0"});
  const Reply bad = run.ask('s', wire::control_kill, "", 0, false);
  REQUIRE(bad.answered);
  REQUIRE(bad.outcome == wire::control_bad_token);
  REQUIRE(bad.status.leader_pid == 0);
  const int fd = run.connect_to('s');
  std::string hello = run.hello();
  hello[4] = 9;  // version
  REQUIRE(send(fd, hello.data(), hello.size(), 0) > 0);
  wire::ControlReply reply{};
  REQUIRE(recv(fd, &reply, sizeof reply, MSG_WAITALL) == sizeof reply);
  REQUIRE(reply.outcome == wire::control_bad_request);
  REQUIRE(recv(fd, &reply, sizeof reply, 0) == 0);
  close(fd);
  REQUIRE(run.wait());
  REQUIRE(run.slot().value == 0);
}

TEST_CASE("requests on the wrong socket and malformed payloads are refused") {
  Run run({.script = "sleep 600\nexit 0"});
  REQUIRE(run.runner_pid() > 0);
  REQUIRE(run.ask('c', wire::control_status).outcome == wire::control_bad_request);
  REQUIRE(run.ask('s', wire::control_input, std::string(16, '\0')).outcome == wire::control_bad_request);
  REQUIRE(run.ask('c', wire::control_input, "short").outcome == wire::control_bad_request);
  REQUIRE(run.ask('c', wire::control_input, std::string(16, '\xff')).outcome == wire::control_bad_request);
  REQUIRE(run.ask('s', 77).outcome == wire::control_bad_request);
  REQUIRE(run.wait());
}

TEST_CASE("an input is numbered, delivered once, and a repeated id gets the first answer") {
  Run run({.script = "out ready\nexpect hello\nexpect bye\nexit 0"});
  REQUIRE(run.wait_journal("ready"));
  const Reply first = run.say("hello", 5);
  REQUIRE(first.outcome == wire::control_ok);
  REQUIRE(first.status.input_id == 1);
  REQUIRE(run.say("hello", 5).status.input_id == 1);
  const Reply second = run.say("bye", 6);
  REQUIRE(second.status.input_id == 2);
  REQUIRE(run.wait());
  REQUIRE(run.slot().value == 0);
}

TEST_CASE("a running runner missing is said, and after the exit it is too late") {
  Run run({.script = "exit 0", .runner = "late=1500"});
  for (int i = 0; i < 200 && run.slot().state != wire::exit_exited; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  REQUIRE(run.say("x").outcome == wire::control_too_late);
  REQUIRE(run.wait());
  Run restarting({.script = "out ready\nsleep 1500\nexit 0", .runner = "enospc=5"});
  bool said = false;
  for (int i = 0; i < 60 && !said; ++i) {
    const Reply reply = restarting.say("x");
    said = reply.outcome == wire::control_runner_restarting;
    REQUIRE(restarting.ask('s', wire::control_status).answered);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  REQUIRE(said);
  REQUIRE(restarting.wait());
}

TEST_CASE("garbage, silence and floods on both sockets do not disturb the run or the status") {
  Run run({.script = "deltas 30 d 60\nexit 0"});
  std::mt19937 random(4711);
  std::vector<int> silent;
  for (int i = 0; i < 5; ++i) {
    silent.push_back(run.connect_to('s'));
    silent.push_back(run.connect_to('c'));
  }
  for (int i = 0; i < 40; ++i) {
    const int fd = run.connect_to(i % 2 == 0 ? 's' : 'c');
    std::string bytes = i % 3 == 0 ? run.hello() : "";
    for (int k = 0; k < 300; ++k) {
      bytes.push_back(static_cast<char>(random()));
    }
    send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    close(fd);
  }
  const auto begin = std::chrono::steady_clock::now();
  const Reply reply = run.ask('s', wire::control_status);
  REQUIRE(reply.answered);
  REQUIRE(std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(2900));
  // Silent clients are gone after two seconds.
  std::this_thread::sleep_for(std::chrono::milliseconds(2200));
  for (const int fd : silent) {
    char byte = 0;
    REQUIRE(recv(fd, &byte, 1, MSG_DONTWAIT) == 0);
    close(fd);
  }
  REQUIRE(run.wait());
  REQUIRE(run.slot().value == 0);
  REQUIRE(run.journal_lines().size() == 30 + 4);
}
