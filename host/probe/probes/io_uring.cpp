// An io_uring is made, whose operations no filter sees.
#include <linux/io_uring.h>

#include "probe/attack.hpp"

HR_PROBE(io_uring) {
  io_uring_params parameters{};
  return result(syscall(SYS_io_uring_setup, 4, &parameters));
}
