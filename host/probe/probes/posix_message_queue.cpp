// A POSIX message queue of another process is opened.
#include "probe/attack.hpp"

HR_PROBE(posix_message_queue) {
  return result(syscall(SYS_mq_open, place("HR_QUEUE"), O_RDONLY, 0, nullptr));
}
