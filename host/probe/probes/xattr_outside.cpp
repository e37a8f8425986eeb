// An extended attribute of a file outside is set.
#include <sys/xattr.h>

#include "probe/attack.hpp"

HR_PROBE(xattr_outside) {
  return result(setxattr(place("HR_OUTSIDE", "/secret"), "user.hitchrail", "x", 1, 0));
}
