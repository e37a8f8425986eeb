// An io_uring is made, whose operations no filter sees.
#include <linux/io_uring.h>

#include "attack.hpp"

int main() {
  io_uring_params parameters{};
  return attack::result(syscall(SYS_io_uring_setup, 4, &parameters));
}
