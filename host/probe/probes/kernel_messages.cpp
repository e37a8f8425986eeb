// The kernel's messages are opened.
#include "probe/attack.hpp"

HR_PROBE(kernel_messages) {
  return result(open("/proc/kmsg", O_RDONLY | O_NONBLOCK));
}
