// The new root, step by step, by descriptor. Everything here is done by pid 1 of the new namespace (a fresh
// /proc belongs to the pid namespace of whoever mounts it); only trees of a user switch are cloned before, by
// root.
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "init/init.hpp"
#include "init/kernel.hpp"

namespace hitchrail::init {
namespace {

int* objects = nullptr;  // descriptor of each step's object
constexpr int not_yet = -1;
constexpr int absent = -2;

}  // namespace

unsigned mount_attributes(std::uint32_t flags) {
  unsigned attributes = MOUNT_ATTR_NOSUID;
  attributes |= (flags & plan::read_only) != 0 ? MOUNT_ATTR_RDONLY : 0;
  attributes |= (flags & plan::no_dev) != 0 ? MOUNT_ATTR_NODEV : 0;
  attributes |= (flags & plan::no_exec) != 0 ? MOUNT_ATTR_NOEXEC : 0;
  return attributes;
}

void compare(int fd, const plan::Identity& expected, const char* path) {
  struct stat info {};
  if (fstat(fd, &info) < 0) {
    fail("source-stat", errno, path);
  }
  if ((expected.dev != 0 && info.st_dev != expected.dev) || info.st_ino != expected.ino) {
    fail("source-changed", ESTALE, path);
  }
}

// A detached copy with the step's attributes. Private: without it, mounts made below the copy would propagate
// to the host when the original is shared.
int clone_tree(int source, std::uint32_t flags, const char* path) {
  const unsigned recursive = (flags & plan::recursive) != 0 ? AT_RECURSIVE : 0u;
  const int tree =
      kernel::open_tree(source, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | recursive);
  if (tree < 0) {
    fail("clone", errno, path);
  }
  mount_attr attributes{};
  attributes.attr_set = mount_attributes(flags);
  attributes.propagation = MS_PRIVATE;
  if (kernel::mount_setattr(tree, "", AT_EMPTY_PATH | recursive, &attributes) < 0) {
    fail("mount-attributes", errno, path);
  }
  return tree;
}

void attach(int tree, int target, const char* path) {
  if (kernel::move_mount(tree, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0) {
    fail("attach", errno, path);
  }
}

namespace {

int open_source(const Plan& plan, const plan::Step& step) {
  const char* path = plan.text(step.text);
  const int fd = kernel::openat2(AT_FDCWD, path, O_PATH | O_CLOEXEC | O_NOFOLLOW,
                                 RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
  if (fd < 0) {
    if (errno == ENOENT && (step.flags & plan::optional) != 0) {
      return absent;
    }
    fail("source", errno, path);
  }
  compare(fd, step.identity, path);
  return fd;
}

int fresh_mount(const char* type, const char* const (*options)[2], std::uint32_t flags) {
  const int context = kernel::fsopen(type);
  if (context < 0) {
    fail(type, errno, "open");
  }
  for (; (*options)[0] != nullptr; ++options) {
    if (kernel::fsconfig(context, FSCONFIG_SET_STRING, (*options)[0], (*options)[1]) < 0) {
      fail(type, errno, (*options)[0]);
    }
  }
  if (kernel::fsconfig(context, FSCONFIG_CMD_CREATE, nullptr, nullptr) < 0) {
    fail(type, errno, "create");
  }
  const int mount = kernel::fsmount(context, mount_attributes(flags));
  if (mount < 0) {
    fail(type, errno, "mount");
  }
  close(context);
  return mount;
}

}  // namespace

int fresh_tmpfs(std::uint32_t mode, std::uint64_t size, std::uint32_t flags) {
  char mode_text[16];
  char size_text[32];
  std::snprintf(mode_text, sizeof mode_text, "%o", mode);
  std::snprintf(size_text, sizeof size_text, "%llu", static_cast<unsigned long long>(size));
  const char* const options[][2] = {{"mode", mode_text}, {"size", size_text}, {nullptr, nullptr}};
  return fresh_mount("tmpfs", options, flags);
}

namespace {

int open_name(int parent, const char* name, int flags, const char* step) {
  const int fd = openat(parent, name, O_PATH | O_NOFOLLOW | O_CLOEXEC | flags);
  if (fd < 0) {
    fail(step, errno, name);
  }
  return fd;
}

int make_directory(int parent, const char* name, std::uint32_t mode) {
  if (mkdirat(parent, name, 0755) < 0 && errno != EEXIST) {
    fail("directory", errno, name);
  }
  const int fd = open_name(parent, name, O_DIRECTORY, "directory");
  if (mode != 0755 && fchmodat(parent, name, mode, 0) < 0) {
    fail("directory", errno, name);
  }
  return fd;
}

int make_file(const Plan& plan, int parent, const plan::Step& step) {
  const char* name = plan.text(step.name);
  const int fd = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (fd < 0) {
    fail("file", errno, name);
  }
  const char* text = plan.text(step.text);
  if (step.text.size > 0 && write(fd, text, step.text.size) != static_cast<ssize_t>(step.text.size)) {
    fail("file", errno, name);
  }
  if (step.mode != 0644 && fchmod(fd, step.mode) < 0) {
    fail("file", errno, name);
  }
  close(fd);
  return open_name(parent, name, 0, "file");
}

int open_existing(const Plan& plan, int parent, const plan::Step& step) {
  const char* name = plan.text(step.name);
  const int fd = openat(parent, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) {
    if (errno == ENOENT && (step.flags & plan::optional) != 0) {
      return absent;
    }
    fail("open", errno, name);
  }
  if (step.identity.dev != 0 || step.identity.ino != 0) {
    compare(fd, step.identity, name);
  }
  return fd;
}

// A mask, or a read-only copy of what is there itself.
int cover(const Plan& plan, const plan::Step& step, int parent) {
  const char* name = plan.text(step.name);
  constexpr std::uint64_t resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  const int target = kernel::openat2(parent, name, O_PATH | O_CLOEXEC | O_NOFOLLOW, resolve);
  if (target < 0) {
    fail("cover", errno, name);
  }
  const int below = lower_of(step.parent);  // an overlay may give an object another number
  const int seen =
      below < 0 ? target : kernel::openat2(below, name, O_PATH | O_CLOEXEC | O_NOFOLLOW, resolve);
  if (seen < 0) {
    fail("cover", errno, name);
  }
  compare(seen, step.identity, name);
  if (seen != target) {
    close(seen);
  }
  const int tree = clone_tree(step.other == plan::no_step ? target : objects[step.other], step.flags, name);
  attach(tree, target, name);
  close(tree);
  close(target);
  return absent;
}

// Of a layer nobody writes to, whatever the overlay's own flags.
int layer_source(const Plan& plan, std::uint32_t index) {
  const plan::Step& step = plan.step(index);
  if (objects[index] >= 0) {
    return objects[index];  // cloned before a user switch
  }
  const int source = open_source(plan, step);
  const int tree = clone_tree(source, step.flags | plan::read_only, plan.text(step.text));
  close(source);
  return tree;
}

int mount_tree(const Plan& plan, std::uint32_t index, int parent) {
  const plan::Step& step = plan.step(index);
  int tree = objects[index];  // cloned before a user switch
  if (tree < 0) {
    const int source = open_source(plan, step);
    if (source == absent) {
      return absent;
    }
    tree = clone_tree(source, step.flags, plan.text(step.text));
    close(source);
  }
  attach(tree, parent, plan.text(step.text));
  return tree;
}

int run_step(const Plan& plan, std::uint32_t index) {
  const plan::Step& step = plan.step(index);
  if (step.kind == plan::step_source) {
    return not_yet;
  }
  const int parent = objects[step.parent];
  if (parent < 0) {
    return absent;
  }
  int made = not_yet;
  static const char* const proc_options[][2] = {{"subset", "pid"}, {nullptr, nullptr}};
  static const char* const no_options[][2] = {{nullptr, nullptr}};
  static const char* const pts_options[][2] = {{"mode", "620"}, {"ptmxmode", "666"}, {nullptr, nullptr}};
  switch (step.kind) {
    case plan::step_directory:
      return make_directory(parent, plan.text(step.name), step.mode);
    case plan::step_file:
      return make_file(plan, parent, step);
    case plan::step_symlink:
      if (symlinkat(plan.text(step.text), parent, plan.text(step.name)) < 0) {
        fail("symlink", errno, plan.text(step.name));
      }
      return absent;
    case plan::step_open:
      return open_existing(plan, parent, step);
    case plan::step_mount:
      return mount_tree(plan, index, parent);
    case plan::step_clone:
      if (objects[step.other] < 0) {
        return absent;
      }
      made = clone_tree(objects[step.other], step.flags, plan.text(step.name));
      break;
    case plan::step_cover:
      return cover(plan, step, parent);
    case plan::step_layer:
      made = throw_away_layer(plan, index, objects[0], layer_source(plan, index));
      break;
    case plan::step_proc:
      made = fresh_mount("proc", (step.flags & plan::whole) != 0 ? no_options : proc_options, step.flags);
      break;
    case plan::step_devpts:
      made = fresh_mount("devpts", pts_options, step.flags);
      break;
    case plan::step_tmpfs:
      made = fresh_tmpfs(step.mode, step.size, step.flags);
      break;
    case plan::step_overlay:
      made = overlay(plan, index, objects[0]);
      break;
    default:
      fail("plan", EINVAL, "step kind");
  }
  attach(made, parent, plan.text(step.name));
  return made;
}

// The old root ends up on top of the new one at "/" and is taken away by descriptor.
void pivot(int new_root) {
  const int old_root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (old_root < 0 || fchdir(new_root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0) {
    fail("pivot", errno);
  }
  if (fchdir(old_root) < 0 || umount2(".", MNT_DETACH) < 0 || fchdir(new_root) < 0) {
    fail("old-root", errno);
  }
  close(old_root);
  if (chroot(".") < 0) {
    fail("pivot", errno);
  }
  mount_attr attributes{};
  attributes.attr_set = MOUNT_ATTR_RDONLY;
  if (kernel::mount_setattr(new_root, "", AT_EMPTY_PATH, &attributes) < 0) {
    fail("root-read-only", errno);
  }
}

}  // namespace

void allocate_objects(const Plan& plan) {
  const std::size_t size = plan.header->steps.count * sizeof(int);
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    fail("memory", errno);
  }
  objects = static_cast<int*>(memory);
  std::memset(objects, 0xff, size);  // not_yet everywhere
}

void clone_sources(const Plan& plan) {
  for (std::uint32_t i = 1; i < plan.header->steps.count; ++i) {
    const plan::Step& step = plan.step(i);
    if (step.kind == plan::step_overlay) {
      prepare_overlay(plan, i);
    }
    if (step.kind != plan::step_mount && step.kind != plan::step_layer) {
      continue;
    }
    const int source = open_source(plan, step);
    if (source < 0) {
      continue;
    }
    const bool layer = step.kind == plan::step_layer;
    objects[i] = clone_tree(source, step.flags | (layer ? plan::read_only : 0u), plan.text(step.text));
    close(source);
    if ((step.flags & plan::idmapped) != 0 && idmap(plan, objects[i], step.flags) < 0 &&
        (step.flags & plan::idmap_optional) == 0) {
      fail("idmap", errno, plan.text(step.text));
    }
  }
}

void build_root(const Plan& plan) {
  if (!plan.has(plan::mount_namespace)) {
    return;
  }
  umask(0);
  // On "/" itself: every path of the host below is still reached, since a lookup from the root does not enter
  // what covers it.
  const int root = fresh_tmpfs(plan.header->root_mode, 4u << 20, plan::no_dev | plan::no_exec);
  if (kernel::move_mount(root, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0) {
    fail("root", errno);
  }
  objects[0] = root;
  for (std::uint32_t i = 1; i < plan.header->steps.count; ++i) {
    const int made = run_step(plan, i);
    if (made != not_yet) {
      objects[i] = made;
    }
  }
  pivot(root);
}

int object(const Plan& plan, std::uint32_t index) {
  if (objects[index] == not_yet && index != 0 && plan.step(index).kind == plan::step_source) {
    objects[index] = open_source(plan, plan.step(index));
  }
  return objects[index];
}

void forget(const Plan& plan, std::uint32_t index) {
  if (index != 0 && plan.step(index).kind == plan::step_source && objects[index] >= 0) {
    close(objects[index]);
    objects[index] = not_yet;
  }
}

int open_place(const Plan& plan, const plan::Place& place, const char* step, bool directory) {
  const int base = object(plan, place.step);
  if (base < 0) {
    fail(step, ENOENT, plan.text(place.relative));
  }
  if (place.relative.size == 0) {
    return base;
  }
  constexpr std::uint64_t resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_BENEATH;
  const int fd = kernel::openat2(
      base, plan.text(place.relative),
      static_cast<std::uint64_t>(O_PATH | O_CLOEXEC | (directory ? O_DIRECTORY : 0)), resolve);
  if (fd < 0) {
    fail(step, errno, plan.text(place.relative));
  }
  return fd;
}

}  // namespace hitchrail::init
