#pragma once
// Kernel interfaces newer than Debian 12's headers or C library: numbers and layouts as the kernel has them.

#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace hitchrail::kernel {

struct LandlockAttributes {  // shorter kernels accept it when the trailing members are 0
  std::uint64_t handled_fs;
  std::uint64_t handled_net;
  std::uint64_t scoped;
};
struct [[gnu::packed]] LandlockPathRule {
  std::uint64_t access;
  std::int32_t parent_fd;
};
inline constexpr int landlock_rule_path = 1;
inline constexpr unsigned landlock_query_version = 1;

inline int landlock_create(const LandlockAttributes* attributes, std::size_t size, unsigned flags) {
  return static_cast<int>(syscall(444, attributes, size, flags));
}
inline int landlock_add(int ruleset, const LandlockPathRule* rule) {
  return static_cast<int>(syscall(445, ruleset, landlock_rule_path, rule, 0));
}
inline int landlock_restrict(int ruleset) {
  return static_cast<int>(syscall(446, ruleset, 0));
}

inline int open_tree(int fd, const char* path, unsigned flags) {
  return static_cast<int>(syscall(SYS_open_tree, fd, path, flags));
}
inline int move_mount(int from, const char* from_path, int to, const char* to_path, unsigned flags) {
  return static_cast<int>(syscall(SYS_move_mount, from, from_path, to, to_path, flags));
}
inline int mount_setattr(int fd, const char* path, unsigned flags, const mount_attr* attributes) {
  return static_cast<int>(syscall(SYS_mount_setattr, fd, path, flags, attributes, sizeof *attributes));
}
inline int fsopen(const char* type) {
  return static_cast<int>(syscall(SYS_fsopen, type, FSOPEN_CLOEXEC));
}
inline int fsconfig(int fd, unsigned command, const char* key, const char* value) {
  return static_cast<int>(syscall(SYS_fsconfig, fd, command, key, value, 0));
}
inline int fsmount(int fd, unsigned attributes) {
  return static_cast<int>(syscall(SYS_fsmount, fd, FSMOUNT_CLOEXEC, attributes));
}
inline int openat2(int fd, const char* path, std::uint64_t flags, std::uint64_t resolve) {
  open_how how{};
  how.flags = flags;
  how.resolve = resolve;
  return static_cast<int>(syscall(SYS_openat2, fd, path, &how, sizeof how));
}

}  // namespace hitchrail::kernel
