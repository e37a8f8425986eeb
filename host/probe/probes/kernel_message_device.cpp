// The kernel's message device is opened.
#include "probe/attack.hpp"

HR_PROBE(kernel_message_device) {
  return result(open("/dev/kmsg", O_RDONLY | O_NONBLOCK));
}
