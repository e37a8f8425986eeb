// A child of the program lets itself be traced.
#include <sys/ptrace.h>

#include "probe/attack.hpp"

HR_PROBE(ptrace_child) {
  return in_child([] { return result(ptrace(PTRACE_TRACEME, 0, nullptr, nullptr)); });
}
