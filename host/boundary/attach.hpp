#pragma once
// One program in a boundary with the caller's own three streams, for `sandbox exec`. The calling thread is
// the supervisor until nothing of the tree is left.
//
// Promises: standard input, output and error are the very descriptors given, terminals included, with nothing
// in between; SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH and SIGCONT of the caller go to
// the program; the program leads a session of its own, so a terminal is none that it controls; when the
// caller dies, init and the whole tree die. Refuses: as run(). Does not do: job control, a terminal of its
// own.

#include <functional>

#include "boundary/boundary.hpp"

namespace hitchrail::boundary {

struct AttachedStreams {
  int in = 0;
  int out = 1;
  int err = 2;
};
struct AttachedEnd {
  bool signaled = false;
  int value = 0;  // exit code or signal
};
// `started` is called with init's pidfd just before the program is executed; its error ends everything.
Result<AttachedEnd> run_attached(const Compiled& compiled, const Command& command, const RunDirectories& run,
                                 const std::function<Status(int init)>& started = {},
                                 const AttachedStreams& streams = {});

}  // namespace hitchrail::boundary
