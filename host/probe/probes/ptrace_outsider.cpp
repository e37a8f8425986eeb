// A process outside is traced.
#include <sys/ptrace.h>

#include "probe/attack.hpp"

HR_PROBE(ptrace_outsider) {
  return result(ptrace(PTRACE_SEIZE, number("HR_OUTSIDER"), nullptr, nullptr));
}
