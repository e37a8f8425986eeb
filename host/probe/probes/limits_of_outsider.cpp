// The limits of a process outside are set to what they are.
#include <sys/resource.h>

#include "probe/attack.hpp"

HR_PROBE(limits_of_outsider) {
  rlimit now{};
  if (prlimit(number("HR_OUTSIDER"), RLIMIT_NOFILE, nullptr, &now) < 0) {
    return refused(errno);
  }
  return result(prlimit(number("HR_OUTSIDER"), RLIMIT_NOFILE, &now, nullptr));
}
