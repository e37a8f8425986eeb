#include "attempt/recover.hpp"

#include "finish_fixture.hpp"

using namespace hitchrail;
using namespace hitchrail::test;

namespace {

Fd finish_program() {
  Fd fd(::open(HITCHRAIL_FINISH_PROGRAM, O_RDONLY | O_CLOEXEC));
  REQUIRE(fd.valid());
  return fd;
}

std::string recovered(Ended& ended) {
  const auto result = must(attempt::recover(ended.directory, finish_program().get()));
  CHECK(result.acted);
  return std::string(attempt::state_name(result.status.state)) + ":" + result.status.code + " " +
         result.status.exit_kind;
}

}  // namespace

TEST_CASE("a run whose launcher died before the start is failed, start-failed, and its lease is free") {
  SlotSpec slot;
  slot.state = wire::exit_prepared;
  slot.kind = wire::kind_none;
  Ended ended(slot, "");
  CHECK(recovered(ended) == "failed:start-failed none");
  auto store = must(store::Store::open(ended.state.fd()));
  CHECK(must(store.leases()).empty());
  CHECK_FALSE(must(attempt::recover(ended.directory, finish_program().get())).acted);
}

TEST_CASE(
    "a run whose supervisor died is failed, supervisor-lost, its exit unknown unless the slot knows it") {
  SlotSpec running;
  running.state = wire::exit_running;
  running.kind = wire::kind_none;
  Ended lost(running, "");
  CHECK(recovered(lost) == "failed:supervisor-lost unknown");
  CHECK(lost.completion().get("exit").get("source").as_string() == "shim-lost");
  CHECK(lost.completion().get("exit").find("value") == nullptr);

  SlotSpec exited;
  exited.state = wire::exit_exited;
  exited.value = 4;
  Ended known(exited, "");
  CHECK(recovered(known) == "failed:supervisor-lost code");
  CHECK(known.completion().get("exit").get("value").as_int() == 4);
}

TEST_CASE("a run whose supervisor died while it was being stopped is interrupted") {
  SlotSpec slot;
  slot.state = wire::exit_running;
  slot.kind = wire::kind_none;
  slot.stop = wire::stop_asked;
  Ended ended(slot, "");
  CHECK(recovered(ended) == "interrupted:stopped unknown");
}

TEST_CASE("a finish that died is completed with the verdict as it was") {
  Ended ended({}, R"({"status":"failed","code":"provider-error","error":"quota"})");
  CHECK(recovered(ended) == "failed:provider-error code");
}

TEST_CASE("what is left of a lost run's processes is ended by identity, others are left alone") {
  Sleeper leader;
  Sleeper stranger;
  Ended ended({}, "");
  wire::ExitSlot slot = slot_of({wire::exit_running, wire::kind_none, 0, 0, "", ""});
  slot.leader_pid = leader.identity().pid;
  slot.leader_start_ticks = leader.identity().start_ticks;
  slot.init_pid = stranger.identity().pid;
  slot.init_start_ticks = stranger.identity().start_ticks + 1;  // the number is another process's now
  must(attempt::write_exit_slot(ended.directory.fd(), slot));
  CHECK(recovered(ended) == "failed:supervisor-lost unknown");
  siginfo_t info{};
  CHECK(::waitid(P_PID, static_cast<id_t>(leader.identity().pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0);
  CHECK(info.si_pid == leader.identity().pid);
  info = {};
  CHECK(::waitid(P_PID, static_cast<id_t>(stranger.identity().pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0);
  CHECK(info.si_pid == 0);
}

TEST_CASE("a live run is left alone") {
  Sleeper shim;
  Ended ended({}, "");
  must(attempt::write_exit_slot(
      ended.directory.fd(), slot_of({wire::exit_running, wire::kind_none, 0, 0, "", ""}, shim.identity())));
  const auto result = must(attempt::recover(ended.directory, finish_program().get()));
  CHECK_FALSE(result.acted);
  CHECK(result.status.state == attempt::State::running);
}

TEST_CASE("a damaged exit slot is replaced by what is known: nothing") {
  Ended ended({}, "");
  spit(ended.path("exit"), std::string(512, 'x'));
  CHECK(recovered(ended) == "failed:exit-slot-damaged unknown");
}

TEST_CASE("a finisher that cannot finish is an error with its words, and the attempt still needs recovery") {
  Ended ended({}, "");
  { auto store = must(store::Store::open(ended.state.fd())); }
  spit(ended.state / "hitchrail.db", std::string(4096, 'x'));
  const auto result = attempt::recover(ended.directory, finish_program().get());
  REQUIRE(code_of(result) == "finish-failed");
  CHECK_THAT(result.error().detail, Catch::Contains("store-damaged"));
  CHECK(state_of(ended.directory) == "needs-recovery:finish-incomplete");
}

TEST_CASE("two recoveries at once: one terminal event") {
  SlotSpec slot;
  slot.state = wire::exit_running;
  Ended ended(slot, "");
  const Fd program = finish_program();
  pid_t children[4];
  for (pid_t& child : children) {
    child = ::fork();
    if (child == 0) {
      ::_exit(attempt::recover(ended.directory, program.get()).has_value() ? 0 : 1);
    }
  }
  for (const pid_t child : children) {
    ::waitpid(child, nullptr, 0);
  }
  int terminal = 0;
  for (const Event& event : events_of(ended.directory.fd())) {
    terminal += journal::is_terminal_kind(event.kind);
  }
  CHECK(terminal == 1);
  CHECK(state_of(ended.directory) == "failed:supervisor-lost");
}
