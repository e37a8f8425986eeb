// A process outside is sent a signal.
#include "attack.hpp"

int main() {
  return attack::result(kill(attack::number("HR_OUTSIDER"), SIGCONT));
}
