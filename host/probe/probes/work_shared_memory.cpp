// A POSIX shared memory object of the run is made.
#include "probe/attack.hpp"

HR_PROBE(work_shared_memory) {
  const int fd = open("/dev/shm/hitchrail-probe-own", O_RDWR | O_CREAT, 0600);
  unlink("/dev/shm/hitchrail-probe-own");
  return result(fd);
}
