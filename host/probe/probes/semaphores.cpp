// A System V semaphore of another process is used.
#include <sys/sem.h>

#include "probe/attack.hpp"

HR_PROBE(semaphores) {
  return result(semget(number("HR_KEY"), 0, 0));
}
