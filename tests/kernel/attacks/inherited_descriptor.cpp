// A descriptor that the launcher held is still open.
#include "attack.hpp"

int main() {
  return attack::result(fcntl(60, F_GETFD));
}
