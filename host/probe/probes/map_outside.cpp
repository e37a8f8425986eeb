// A file outside is mapped into memory.
#include <sys/mman.h>

#include "probe/attack.hpp"

HR_PROBE(map_outside) {
  const int fd = open(place("HR_OUTSIDE", "/secret"), O_RDONLY);
  if (fd < 0) {
    return refused(errno);
  }
  return result(mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED ? -1 : 0);
}
