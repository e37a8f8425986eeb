// The memory of a process outside is read by system call.
#include <sys/uio.h>

#include "probe/attack.hpp"

HR_PROBE(process_memory_outsider) {
  char copy[8] = {};
  iovec local{copy, sizeof copy};
  iovec remote{reinterpret_cast<void*>(0x400000), sizeof copy};
  return result(process_vm_readv(number("HR_OUTSIDER"), &local, 1, &remote, 1, 0));
}
