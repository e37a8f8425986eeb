// epoll, eventfd, timers and signals by descriptor work.
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

#include "probe/attack.hpp"

HR_PROBE(work_events) {
  sigset_t none;
  sigemptyset(&none);
  if (epoll_create1(0) < 0 || eventfd(0, 0) < 0 || timerfd_create(CLOCK_MONOTONIC, 0) < 0) {
    return refused(errno);
  }
  return result(signalfd(-1, &none, 0));
}
