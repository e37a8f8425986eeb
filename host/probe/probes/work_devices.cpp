// The devices that every program uses are there.
#include "probe/attack.hpp"

HR_PROBE(work_devices) {
  for (const char* device : {"/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"}) {
    if (open(device, std::strcmp(device, "/dev/null") == 0 ? O_RDWR : O_RDONLY) < 0) {
      return refused(errno);
    }
  }
  return through();
}
