#pragma once
// Who a process is: (boot id, pid, start time). A number alone is never trusted and never signalled: the
// pidfd is opened first, the start time compared after. A zombie is dead.

#include <chrono>
#include <cstdint>

#include "core/fd.hpp"
#include "core/ids.hpp"
#include "core/result.hpp"

namespace hitchrail::attempt {

enum class Liveness { alive, dead };
Liveness liveness(const ProcessIdentity& identity);

// A living process by identity; error process-gone.
class Process {
 public:
  static Result<Process> open(const ProcessIdentity& identity);
  Status signal(int number) const;  // through the pidfd only
  // True when it ended (or is a zombie) within the time.
  Result<bool> wait_gone(std::chrono::milliseconds limit) const;

 private:
  Process(Fd pidfd, int pid) : pidfd_(std::move(pidfd)), pid_(pid) {}
  Fd pidfd_;
  int pid_ = 0;
};

}  // namespace hitchrail::attempt
