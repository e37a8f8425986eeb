// A program that exists only in memory does it.
#include <sys/mman.h>

#include "probe/attack.hpp"

HR_PROBE(memory_program_reads_outside) {
  const int program = open("/bin/cat", O_RDONLY);
  const int memory = memfd_create("cat", 0);
  HR_NEED(program >= 0 && memory >= 0, "memory file");
  char buffer[65536];
  ssize_t got = 0;
  while ((got = read(program, buffer, sizeof buffer)) > 0) {
    HR_NEED(write(memory, buffer, static_cast<std::size_t>(got)) == got, "copy");
  }
  char path[64];
  std::snprintf(path, sizeof path, "exec /proc/self/fd/%d \"$HR_OUTSIDE/secret\" > /dev/null 2>&1", memory);
  return shell(path);
}
