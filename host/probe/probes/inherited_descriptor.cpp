// A file that the launcher held open is still open.
#include "probe/attack.hpp"

HR_PROBE(inherited_descriptor) {
  return result(fcntl(number("HR_FILE_FD"), F_GETFD));
}
