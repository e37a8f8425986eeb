// A key is put into the session keyring.
#include "attack.hpp"

int main() {
  return attack::result(syscall(SYS_add_key, "user", "hitchrail-test", "x", 1, -2 /* process keyring */));
}
