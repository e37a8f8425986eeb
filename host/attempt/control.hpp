#pragma once
// Client of a live run's sockets `s` (status, stop, kill; the shim always answers) and `c` (steer and other
// inputs; handed to the living runner). Reached through /proc/self/fd/N/, proven by the attempt's token,
// short time limits on every step: a stale socket (no listener, or one that never answers) costs at most
// `limit`. Errors: control-unreachable (nobody listens), control-timeout, control-refused (bad token),
// runner-restarting, control-too-late (the harness has exited), control-protocol.

#include <array>
#include <chrono>
#include <cstdint>
#include <string_view>

#include "attempt/attempt.hpp"
#include "core/fd.hpp"
#include "shim/wire.hpp"

namespace hitchrail::attempt {

enum class ControlSocket { supervisor, runner };  // `s`, `c`

class Control {
 public:
  static Result<Control> connect(const Directory& directory, ControlSocket socket,
                                 std::chrono::milliseconds limit = std::chrono::milliseconds(500));
  Result<wire::StatusPayload> status();
  Result<wire::StatusPayload> stop();  // the plan's stop steps, then kill
  Result<wire::StatusPayload> kill();  // the tree at once
  // On `c`: kind is HR_CONTROL_*; the answer's input_id is the number the shim gave it.
  Result<wire::StatusPayload> input(std::uint32_t kind, std::string_view name, std::string_view text);
  // The same request again (same idempotency id) gives the first answer; each call makes a new id unless one
  // is set here.
  void set_idempotency(const std::array<std::uint8_t, 16>& id);

 private:
  Control(Fd fd, std::chrono::milliseconds limit) : fd_(std::move(fd)), limit_(limit) {}
  Result<wire::StatusPayload> request(std::uint32_t type, std::string_view payload);
  Fd fd_;
  std::chrono::milliseconds limit_;
  std::array<std::uint8_t, 16> idempotency_{};
  bool idempotency_set_ = false;
};

// Stops and waits until the attempt's status is terminal or needs-recovery, or the time is up (error
// stop-timeout).
Result<AttemptStatus> stop_and_wait(const Directory& directory, bool kill, std::chrono::milliseconds limit);

}  // namespace hitchrail::attempt
