#include "attempt/control.hpp"
#include "attempt/identity.hpp"
#include "attempt_fixture.hpp"
#include "journal/journal.hpp"

using namespace hitchrail;
using namespace hitchrail::test;
using attempt::Directory;
using attempt::Liveness;

TEST_CASE("a process is known by boot, number and start time, and a zombie is dead") {
  Sleeper process;
  CHECK(attempt::liveness(process.identity()) == Liveness::alive);
  ProcessIdentity other = process.identity();
  other.start_ticks += 1;
  CHECK(attempt::liveness(other) == Liveness::dead);
  CHECK(code_of(attempt::Process::open(other)) == "process-gone");
  other = process.identity();
  other.boot_id = "00000000-0000-0000-0000-000000000000";
  CHECK(attempt::liveness(other) == Liveness::dead);
  CHECK(attempt::liveness({}) == Liveness::dead);
  auto handle = must(attempt::Process::open(process.identity()));
  CHECK_FALSE(must(handle.wait_gone(std::chrono::milliseconds(1))));
  must(handle.signal(SIGKILL));
  CHECK(must(handle.wait_gone(std::chrono::milliseconds(2000))));
  process.end(false);  // a zombie now
  CHECK(attempt::liveness(process.identity()) == Liveness::dead);
  CHECK(code_of(attempt::Process::open(process.identity())) == "process-gone");
}

TEST_CASE("the state of an attempt follows the table") {
  TempDir state;
  const Directory directory = publish(state.fd(), "attempt_status1");
  const std::string base = state / "attempts/attempt_status1";
  Sleeper shim;
  const auto set = [&](std::uint32_t s, std::uint32_t stop, bool alive) {
    must(attempt::write_exit_slot(directory.fd(), slot_of({s, wire::kind_code, 0, stop, "", ""},
                                                          alive ? shim.identity() : ProcessIdentity{})));
  };
  CHECK(state_of(directory) == "needs-recovery:launcher-gone");
  {
    const auto lock = must(directory.lock());
    CHECK(state_of(directory) == "starting");
  }
  set(wire::exit_prepared, wire::stop_none, true);
  CHECK(state_of(directory) == "starting");
  set(wire::exit_running, wire::stop_none, true);
  CHECK(state_of(directory) == "running");
  CHECK(must(attempt::status(directory)).shim_pid == shim.identity().pid);
  set(wire::exit_running, wire::stop_end_run, true);
  CHECK(state_of(directory) == "running");
  for (const auto stop : {wire::stop_asked, wire::stop_kill, wire::stop_timeout, wire::stop_cause}) {
    set(wire::exit_running, stop, true);
    CHECK(state_of(directory) == "stopping");
  }
  set(wire::exit_exited, wire::stop_none, true);
  CHECK(state_of(directory) == "finishing");
  set(wire::exit_ended, wire::stop_none, true);
  CHECK(state_of(directory) == "finishing");
  set(wire::exit_running, wire::stop_none, false);
  CHECK(state_of(directory) == "needs-recovery:supervisor-gone");
  set(wire::exit_exited, wire::stop_none, false);
  CHECK(state_of(directory) == "needs-recovery:supervisor-gone");
  set(wire::exit_ended, wire::stop_none, false);
  CHECK(state_of(directory) == "needs-recovery:finish-incomplete");
  {
    auto writer = must(
        journal::Writer::create(directory.fd(), {directory.id(), "t", "p", "a", "g", "m"}, json::Value()));
    CHECK(state_of(directory) == "finishing");
  }
  spit(base + "/completion.json", R"({"status":"success","summary":"did it"})");
  CHECK(state_of(directory) == "needs-recovery:finish-incomplete");
  set(wire::exit_ended, wire::stop_none, true);
  CHECK(state_of(directory) == "finishing");
  ::unlink((base + "/token").c_str());
  CHECK(state_of(directory) == "completed");
  spit(base + "/completion.json", R"({"status":"partial","code":"verification-missing"})");
  CHECK(state_of(directory) == "failed:verification-missing");
  spit(base + "/completion.json", R"({"status":"interrupted","code":"stopped"})");
  CHECK(state_of(directory) == "interrupted:stopped");
  ::unlink((base + "/completion.json").c_str());
  spit(base + "/exit", "short");
  CHECK(state_of(directory) == "needs-recovery:exit-slot-damaged");
}

TEST_CASE("reading a state changes nothing") {
  TempDir state;
  const Directory directory = publish(state.fd(), "attempt_reading");
  const auto before = must(list_directory(directory.fd()));
  for (int i = 0; i < 3; ++i) {
    (void)state_of(directory);
    (void)must(attempt::list_ids(state.fd()));
    CHECK(code_of(attempt::completion(directory)) == "completion-absent");
  }
  CHECK(must(list_directory(directory.fd())) == before);
}
