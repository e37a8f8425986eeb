// The environment of a process outside is read.
#include "attack.hpp"

int main() {
  return attack::result(open(("/proc/" + attack::place("HR_OUTSIDER") + "/environ").c_str(), O_RDONLY));
}
