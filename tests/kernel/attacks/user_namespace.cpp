// A new user namespace is made, which gives every capability in it.
#include <sched.h>

#include "attack.hpp"

int main() {
  return attack::result(unshare(CLONE_NEWUSER));
}
