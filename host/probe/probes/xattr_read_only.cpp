// An extended attribute of a file of a read-only root is set.
#include <sys/xattr.h>

#include "probe/attack.hpp"

HR_PROBE(xattr_read_only) {
  return result(setxattr(place("HR_READABLE", "/file"), "user.hitchrail", "x", 1, 0));
}
