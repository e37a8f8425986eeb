// Idmapped trees, the overlay that makes absent protected names exist, and the layer that is thrown away.
//
// An overlay wants its three layers on one mount of the mount namespace it is made in, and a user who
// switched cannot walk to them. So root clones one directory above all three, finds them in the clone, and
// the clone is attached (over the new root, where nothing looks paths up) just while the overlay is made:
// what was found belongs to that mount, wherever it is attached.
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "init/init.hpp"
#include "init/kernel.hpp"

namespace hitchrail::init {
namespace {

struct Layers {
  std::uint32_t step = 0;
  int base = -1;  // detached clone, -1 when the layers were opened at their own places
  int upper = -1;
  int work = -1;
  int lower = -1;
};
Layers prepared[plan::max_overlays];
std::uint32_t prepared_count = 0;

// Everybody is himself, but the two ids trade places halfway: `from` on disk is `to` here, and what is `to`
// on disk is nobody's.
void swap_map(char* out, std::size_t size, std::uint32_t from, std::uint32_t to) {
  std::size_t at = 0;
  const auto extent = [&](std::uint64_t first, std::uint64_t outside, std::uint64_t end) {
    if (first < end) {
      at += static_cast<std::size_t>(std::snprintf(
          out + at, size - at, "%llu %llu %llu\n", static_cast<unsigned long long>(first),
          static_cast<unsigned long long>(outside), static_cast<unsigned long long>(end - first)));
    }
  };
  const std::uint64_t low = from < to ? from : to;
  const std::uint64_t high = from < to ? to : from;
  extent(0, 0, low);
  extent(from, to, std::uint64_t{from} + 1);
  extent(low + 1, low + 1, high);
  extent(high + 1, high + 1, plan::no_id);
}

void write_map(int pid, const char* file, std::uint32_t from, std::uint32_t to) {
  char path[64];
  char map[256];
  std::snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
  swap_map(map, sizeof map, from, to);
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  const auto length = static_cast<ssize_t>(std::strlen(map));
  if (fd < 0 || write(fd, map, static_cast<std::size_t>(length)) != length) {
    fail("idmap", errno, file);
  }
  close(fd);
}

// A user namespace that only carries the two maps: made by a child that is gone afterwards.
int map_namespace(const plan::Header& header) {
  static int fd = -1;
  if (fd >= 0) {
    return fd;
  }
  const int parent = getpid();
  const long child = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, nullptr, nullptr, nullptr, nullptr);
  if (child < 0) {
    fail("idmap", errno, "user namespace");
  }
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
      _exit(0);
    }
    for (;;) {
      pause();
    }
  }
  const int pid = static_cast<int>(child);
  write_map(pid, "uid_map", header.idmap_uid, header.outside_uid);
  write_map(pid, "gid_map", header.idmap_gid, header.outside_gid);
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
  fd = open(path, O_RDONLY | O_CLOEXEC);
  const int error = errno;
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  if (fd < 0) {
    fail("idmap", error, "open");
  }
  return fd;
}

int open_layer(int directory, const char* path, const char* shown) {
  constexpr std::uint64_t resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  const int fd = kernel::openat2(directory, path, O_PATH | O_CLOEXEC | O_NOFOLLOW | O_DIRECTORY, resolve);
  if (fd < 0) {
    fail("source", errno, shown);
  }
  return fd;
}

// Below `base` (a clone of the first `size` bytes of both paths), or at their own places.
Layers open_layers(const Plan& plan, std::uint32_t index, int base) {
  const plan::Step& step = plan.step(index);
  const char* upper = plan.text(step.text);
  const char* directory = plan.text(step.name);
  const std::size_t skip = base < 0 ? 0 : step.size + (step.size > 1 ? 1 : 0);
  const int from = base < 0 ? AT_FDCWD : base;
  Layers layers;
  layers.step = index;
  layers.base = base;
  layers.upper = open_layer(from, upper + skip, upper);
  compare(layers.upper, step.identity, upper);
  const int parent = open_layer(from, directory + skip, directory);
  compare(parent, step.second, directory);
  layers.work = open_layer(parent, "work", directory);
  layers.lower = open_layer(parent, "absent", directory);
  close(parent);
  return layers;
}

// One overlay being made; `step` names what fails.
struct Context {
  int fd;
  const char* step;

  void option(const char* key, const char* value) const {
    if (kernel::fsconfig(fd, FSCONFIG_SET_STRING, key, value) < 0) {
      fail(step, errno, key);
    }
  }
  void layer(const char* key, int directory) const {
    char path[40];
    std::snprintf(path, sizeof path, "/proc/self/fd/%d", directory);
    option(key, path);
  }
};

// From 6.6 on an overlay writes an id of its own into the upper layer unless told not to; before, the word
// was unknown.
bool writes_uuid() {
  utsname name{};
  if (uname(&name) != 0) {
    return false;
  }
  char* rest = nullptr;
  const long major = std::strtol(name.release, &rest, 10);
  const long minor = *rest == '.' ? std::strtol(rest + 1, nullptr, 10) : 0;
  return major > 6 || (major == 6 && minor >= 6);
}

int make_overlay(const Layers& layers, std::uint32_t flags, const char* shown, const char* step) {
  const Context context{kernel::fsopen("overlay"), step};
  if (context.fd < 0) {
    fail(step, errno, "open");
  }
  if (kernel::fsconfig(context.fd, FSCONFIG_SET_FLAG, "userxattr", nullptr) < 0) {
    fail(step, errno, "userxattr");
  }
  context.option("index", "off");
  if (writes_uuid()) {
    context.option("uuid", "null");
  }
  context.layer("lowerdir", layers.lower);
  context.layer("upperdir", layers.upper);
  context.layer("workdir", layers.work);
  if (kernel::fsconfig(context.fd, FSCONFIG_CMD_CREATE, nullptr, nullptr) < 0) {
    fail(step, errno, shown);
  }
  const int mount = kernel::fsmount(context.fd, mount_attributes(flags));
  if (mount < 0) {
    fail(step, errno, "mount");
  }
  close(context.fd);
  return mount;
}

// Not by fchdir: this user need not be allowed to enter it.
void detach(int tree, const char* step) {
  char path[40];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", tree);
  if (umount2(path, MNT_DETACH) < 0) {
    fail(step, errno, "leave");
  }
}

int make_below(int directory, const char* name, std::uint32_t mode) {
  const int made = mkdirat(directory, name, 0700) < 0
                       ? -1
                       : openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (made < 0 || fchmod(made, mode) < 0) {
    fail("layer", errno, name);
  }
  return made;
}

struct Lower {
  std::uint32_t step = 0;
  int tree = -1;
};
Lower lowers[plan::max_layers];
std::uint32_t lower_count = 0;

}  // namespace

int idmap(const Plan& plan, int tree, std::uint32_t flags) {
  mount_attr attributes{};
  attributes.attr_set = MOUNT_ATTR_IDMAP;
  attributes.userns_fd = static_cast<std::uint64_t>(map_namespace(*plan.header));
  const unsigned recursive = (flags & plan::recursive) != 0 ? AT_RECURSIVE : 0u;
  return kernel::mount_setattr(tree, "", AT_EMPTY_PATH | recursive, &attributes);
}

void prepare_overlay(const Plan& plan, std::uint32_t index) {
  const plan::Step& step = plan.step(index);
  char path[4096];
  if (step.size >= sizeof path) {
    fail("source", ENAMETOOLONG, plan.text(step.text));
  }
  std::memcpy(path, plan.text(step.text), step.size);
  path[step.size] = '\0';
  const int directory = open_layer(AT_FDCWD, path, path);
  const int base = clone_tree(directory, step.flags & ~std::uint32_t{plan::recursive}, path);
  close(directory);
  if ((step.flags & plan::idmapped) != 0 && idmap(plan, base, 0) < 0) {
    fail("idmap", errno, path);
  }
  prepared[prepared_count++] = open_layers(plan, index, base);
}

int overlay(const Plan& plan, std::uint32_t index, int new_root) {
  const plan::Step& step = plan.step(index);
  Layers layers;
  for (std::uint32_t i = 0; i < prepared_count; ++i) {
    layers = prepared[i].step == index ? prepared[i] : layers;
  }
  if (layers.step == 0) {
    layers = open_layers(plan, index, -1);
  } else {
    attach(layers.base, new_root, "overlay");
  }
  const int made = make_overlay(layers, step.flags, plan.text(step.text), "overlay");
  if (layers.base >= 0) {
    detach(layers.base, "overlay");
    close(layers.base);
  }
  for (const int fd : {layers.upper, layers.work, layers.lower}) {
    close(fd);
  }
  return made;
}

// Both layers are attached just while the overlay is made, over the new root: what it took of them is its
// own.
int throw_away_layer(const Plan& plan, std::uint32_t index, int new_root, int lower) {
  const plan::Step& step = plan.step(index);
  struct stat info {};
  if (fstat(lower, &info) < 0) {
    fail("layer", errno, plan.text(step.text));
  }
  const int scratch = fresh_tmpfs(0700, step.size, plan::no_dev);
  attach(scratch, new_root, "layer");
  Layers layers;
  layers.upper =
      make_below(scratch, "upper", info.st_mode & 07777);  // what the overlay's own root looks like
  layers.work = make_below(scratch, "work", 0700);
  const int place = make_below(scratch, "lower", 0700);
  attach(lower, place, "layer");
  layers.lower = lower;
  const int made =
      make_overlay(layers, step.flags & ~std::uint32_t{plan::read_only}, plan.text(step.text), "layer");
  detach(scratch, "layer");
  for (const int fd : {scratch, place, layers.upper, layers.work}) {
    close(fd);
  }
  lowers[lower_count++] = {index, lower};
  return made;
}

int lower_of(std::uint32_t index) {
  for (std::uint32_t i = 0; i < lower_count; ++i) {
    if (lowers[i].step == index) {
      return lowers[i].tree;
    }
  }
  return -1;
}

}  // namespace hitchrail::init
