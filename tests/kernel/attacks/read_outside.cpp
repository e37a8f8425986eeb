// A file outside every granted root is opened for reading.
#include "attack.hpp"

int main() {
  return attack::result(open(attack::place("HR_OUTSIDE", "/secret").c_str(), O_RDONLY));
}
