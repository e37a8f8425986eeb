// A second thread does it.
#include <pthread.h>

#include "probe/attack.hpp"

HR_PROBE(thread_reads_outside) {
  static int error = 0;
  pthread_t thread;
  const auto body = [](void*) -> void* {
    error = open(place("HR_OUTSIDE", "/secret"), O_RDONLY) >= 0 ? 0 : errno;
    return nullptr;
  };
  HR_NEED(pthread_create(&thread, nullptr, body, nullptr) == 0, "thread");
  pthread_join(thread, nullptr);
  return error == 0 ? through() : refused(error);
}
