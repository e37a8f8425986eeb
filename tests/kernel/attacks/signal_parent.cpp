// The init that started this program is sent a signal.
#include "attack.hpp"

int main() {
  return attack::result(kill(getppid(), SIGCONT));
}
