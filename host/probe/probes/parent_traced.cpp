// It is traced.
#include <sys/ptrace.h>

#include "probe/attack.hpp"

HR_PROBE(parent_traced) {
  return result(ptrace(PTRACE_SEIZE, number("HR_PARENT"), nullptr, nullptr));
}
