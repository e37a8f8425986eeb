// What init needs of a C library, on x86_64: the entry point and the calls it makes, nothing else. The C
// library's own start-up asks the processor some dozen questions about its caches, each of which costs a
// virtual machine a trip to its host: half a millisecond of every boundary. The headers of the C library are
// used, its code is not; other machines link the library itself.
//
// Deliberately without those headers here: the definitions below are by symbol, and their exception
// specifications would have to repeat the library's. One thread only; errno is a plain variable. The stack
// protector and the checked calls of _FORTIFY_SOURCE work as elsewhere.
#include <asm/prctl.h>
#include <linux/auxvec.h>
#include <linux/time_types.h>
#include <sys/syscall.h>

#include <cstdarg>
#include <cstddef>
#include <cstdint>

namespace {

int last_error = 0;

long raw(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
  long result = 0;
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}

long word(int value) {
  return value;
}
long word(unsigned value) {
  return static_cast<long>(value);
}
long word(long value) {
  return value;
}
long word(std::size_t value) {
  return static_cast<long>(value);
}
long word(const void* value) {
  return reinterpret_cast<long>(value);
}

long checked(long result) {
  if (result < 0 && result > -4096) {
    last_error = static_cast<int>(-result);
    return -1;
  }
  return result;
}
template <class... Words>
int call(long number, Words... words) {
  return static_cast<int>(checked(raw(number, word(words)...)));
}
template <class... Words>
long call_long(long number, Words... words) {
  return checked(raw(number, word(words)...));
}

// The part of a thread's control block that compiled code looks at: %fs:0x28 is the stack's canary.
struct ControlBlock {
  void* self;
  std::uintptr_t unused[4];
  std::uintptr_t canary;
};
ControlBlock control{};

struct Text {
  char* out;
  std::size_t room;  // without the NUL
  std::size_t size = 0;

  void put(char byte) {
    if (size < room) {
      out[size] = byte;
    }
    ++size;
  }
  void number(unsigned long long value, unsigned base) {
    char digits[24];
    int count = 0;
    do {
      digits[count++] = static_cast<char>('0' + value % base);
      value /= base;
    } while (value != 0);
    while (count > 0) {
      put(digits[--count]);
    }
  }
};

// %d %u %o %s %%, with l and ll.
int format(char* out, std::size_t capacity, const char* pattern, va_list arguments) {
  Text text{out, capacity == 0 ? 0 : capacity - 1};
  for (; *pattern != '\0'; ++pattern) {
    if (*pattern != '%') {
      text.put(*pattern);
      continue;
    }
    int longs = 0;
    while (*++pattern == 'l') {
      ++longs;
    }
    if (*pattern == 's') {
      for (const char* at = va_arg(arguments, const char*); *at != '\0'; ++at) {
        text.put(*at);
      }
    } else if (*pattern == 'd') {
      const long long value = longs > 0 ? va_arg(arguments, long long) : va_arg(arguments, int);
      if (value < 0) {
        text.put('-');
      }
      const auto bits = static_cast<unsigned long long>(value);
      text.number(value < 0 ? 0 - bits : bits, 10);
    } else if (*pattern == 'u' || *pattern == 'o') {
      const unsigned long long value =
          longs > 0 ? va_arg(arguments, unsigned long long) : va_arg(arguments, unsigned);
      text.number(value, *pattern == 'o' ? 8 : 10);
    } else {
      text.put('%');
    }
  }
  if (capacity > 0) {
    out[text.size < capacity ? text.size : capacity - 1] = '\0';
  }
  return static_cast<int>(text.size);
}

[[noreturn]] void stop() {
  for (;;) {
    raw(SYS_kill, raw(SYS_getpid), 6);  // SIGABRT
    raw(SYS_exit_group, 127);
  }
}

}  // namespace

int main();

extern "C" {

// ---- start
extern void (*__init_array_start[])();
extern void (*__init_array_end[])();
[[gnu::used, gnu::optimize("no-stack-protector")]] void hitchrail_start(const long* stack) {
  const char* const* at = reinterpret_cast<const char* const*>(stack + 1 + stack[0] + 1);
  while (*at != nullptr) {
    ++at;
  }
  for (const auto* entry = reinterpret_cast<const unsigned long*>(at + 1); entry[0] != AT_NULL; entry += 2) {
    if (entry[0] == AT_RANDOM) {
      control.canary = *reinterpret_cast<const std::uintptr_t*>(entry[1]) & ~std::uintptr_t{0xff};
    }
  }
  control.self = &control;
  if (raw(SYS_arch_prctl, ARCH_SET_FS, reinterpret_cast<long>(&control)) != 0) {
    stop();
  }
  for (void (**each)() = __init_array_start; each != __init_array_end; ++each) {
    (*each)();
  }
  raw(SYS_exit_group, main());
  stop();
}
[[gnu::naked, noreturn]] void _start() {
  __asm__("xor %ebp, %ebp\n mov %rsp, %rdi\n and $-16, %rsp\n call hitchrail_start\n hlt");
}
int* __errno_location() {
  return &last_error;
}
[[noreturn]] void __stack_chk_fail() {
  stop();
}

// ---- memory and strings
void* memcpy(void* to, const void* from, std::size_t size) {
  void* const start = to;
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
  return start;
}
void* memset(void* to, int byte, std::size_t size) {
  void* const start = to;
  __asm__ volatile("rep stosb" : "+D"(to), "+c"(size) : "a"(byte) : "memory");
  return start;
}
int memcmp(const void* a, const void* b, std::size_t size) {
  const auto* x = static_cast<const unsigned char*>(a);
  const auto* y = static_cast<const unsigned char*>(b);
  for (; size > 0; --size, ++x, ++y) {
    if (*x != *y) {
      return *x < *y ? -1 : 1;
    }
  }
  return 0;
}
void* memchr(const void* bytes, int byte, std::size_t size) {
  for (const auto* at = static_cast<const unsigned char*>(bytes); size > 0; --size, ++at) {
    if (*at == static_cast<unsigned char>(byte)) {
      return const_cast<unsigned char*>(at);
    }
  }
  return nullptr;
}
std::size_t strlen(const char* text) {
  std::size_t size = 0;
  for (; text[size] != '\0'; ++size) {
    __asm__ volatile("");  // else the compiler makes this a call of itself
  }
  return size;
}
int strcmp(const char* a, const char* b) {
  for (; *a != '\0' && *a == *b; ++a, ++b) {
  }
  return static_cast<unsigned char>(*a) - static_cast<unsigned char>(*b);
}
char* strncpy(char* to, const char* from, std::size_t size) {
  std::size_t at = 0;
  for (; at < size && from[at] != '\0'; ++at) {
    to[at] = from[at];
  }
  memset(to + at, 0, size - at);
  return to;
}
long strtol(const char* text, char** end, int) {  // decimal, no sign: lists of the kernel
  const char* at = text;
  while (*at == ' ' || *at == '\n') {
    ++at;
  }
  const char* const digits = at;
  long value = 0;
  for (; *at >= '0' && *at <= '9' && value < (1L << 50); ++at) {
    value = value * 10 + (*at - '0');
  }
  if (end != nullptr) {
    *end = const_cast<char*>(at == digits ? text : at);
  }
  return value;
}
void explicit_bzero(void* to, std::size_t size) {
  memset(to, 0, size);
}
int snprintf(char* out, std::size_t capacity, const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  const int size = format(out, capacity, pattern, arguments);
  va_end(arguments);
  return size;
}
// The checked forms of _FORTIFY_SOURCE.
void* __memcpy_chk(void* to, const void* from, std::size_t size, std::size_t room) {
  return size <= room ? memcpy(to, from, size) : (stop(), nullptr);
}
void* __memset_chk(void* to, int byte, std::size_t size, std::size_t room) {
  return size <= room ? memset(to, byte, size) : (stop(), nullptr);
}
char* __strncpy_chk(char* to, const char* from, std::size_t size, std::size_t room) {
  return size <= room ? strncpy(to, from, size) : (stop(), nullptr);
}
void __explicit_bzero_chk(void* to, std::size_t size, std::size_t room) {
  __memset_chk(to, 0, size, room);
}
int __snprintf_chk(char* out, std::size_t capacity, int, std::size_t room, const char* pattern, ...) {
  if (room < capacity) {
    stop();
  }
  va_list arguments;
  va_start(arguments, pattern);
  const int size = format(out, capacity, pattern, arguments);
  va_end(arguments);
  return size;
}

// ---- system calls
[[noreturn]] void _exit(int status) {
  raw(SYS_exit_group, status);
  stop();
}
long syscall(long number, ...) {
  va_list list;
  va_start(list, number);
  long words[6];
  for (long& each : words) {
    each = va_arg(list, long);
  }
  va_end(list);
  return checked(raw(number, words[0], words[1], words[2], words[3], words[4], words[5]));
}
int open(const char* path, int flags, unsigned mode) {
  return call(SYS_open, path, flags, mode);
}
int openat(int directory, const char* path, int flags, unsigned mode) {
  return call(SYS_openat, directory, path, flags, mode);
}
int close(int fd) {
  return call(SYS_close, fd);
}
long read(int fd, void* to, std::size_t size) {
  return call_long(SYS_read, fd, to, size);
}
long write(int fd, const void* from, std::size_t size) {
  return call_long(SYS_write, fd, from, size);
}
int fcntl(int fd, int command, long argument) {
  return call(SYS_fcntl, fd, command, argument);
}
int ioctl(int fd, unsigned long request, void* argument) {
  return call(SYS_ioctl, fd, request, argument);
}
int fstat(int fd, void* to) {
  return call(SYS_fstat, fd, to);
}
int fchmod(int fd, unsigned mode) {
  return call(SYS_fchmod, fd, mode);
}
int fchmodat(int directory, const char* name, unsigned mode, int) {
  return call(SYS_fchmodat, directory, name, mode);
}
int mkdirat(int directory, const char* name, unsigned mode) {
  return call(SYS_mkdirat, directory, name, mode);
}
int symlinkat(const char* text, int directory, const char* name) {
  return call(SYS_symlinkat, text, directory, name);
}
int fchdir(int fd) {
  return call(SYS_fchdir, fd);
}
int chroot(const char* path) {
  return call(SYS_chroot, path);
}
int mount(const char* source, const char* target, const char* type, unsigned long flags, const void* data) {
  return call(SYS_mount, source, target, type, flags, data);
}
int umount2(const char* target, int flags) {
  return call(SYS_umount2, target, flags);
}
int dup2(int from, int to) {
  return call(SYS_dup2, from, to);
}
int pipe2(int* fds, int flags) {
  return call(SYS_pipe2, fds, flags);
}
int poll(void* entries, unsigned long count, int timeout) {
  return call(SYS_poll, entries, count, timeout);
}
void* mmap(void* at, std::size_t size, int protection, int flags, int fd, long offset) {
  return reinterpret_cast<void*>(call_long(SYS_mmap, at, size, protection, flags, fd, offset));
}
int munmap(void* at, std::size_t size) {
  return call(SYS_munmap, at, size);
}
int mlock(const void* at, std::size_t size) {
  return call(SYS_mlock, at, size);
}
int prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d) {
  return call(SYS_prctl, option, a, b, c, d);
}
int getrlimit(int resource, void* limit) {
  return call(SYS_getrlimit, resource, limit);
}
int setrlimit(int resource, const void* limit) {
  return call(SYS_setrlimit, resource, limit);
}
int unshare(int flags) {
  return call(SYS_unshare, flags);
}
int setsid() {
  return call(SYS_setsid);
}
int getpid() {
  return call(SYS_getpid);
}
int getppid() {
  return call(SYS_getppid);
}
unsigned geteuid() {
  return static_cast<unsigned>(raw(SYS_geteuid));
}
int setgroups(std::size_t count, const unsigned* groups) {
  return call(SYS_setgroups, count, groups);
}
int setresuid(unsigned real, unsigned effective, unsigned saved) {
  return call(SYS_setresuid, real, effective, saved);
}
int setresgid(unsigned real, unsigned effective, unsigned saved) {
  return call(SYS_setresgid, real, effective, saved);
}
int sethostname(const char* name, std::size_t size) {
  return call(SYS_sethostname, name, size);
}
int uname(void* to) {
  return call(SYS_uname, to);
}
unsigned umask(unsigned mask) {
  return static_cast<unsigned>(raw(SYS_umask, word(mask)));
}
int kill(int pid, int signal) {
  return call(SYS_kill, pid, signal);
}
int pause() {
  return call(SYS_pause);
}
int waitpid(int pid, int* status, int options) {
  return call(SYS_wait4, pid, status, options, static_cast<void*>(nullptr));
}
int usleep(unsigned microseconds) {
  const __kernel_timespec time{microseconds / 1'000'000, microseconds % 1'000'000 * 1000};
  return call(SYS_nanosleep, &time, static_cast<void*>(nullptr));
}
int execve(const char* path, char* const* argv, char* const* environment) {
  return call(SYS_execve, path, argv, environment);
}

// ---- signals: the library's set is wider than the kernel's 64 bits, which are its first word
int sigemptyset(unsigned long* set) {
  memset(set, 0, 128);
  return 0;
}
int sigaddset(unsigned long* set, int signal) {
  set[0] |= 1UL << (signal - 1);
  return 0;
}
int sigprocmask(int how, const unsigned long* set, unsigned long* before) {
  return call(SYS_rt_sigprocmask, how, set, before, sizeof(unsigned long));
}
int signalfd(int fd, const unsigned long* set, int flags) {
  return call(SYS_signalfd4, fd, set, sizeof(unsigned long), flags);
}

// ---- sockets
int socket(int family, int type, int protocol) {
  return call(SYS_socket, family, type, protocol);
}
int bind(int fd, const void* address, unsigned size) {
  return call(SYS_bind, fd, address, size);
}
int listen(int fd, int backlog) {
  return call(SYS_listen, fd, backlog);
}
int setsockopt(int fd, int level, int option, const void* value, unsigned size) {
  return call(SYS_setsockopt, fd, level, option, value, size);
}
long sendmsg(int fd, const void* message, int flags) {
  return call_long(SYS_sendmsg, fd, message, flags);
}
long send(int fd, const void* bytes, std::size_t size, int flags) {
  return call_long(SYS_sendto, fd, bytes, size, flags, static_cast<void*>(nullptr), 0);
}
long recv(int fd, void* bytes, std::size_t size, int flags) {
  return call_long(SYS_recvfrom, fd, bytes, size, flags, static_cast<void*>(nullptr),
                   static_cast<void*>(nullptr));
}
}
