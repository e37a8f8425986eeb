// A session keyring is joined.
#include "probe/attack.hpp"

HR_PROBE(keyring_join) {
  return result(syscall(SYS_keyctl, 1 /* KEYCTL_JOIN_SESSION_KEYRING */, nullptr));
}
