// A system call is made through the i386 entry, whose numbers mean other things.
#include "attack.hpp"

int main() {
#ifdef __x86_64__
  int number = 20;  // getpid
  asm volatile("int $0x80" : "+a"(number) : : "memory", "r8", "r9", "r10", "r11");
  errno = ENOSYS;
  return attack::verdict(number > 0);
#else
  std::printf("through\n");
  raise(SIGSYS);
#endif
}
