// A new file is made outside.
#include "attack.hpp"

int main() {
  return attack::result(open(attack::place("HR_OUTSIDE", "/new").c_str(), O_WRONLY | O_CREAT | O_EXCL, 0600));
}
