// A swap file is named (one that does not exist).
#include "probe/attack.hpp"

HR_PROBE(swapon) {
  return reached(syscall(SYS_swapon, "/nonexistent", 0));
}
