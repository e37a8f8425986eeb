// A POSIX shared memory object of another process is opened.
#include "probe/attack.hpp"

HR_PROBE(posix_shared_memory) {
  return result(open(place("HR_SHM_NAME"), O_RDWR));
}
