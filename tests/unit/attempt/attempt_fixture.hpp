#pragma once
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "attempt/attempt.hpp"
#include "attempt/exit_slot.hpp"
#include "core/ids.hpp"
#include "shim/slot.hpp"
#include "support/results.hpp"
#include "support/scratch.hpp"

namespace hitchrail::test {

inline attempt::NewAttempt new_attempt(const std::string& id) {
  attempt::NewAttempt fresh;
  fresh.identity = {id, "task_1", "codex-cli", "codex-cli", "codex", "gpt"};
  fresh.worktree = "/srv/tree";
  fresh.created_unix_ms = 1'767'225'600'000;
  fresh.header = json::Value::object({{"adapter", "codex-cli"}, {"taskEnvelopeDigest", "sha256:aa"}});
  fresh.documents = {{"task-envelope.json", "{}"}};
  return fresh;
}

inline attempt::Directory publish(int state_dirfd, const std::string& id) {
  auto builder = must(attempt::Builder::begin(state_dirfd, new_attempt(id)));
  return std::move(must(builder.publish()).directory);
}

// A process that only waits; ended by its owner.
class Sleeper {
 public:
  Sleeper() : pid_(::fork()) {
    if (pid_ == 0) {
      for (;;) {
        ::pause();
      }
    }
    identity_ = must(identify_process(pid_));
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;
  ~Sleeper() { end(true); }
  void end(bool reap) {
    if (pid_ > 0 && !ended_) {
      ::kill(pid_, SIGKILL);
      siginfo_t info;
      ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
      ended_ = true;
    }
    if (reap && pid_ > 0) {
      ::waitpid(pid_, nullptr, 0);
      pid_ = -1;
    }
  }
  [[nodiscard]] const ProcessIdentity& identity() const { return identity_; }

 private:
  pid_t pid_;
  bool ended_ = false;
  ProcessIdentity identity_;
};

inline void set_text(char* out, std::size_t size, const std::string& text) {
  std::memset(out, 0, size);
  std::memcpy(out, text.data(), std::min(text.size(), size - 1));
}

struct SlotSpec {
  std::uint32_t state = wire::exit_ended;
  std::uint32_t kind = wire::kind_code;
  std::int32_t value = 0;
  std::uint32_t stop = wire::stop_none;
  std::string cause, detail;
};

inline wire::ExitSlot slot_of(const SlotSpec& spec, const ProcessIdentity& shim = {}) {
  wire::ExitSlot slot{};
  slot.state = spec.state;
  slot.kind = spec.kind;
  slot.value = spec.value;
  slot.source = wire::source_init;
  slot.stop_requested = spec.stop;
  set_text(slot.cause, sizeof slot.cause, spec.cause);
  set_text(slot.cause_detail, sizeof slot.cause_detail, spec.detail);
  set_text(slot.boot_id, sizeof slot.boot_id, shim.boot_id.empty() ? boot_id() : shim.boot_id);
  slot.shim_pid = shim.pid;
  slot.shim_start_ticks = shim.start_ticks;
  slot.started_unix_ms = 1'767'225'601'000;
  return slot;
}

inline std::string state_of(const attempt::Directory& directory) {
  const auto now = must(attempt::status(directory));
  return std::string(attempt::state_name(now.state)) + (now.code.empty() ? "" : ":" + now.code);
}

}  // namespace hitchrail::test
