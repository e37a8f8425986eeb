// A System V shared memory segment of another process is attached.
#include <sys/shm.h>

#include "probe/attack.hpp"

HR_PROBE(shared_memory) {
  return result(shmget(number("HR_KEY"), 0, 0));
}
