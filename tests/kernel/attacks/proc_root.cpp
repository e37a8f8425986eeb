// The file outside is reached through /proc/self/root.
#include "attack.hpp"

int main() {
  return attack::result(open(("/proc/self/root" + attack::place("HR_OUTSIDE", "/secret")).c_str(), O_RDONLY));
}
