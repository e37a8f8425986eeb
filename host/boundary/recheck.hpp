#pragma once
// The second look at everything that the compiled boundary was made of, right before it is activated. Repairs
// nothing: what differs is refused with a code of its own, and the caller ends the attempt as start-failed.
//
// Codes: executable-changed, root-changed, protected-name-appeared, protected-name-changed,
// protected-name-symlink, denied-changed, run-directory-changed (a link in the way of home, temp or git
// counts), and those of recheck_scan(). hitchrail-init compares once more, by descriptor, what it mounts and
// executes.

#include "boundary/boundary.hpp"

namespace hitchrail::boundary {

enum class Recheck {
  names,  // roots, protected names, masks, mounts, executable: a few microseconds each
  all     // and every file and directory below the writable roots
};
Status recheck(const Compiled& compiled, const Executable& executable, const RunDirectories& run,
               Recheck depth);

}  // namespace hitchrail::boundary
