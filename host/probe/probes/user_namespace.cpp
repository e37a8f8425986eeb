// A new user namespace is made, which gives every capability in it.
#include "probe/attack.hpp"

HR_PROBE(user_namespace) {
  return result(unshare(CLONE_NEWUSER));
}
