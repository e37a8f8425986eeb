// A file outside is cut to nothing without being opened.
#include "attack.hpp"

int main() {
  return attack::result(truncate(attack::place("HR_OUTSIDE", "/secret").c_str(), 0));
}
