// A file of the system is opened for writing.
#include "probe/attack.hpp"

HR_PROBE(write_system) {
  return result(open("/usr/bin/env", O_WRONLY));
}
