// The exit slot: 512 bytes in a file that was preallocated and synced before the spawn, written in place
// before each change of phase, so that it can be written on a full disk.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>

#include "shim/shim.hpp"

namespace hitchrail::shim {

bool open_exit_slot() {
  const int fd = openat(shim_attempt, "exit", O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  struct stat info {};
  if (fd < 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size != sizeof(ExitSlot) ||
      pread(fd, &g.slot, sizeof g.slot, 0) != static_cast<ssize_t>(sizeof g.slot)) {
    fail_start("exit-slot", fd < 0 ? errno : EINVAL, "not a regular file of 512 bytes");
    return false;
  }
  if (!exit_slot_valid(g.slot) || g.slot.state != exit_prepared) {
    fail_start("exit-slot", EINVAL, "not a valid slot in state prepared");
    return false;
  }
  g.exit_fd = fd;
  g.slot.shim_pid = getpid();
  identify(getpid(), g.slot.shim_start_ticks);
  const int boot = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (boot >= 0) {
    char text[40] = {};
    if (read(boot, text, sizeof text - 1) >= 36) {
      text[36] = 0;
      set_text(g.slot.boot_id, text);
    }
    close(boot);
  }
  return true;
}

void write_exit_slot() {
  if (g.exit_fd < 0) {
    return;
  }
  g.slot.stop_requested = g.stop_reason;
  g.slot.runner_restarts = g.restarts;
  seal_exit_slot(g.slot);
  // An error here (EIO) has no better place to be told than the slot itself; the next write tries again.
  if (pwrite_all(g.exit_fd, &g.slot, sizeof g.slot, 0)) {
    fdatasync(g.exit_fd);
  }
}

void identify(int pid, std::uint64_t& start_ticks) {
  ProcessStat stat{};
  start_ticks = pid > 0 && read_stat(pid, stat) ? stat.start_ticks : 0;
}

void set_cause(const char* cause, const char* detail) {
  if (g.slot.cause[0] == 0) {
    set_text(g.slot.cause, cause);
    set_text(g.slot.cause_detail, detail);
  }
}

}  // namespace hitchrail::shim
