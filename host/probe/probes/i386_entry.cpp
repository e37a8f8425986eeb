// A system call is made through the i386 entry, whose numbers mean other things.
#include "probe/attack.hpp"

HR_PROBE(i386_entry) {
#ifdef __x86_64__
  int number = 20;  // getpid
  asm volatile("int $0x80" : "+a"(number) : : "memory", "r8", "r9", "r10", "r11");
  return number > 0 ? through() : refused(ENOSYS);
#else
  return refused(ENOSYS);
#endif
}
