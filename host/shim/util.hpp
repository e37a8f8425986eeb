#pragma once
// Small pieces of the shim: clocks, a byte queue, checked descriptor calls, process identity. No exceptions,
// no iostreams; every failure is a return value.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace hitchrail::shim {

std::int64_t monotonic_ms();
std::int64_t unix_ms();

// A queue of bytes. append() answers false when memory is short and then changed nothing.
class Bytes {
 public:
  Bytes() = default;
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  ~Bytes() { clear(); }
  bool append(const void* data, std::size_t size);
  void consume(std::size_t size);
  void clear();  // gives the memory back
  [[nodiscard]] const unsigned char* data() const { return data_ + begin_; }
  [[nodiscard]] std::size_t size() const { return end_ - begin_; }

 private:
  unsigned char* data_ = nullptr;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t capacity_ = 0;
};

void close_fd(int& fd);  // and sets it to -1
bool pwrite_all(int fd, const void* data, std::size_t size, std::uint64_t offset);
bool write_all(int fd, const void* data, std::size_t size);  // blocking descriptors only
// Reads until end of file; -1 with errno, E2BIG when more than `cap` is there.
ssize_t read_to_end(int fd, void* out, std::size_t cap);
// Copies as much as fits and fills the rest with NUL.
void set_text_from(char* out, std::size_t size, const char* text);
template <std::size_t N>
void set_text(char (&out)[N], const char* text) {
  set_text_from(out, N, text);
}
// Decimal; `out` has room for 21 bytes. Answers the length.
std::size_t format_number(char* out, std::uint64_t value);

// Processes. Signals go through pidfds only.
int open_pidfd(int pid);
bool signal_pidfd(int pidfd, int signal);
int pidfd_pid(int pidfd);  // as this process sees it, from fdinfo; 0 when unknown or gone
struct ProcessStat {
  char state = 0;
  int parent = 0;
  std::uint64_t start_ticks = 0;
};
bool read_stat(int pid, ProcessStat& out);
// Raw wait status of a process that is not our child, after it was reaped (PIDFD_GET_INFO); false where the
// kernel cannot.
bool pidfd_exit_status(int pidfd, int& status);

// A child: signal dispositions and mask as a fresh program expects them, descriptors exactly `map`,
// everything else closed.
struct FdMap {
  int from;
  int to;
};
struct Child {
  int executable;  // by descriptor
  const char* const* argv;
  const char* const* environment;
  const FdMap* map;
  std::size_t map_size;
  bool dies_with_parent;
};
int start_child(const Child& child);  // pid, or -1 with errno

}  // namespace hitchrail::shim
