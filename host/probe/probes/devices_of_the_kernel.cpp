// The kernel's device tree is listed.
#include "probe/attack.hpp"

HR_PROBE(devices_of_the_kernel) {
  return result(open("/sys", O_RDONLY | O_DIRECTORY));
}
