// The kernel setting that names a program run as root is opened for writing.
#include "attack.hpp"

int main() {
  return attack::result(open("/proc/sys/kernel/core_pattern", O_WRONLY));
}
