// The system's password hashes are read.
#include "probe/attack.hpp"

HR_PROBE(password_hashes) {
  return result(open("/etc/shadow", O_RDONLY));
}
