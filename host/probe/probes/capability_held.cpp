// A capability is still there, or can be had back.
#include <linux/capability.h>

#include "probe/attack.hpp"

HR_PROBE(capability_held) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  HR_NEED(syscall(SYS_capget, &header, data) == 0, "capget");
  if ((data[0].effective | data[0].permitted | data[1].effective | data[1].permitted) != 0) {
    return through();
  }
  data[0].permitted = data[0].effective = 1;
  return result(syscall(SYS_capset, &header, data));
}
