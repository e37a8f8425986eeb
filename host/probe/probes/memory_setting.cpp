// A kernel setting of the memory is opened for writing.
#include "probe/attack.hpp"

HR_PROBE(memory_setting) {
  return result(open("/proc/sys/vm/overcommit_memory", O_WRONLY));
}
