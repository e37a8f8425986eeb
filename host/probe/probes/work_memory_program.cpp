// A program that exists only in memory is executed.
#include <sys/mman.h>

#include "probe/attack.hpp"

HR_PROBE(work_memory_program) {
  const int memory = memfd_create("script", 0);
  HR_NEED(memory >= 0 && write(memory, "#!/bin/sh\nexit 0\n", 17) == 17, "memory file");
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", memory);
  return execute(path);
}
