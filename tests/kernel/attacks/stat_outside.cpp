// The size and times of a file outside are looked at.
#include "attack.hpp"

int main() {
  struct stat info {};
  return attack::result(stat(attack::place("HR_OUTSIDE", "/secret").c_str(), &info));
}
