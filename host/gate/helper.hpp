#pragma once
// A gate for callers without a shim (`sandbox exec`, probes, benchmarks). Below a shim the shim does all
// this.
//
// How: compile the boundary with Options::gate; when init's `init_listeners` message arrives, give its
// descriptors to Helper::start(), and answer init with reply_listeners_taken; poll events() for input beside
// everything else and call tend() then and at least once a second; the destructor ends the gate and closes
// the sockets.
//
// Promises: every socket is proven to be what was asked for before anything is started; a dead gate is
// started again on the same sockets, connections wait meanwhile; after twelve deaths without ten seconds of
// life in between the sockets are closed, so that the run's connections are refused at once. Refuses:
// gate-missing, gate-listener.

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/fd.hpp"
#include "core/result.hpp"
#include "gate/policy.hpp"

namespace hitchrail::gate {

// HITCHRAIL_LIBEXEC, beside this program, or below libexec.
Result<std::string> program_path();

class Helper {
 public:
  using OnRecord = std::function<void(const gatewire::Record&)>;
  // program "" = program_path().
  static Result<Helper> start(const Compiled& compiled, std::vector<Fd> listeners, std::string program = "",
                              OnRecord on_record = {});
  Helper(Helper&& other) noexcept;
  Helper& operator=(Helper&&) = delete;
  ~Helper();

  [[nodiscard]] int events() const { return events_.get(); }  // -1 while it is dead
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] std::uint32_t restarts() const { return restarts_; }
  [[nodiscard]] bool lost() const { return listeners_.empty(); }
  // Takes records; starts a dead gate again.
  void tend();
  // Asks it to send what it still counts, takes that, and ends it.
  void end();

 private:
  Helper() = default;
  Status spawn();
  void take_records();
  void died();

  std::string program_;
  Fd document_;
  std::vector<Fd> listeners_;
  Fd events_;
  OnRecord on_record_;
  pid_t pid_ = -1;
  std::int64_t started_ = 0;
  std::int64_t due_ = 0;
  std::uint32_t restarts_ = 0;
  std::uint32_t quick_deaths_ = 0;
};

}  // namespace hitchrail::gate
