// A System V message queue of another process is used.
#include <sys/msg.h>

#include "probe/attack.hpp"

HR_PROBE(message_queue) {
  return result(msgget(number("HR_KEY"), 0));
}
