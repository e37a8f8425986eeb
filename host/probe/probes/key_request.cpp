// A key is asked for.
#include "probe/attack.hpp"

HR_PROBE(key_request) {
  return reached(syscall(SYS_request_key, "user", "hitchrail-probe-absent", nullptr, 0));
}
