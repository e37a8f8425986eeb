// The memory of a process outside is opened.
#include "attack.hpp"

int main() {
  return attack::result(open(("/proc/" + attack::place("HR_OUTSIDER") + "/mem").c_str(), O_RDWR));
}
