// A System V shared memory segment of another process is attached.
#include <sys/shm.h>

#include "attack.hpp"

int main() {
  return attack::result(shmget(attack::number("HR_SHM"), 0, 0));
}
