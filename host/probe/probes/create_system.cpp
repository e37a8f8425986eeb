// A file without a name is made in a system folder.
#include "probe/attack.hpp"

HR_PROBE(create_system) {
  return result(open("/usr", O_WRONLY | O_TMPFILE, 0600));
}
