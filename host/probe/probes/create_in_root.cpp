// A file without a name is made at the top of the file system.
#include "probe/attack.hpp"

HR_PROBE(create_in_root) {
  return result(open("/", O_WRONLY | O_TMPFILE, 0600));
}
