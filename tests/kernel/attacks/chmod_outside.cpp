// The mode of a file outside is changed.
#include "attack.hpp"

int main() {
  return attack::result(chmod(attack::place("HR_OUTSIDE", "/secret").c_str(), 0640));
}
