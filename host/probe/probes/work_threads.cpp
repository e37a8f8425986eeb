// Threads are started and joined.
#include <pthread.h>

#include "probe/attack.hpp"

HR_PROBE(work_threads) {
  pthread_t threads[4];
  for (pthread_t& thread : threads) {
    const int error = pthread_create(
        &thread, nullptr, [](void* value) { return value; }, nullptr);
    if (error != 0) {
      return refused(error);
    }
  }
  for (const pthread_t& thread : threads) {
    pthread_join(thread, nullptr);
  }
  return through();
}
