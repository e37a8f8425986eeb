#include "attempt/spawn.hpp"

#include <sys/prctl.h>

#include "attempt/identity.hpp"
#include "attempt_fixture.hpp"

using namespace hitchrail;
using namespace hitchrail::test;
using attempt::Directory;

namespace {

struct Launch {
  TempDir state;
  Directory directory = publish(state.fd(), "attempt_spawn");
  Fd shim{::open(HITCHRAIL_FAKE_SHIM, O_RDONLY | O_CLOEXEC)};
  Fd filler{::open("/dev/null", O_RDONLY | O_CLOEXEC)};

  attempt::SpawnRequest request(const std::string& behaviour) {
    attempt::SpawnDocument document;
    document.attempt_id(behaviour);
    attempt::SpawnRequest out;
    out.shim_program = shim.get();
    out.document = document.bytes();
    out.attempt = directory.fd();
    for (int* fd : {&out.init_program, &out.init_plan, &out.runner_program, &out.adapter, &out.runner_config,
                    &out.finish_program}) {
      *fd = filler.get();
    }
    return out;
  }
  std::string seen() { return slurp(state / "attempts/attempt_spawn/seen"); }
};

}  // namespace

TEST_CASE("a shim gets its descriptors, nothing of the caller's, a clean environment, mask and directory") {
  Launch launch;
  const Fd inheritable(::open("/dev/null", O_RDONLY));  // without close-on-exec: must still not arrive
  ::setenv("SECRET_OF_THE_CALLER", "x", 1);
  ::signal(SIGCHLD, SIG_IGN);
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &blocked, nullptr);
  auto spawned = attempt::spawn_shim(launch.request("ok"));
  ::sigprocmask(SIG_UNBLOCK, &blocked, nullptr);
  ::signal(SIGCHLD, SIG_DFL);
  must(std::move(spawned));
  CHECK(launch.seen() ==
        "fds: 0 1 2 3 4 5 6 7 8 9 10 12\ncwd: /\nenv: PATH LC_ALL\nsigchld: default\nblocked: none\nstdin: "
        "device\n");
}

TEST_CASE("the exit slot names the shim before it runs, so that nobody recovers what is being started") {
  Launch launch;
  const auto spawned = must(attempt::spawn_shim(launch.request("ok")));
  const auto slot = must(attempt::read_exit_slot(launch.directory.fd()));
  CHECK(slot.state == wire::exit_prepared);
  CHECK(slot.shim_pid == spawned.shim.pid);
  CHECK(slot.shim_start_ticks == spawned.shim.start_ticks);
  CHECK(attempt::slot_text(slot.boot_id, sizeof slot.boot_id) == boot_id());
  ::waitpid(spawned.shim.pid, nullptr, 0);
}

TEST_CASE("secrets and home arrive at their numbers when given") {
  Launch launch;
  auto request = launch.request("ok");
  request.secrets = launch.filler.get();
  request.home = launch.filler.get();
  const auto spawned = must(attempt::spawn_shim(request));
  CHECK(launch.seen().starts_with("fds: 0 1 2 3 4 5 6 7 8 9 10 11 12 13\n"));
  ::waitpid(spawned.shim.pid, nullptr, 0);
}

TEST_CASE("a failed start says the step and the words of whoever failed") {
  Launch launch;
  const auto failed = attempt::spawn_shim(launch.request("fail"));
  REQUIRE(code_of(failed) == "start-failed");
  CHECK(failed.error().detail == "mount-proc: cannot (No such file or directory)");
  while (::waitpid(-1, nullptr, 0) > 0) {
  }
}

TEST_CASE("a shim that dies or says nothing is an error in time and leaves no process") {
  Launch first;
  CHECK(code_of(attempt::spawn_shim(first.request("die"))) == "start-failed");
  Launch second;
  auto request = second.request("silent");
  request.limit = std::chrono::milliseconds(300);
  CHECK(code_of(attempt::spawn_shim(request)) == "shim-timeout");
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);
}

TEST_CASE("a program that cannot be executed and an attempt that was started before are refused") {
  Launch launch;
  auto request = launch.request("ok");
  request.shim_program = launch.filler.get();
  CHECK(code_of(attempt::spawn_shim(request)) == "eacces");
  Launch other;
  must(attempt::write_exit_slot(other.directory.fd(),
                                slot_of({wire::exit_running, wire::kind_none, 0, 0, "", ""})));
  CHECK(code_of(attempt::spawn_shim(other.request("ok"))) == "start-failed");
}

TEST_CASE("the spawn document holds its fields in order, padded to eight") {
  attempt::SpawnDocument document;
  document.attempt_id("attempt_1");
  attempt::PartList parts;
  parts.add_bytes("hello");
  parts.add_secret("KEY", 1);
  document.initial_outbox(parts);
  document.stop_step(wire::stop_signal, 15, 100, parts);
  document.stream(1);
  document.file_stream(8, 0, "a/*.jsonl");
  document.snapshot("snap");
  document.limits({1, 2, 3, 4});
  document.flags(wire::flag_close_input);
  const std::string bytes = document.bytes();
  wire::SpawnHeader header{};
  std::memcpy(&header, bytes.data(), sizeof header);
  CHECK(header.magic == wire::spawn_magic);
  CHECK(header.total_size == bytes.size());
  CHECK(header.field_count == 8);
  std::vector<int> tags;
  for (std::size_t at = sizeof header; at < bytes.size();) {
    wire::SpawnField field{};
    std::memcpy(&field, bytes.data() + at, sizeof field);
    tags.push_back(field.tag);
    at += sizeof field;
    if (field.tag == wire::tag_initial_outbox) {
      CHECK(bytes.substr(at, field.size) == parts.bytes());
    }
    at += (field.size + 7) / 8 * 8;
  }
  CHECK(tags == std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8});
  const std::string secrets = attempt::encode_secrets({{"A", "value"}});
  CHECK(secrets.size() == sizeof(wire::SecretRecord) + 6);
}
