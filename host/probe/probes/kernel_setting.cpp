// The kernel setting that names a program run as root is opened for writing.
#include "probe/attack.hpp"

HR_PROBE(kernel_setting) {
  return result(open("/proc/sys/kernel/core_pattern", O_WRONLY));
}
