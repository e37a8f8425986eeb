// A file outside is opened for writing.
#include "attack.hpp"

int main() {
  return attack::result(open(attack::place("HR_OUTSIDE", "/secret").c_str(), O_WRONLY));
}
