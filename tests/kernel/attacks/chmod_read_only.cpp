// The mode of a file of a read-only root is changed.
#include "attack.hpp"

int main() {
  return attack::result(chmod(attack::place("HR_READABLE", "/file").c_str(), 0640));
}
