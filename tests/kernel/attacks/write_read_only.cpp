// A file of a read-only root is opened for writing.
#include "attack.hpp"

int main() {
  return attack::result(open(attack::place("HR_READABLE", "/file").c_str(), O_WRONLY));
}
