// The attributes of a mount are changed.
#include "probe/attack.hpp"

HR_PROBE(mount_attributes) {
  mount_attr attributes{};
  attributes.attr_clr = MOUNT_ATTR_RDONLY;
  return reached(
      syscall(SYS_mount_setattr, AT_FDCWD, place("HR_READABLE"), 0, &attributes, sizeof attributes));
}
