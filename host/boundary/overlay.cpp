// The overlay for protected names that do not exist, and idmapped trees: what this machine and these roots
// allow, the directories an overlay needs, and their removal.
//
// The directory `overlay` in the attempt directory is its own record: nothing else is ever made by that name,
// and nothing of an overlay lies anywhere else. One folder a root, with `work` and `absent` (the lower layer,
// on the same file system so that inode and device numbers inside are consistent).
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/mount.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "boundary/internal.hpp"
#include "core/file.hpp"
#include "core/text.hpp"
#include "init/kernel.hpp"
#include "pathfs/pathfs.hpp"
#include "pathfs/walk.hpp"

namespace hitchrail::boundary {
namespace {

constexpr const char* directory_name = "overlay";
constexpr const char* record_name = "roots";
constexpr const char* mark_prefix = "user.overlay.";

// ---- looking
// ----------------------------------------------------------------------------------------------------------------
// Known to be an upper layer; on any other file system placeholders are used.
bool can_be_upper(int fd) {
  struct statfs info {};
  if (fstatfs(fd, &info) < 0) {
    return false;
  }
  constexpr long xfs = 0x58465342;
  const auto type = static_cast<long>(info.f_type);
  return type == EXT4_SUPER_MAGIC || type == TMPFS_MAGIC || type == BTRFS_SUPER_MAGIC || type == xfs;
}

// 0 where the kernel does not tell (before 5.8, or no /proc).
std::uint64_t mount_id(int fd) {
  struct statx info {};
  constexpr unsigned wanted = 0x1000;  // STATX_MNT_ID
  if (statx(fd, "", AT_EMPTY_PATH, wanted, &info) == 0 && (info.stx_mask & wanted) != 0) {
    return info.stx_mnt_id;
  }
  return 0;
}

// The directory, or the nearest one above it that exists.
Result<Fd> open_nearest(std::string path) {
  for (;;) {
    auto opened = open_no_symlinks(AT_FDCWD, path, O_PATH | O_DIRECTORY);
    if (opened.has_value() || opened.error().code != "enoent" || path == "/") {
      return opened;
    }
    path = path.substr(0, std::max<std::size_t>(path.rfind('/'), 1));
  }
}

// Runs `body` in a child of its own and says whether it returned true.
template <class Body>
bool tried_in_child(const Body& body) {
  const pid_t child = fork();
  if (child < 0) {
    return false;
  }
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    _exit(body() ? 0 : 1);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool write_text(const char* path, const char* text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  const auto size = static_cast<ssize_t>(std::strlen(text));
  return fd >= 0 && write(fd, text, static_cast<std::size_t>(size)) == size && close(fd) == 0;
}

bool own_mounts(unsigned uid, unsigned gid, bool user_namespace) {
  if (user_namespace) {
    char map[64];
    // The host is undumpable, which makes /proc/self root's: dumpable just while the maps are written.
    const int dumpable = prctl(PR_GET_DUMPABLE);
    if (unshare(CLONE_NEWUSER) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0) {
      return false;
    }
    std::snprintf(map, sizeof map, "%u %u 1\n", uid, uid);
    if (!write_text("/proc/self/uid_map", map) || !write_text("/proc/self/setgroups", "deny")) {
      return false;
    }
    std::snprintf(map, sizeof map, "%u %u 1\n", gid, gid);
    if (!write_text("/proc/self/gid_map", map)) {
      return false;
    }
    (void)prctl(PR_SET_DUMPABLE, dumpable == 1 ? 1 : 0);
  }
  return unshare(CLONE_NEWNS) == 0 && mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

bool try_overlay() {
  constexpr const char* base = "/tmp";
  constexpr const char* options =
      "userxattr,index=off,lowerdir=/tmp/absent,upperdir=/tmp/upper,workdir=/tmp/work";
  return own_mounts(geteuid(), getegid(), true) && mount("tmpfs", base, "tmpfs", 0, "mode=700") == 0 &&
         mkdir("/tmp/absent", 0755) == 0 && mkdir("/tmp/upper", 0755) == 0 && mkdir("/tmp/work", 0755) == 0 &&
         mkdir("/tmp/made", 0755) == 0 && mount("overlay", "/tmp/made", "overlay", 0, options) == 0 &&
         mkdir("/tmp/made/name", 0755) == 0;
}

// A detached, idmapped clone of the directory; with `overlay` also a read-only overlay of it (which kernels
// before 5.19 refuse for idmapped layers).
bool try_idmap(const std::string& path, bool overlay) {
  if (!own_mounts(0, 0, false)) {
    return false;
  }
  const pid_t carrier =
      static_cast<pid_t>(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
  if (carrier == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pause();
    _exit(0);
  }
  char name[64];
  std::snprintf(name, sizeof name, "/proc/%d/uid_map", static_cast<int>(carrier));
  const bool uids = carrier > 0 && write_text(name, "0 2046820352 1\n");
  std::snprintf(name, sizeof name, "/proc/%d/gid_map", static_cast<int>(carrier));
  const bool gids = uids && write_text(name, "0 2046820352 1\n");
  std::snprintf(name, sizeof name, "/proc/%d/ns/user", static_cast<int>(carrier));
  const int space = gids ? open(name, O_RDONLY | O_CLOEXEC) : -1;
  if (carrier > 0) {
    kill(carrier, SIGKILL);
    waitpid(carrier, nullptr, 0);
  }
  const int tree = space < 0 ? -1
                             : kernel::open_tree(AT_FDCWD, path.c_str(),
                                                 OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
  mount_attr attributes{};
  attributes.attr_set = MOUNT_ATTR_IDMAP;
  attributes.userns_fd = static_cast<std::uint64_t>(space);
  if (tree < 0 || kernel::mount_setattr(tree, "", AT_EMPTY_PATH, &attributes) < 0) {
    return false;
  }
  return !overlay || (mount("tmpfs", "/tmp", "tmpfs", 0, "mode=700") == 0 && mkdir("/tmp/a", 0700) == 0 &&
                      mkdir("/tmp/b", 0700) == 0 && mkdir("/tmp/made", 0700) == 0 &&
                      kernel::move_mount(tree, "", AT_FDCWD, "/tmp/a", MOVE_MOUNT_F_EMPTY_PATH) == 0 &&
                      mount("overlay", "/tmp/made", "overlay", MS_RDONLY, "lowerdir=/tmp/a:/tmp/b") == 0);
}

bool asked_off(const char* variable, const char* word) {
  const char* value = std::getenv(variable);
  return value != nullptr && std::string_view(value) == word;
}

// Above every range that distributions, systemd and subordinate ids use, below 2^31.
std::uint32_t draw_id() {
  for (;;) {
    std::uint32_t bits = 0;
    if (getrandom(&bits, sizeof bits, 0) != static_cast<ssize_t>(sizeof bits)) {
      return 0;
    }
    const std::uint32_t id = 0x7a000000u + (bits & 0x00ffffffu);
    if (getpwuid(id) == nullptr) {
      return id;
    }
  }
}

// ---- directories
// ------------------------------------------------------------------------------------------------------------
Result<std::string> path_of_fd(int fd) {
  char link[64];
  char path[PATH_MAX];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t size = readlink(link, path, sizeof path);
  if (size <= 0) {
    return errno_error("name", "attempt directory", errno);
  }
  return std::string(path, static_cast<std::size_t>(size));
}

Result<Fd> make_owned(int parent, const std::string& name, mode_t mode, const Compiled& compiled) {
  if (mkdirat(parent, name.c_str(), mode) < 0) {
    return errno_error("make overlay directory", name, errno);
  }
  HR_TRY(made, open_at(parent, name, O_RDONLY | O_DIRECTORY));
  const bool foreign = compiled.uid != geteuid() || compiled.gid != getegid();
  if ((foreign && fchown(made.get(), compiled.uid, compiled.gid) < 0) || fchmod(made.get(), mode) < 0) {
    return errno_error("make overlay directory", name, errno);
  }
  return made;
}

struct Marked {
  std::string root;
  Identity identity;
};

// What changed since then may be the run's. ctime is taken from a clock that is behind by up to a tick.
std::int64_t start_of_doubt() {
  constexpr std::int64_t tick_ns = 30'000'000;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec - tick_ns;
}

json::Value record_of(const std::vector<Marked>& roots) {
  json::Value items = json::Value::array();
  for (const Marked& each : roots) {
    json::Value item = json::Value::object();
    item.set("root", hex_encode(each.root));  // a path may be any bytes
    item.set("device", std::to_string(each.identity.dev));
    item.set("inode", std::to_string(each.identity.ino));
    items.push(std::move(item));
  }
  json::Value document = json::Value::object();
  document.set("schemaVersion", "overlay-roots/v1");
  document.set("sinceNs", std::to_string(start_of_doubt()));
  document.set("items", std::move(items));
  return document;
}

// ---- marks
// ------------------------------------------------------------------------------------------------------------------
bool unmark(int fd) {
  char list[8192];
  const ssize_t size = flistxattr(fd, list, sizeof list);
  bool all = true;
  for (ssize_t at = 0; at < size;) {
    const std::string_view name(list + at);
    at += static_cast<ssize_t>(name.size()) + 1;
    if (name.rfind(mark_prefix, 0) == 0 && fremovexattr(fd, name.data()) < 0) {
      all = all && errno == ENODATA;
    }
  }
  return all;
}

// The root and all directories below it, where they changed since the run began: it may have moved a marked
// one anywhere. The operator's own marks on others stay. What lies beyond the bounds keeps its marks.
bool unmark_root(const Marked& root, std::int64_t since_ns) {
  auto directory = pathfs::open_absolute(root.root, O_RDONLY | O_DIRECTORY);
  if (directory.has_error()) {
    return !pathfs::is(directory.error(), pathfs::Code::io);  // gone: nothing of ours is there
  }
  const int fd = directory.value().get();
  const auto found = pathfs::identify(fd);
  if (found.has_error() || Identity{found.value().device, found.value().inode} != root.identity) {
    return true;
  }
  bool all = found.value().changed_ns < since_ns || unmark(fd);
  const pathfs::WalkLimits limits{256, 250'000, 250'000};
  const auto walked = pathfs::walk(fd, "", limits, [&](const pathfs::Visit& visit) {
    if (visit.type != pathfs::FileType::directory) {
      return pathfs::Next::go_on;
    }
    if (visit.parent.empty() && std::find(protected_names().begin(), protected_names().end(), visit.name) !=
                                    protected_names().end()) {
      return pathfs::Next::skip;  // the run could not write there
    }
    const auto entry = pathfs::identify_at(visit.directory, visit.name);
    if (entry.has_value() && entry.value().changed_ns >= since_ns) {
      const auto child = pathfs::open_directory_beneath(visit.directory, visit.name);
      all = child.has_value()
                ? unmark(child.value().get()) && all
                : all && pathfs::io_reason(child.error()) != "eio";  // an unreadable one keeps its mark
    }
    return pathfs::Next::go_on;
  });
  return all && (walked.has_value() || pathfs::is(walked.error(), pathfs::Code::walk_limit));
}

bool unmark_all(int overlay) {
  auto text = read_file_at(overlay, record_name, 1u << 20);
  if (text.has_error()) {
    return true;  // died before the record: before any overlay
  }
  auto document = json::parse(text.value(), json::Duplicates::refuse, record_name);
  if (document.has_error()) {
    return true;
  }
  bool all = true;
  const std::int64_t since_ns =
      std::strtoll(document.value().get("sinceNs").as_string().c_str(), nullptr, 10);
  for (const json::Value& item : document.value().get("items").items()) {
    const auto number = [&](const char* key) {
      return std::strtoull(item.get(key).as_string().c_str(), nullptr, 10);
    };
    const Marked root{hex_decode(item.get("root").as_string()), {number("device"), number("inode")}};
    all = unmark_root(root, since_ns) && all;
  }
  return all;
}

}  // namespace

bool overlay_works() {
  return tried_in_child(try_overlay);
}

void look_at_mounts(const Machine& machine, const std::string& state_directory, Roots& roots) {
  if (machine.uid == 0 && roots.worktree && !asked_off("HITCHRAIL_OWN_UID", "off")) {
    const std::string& path = roots.worktree->root.path;
    roots.idmapped = machine.mount_api && tried_in_child([&] { return try_idmap(path, false); });
    roots.run_id = roots.idmapped ? draw_id() : 0;
    roots.idmapped = roots.run_id != 0;
  }
  if (!machine.overlay || asked_off("HITCHRAIL_PROTECTED_NAMES", "placeholders")) {
    return;
  }
  auto state = open_nearest(state_directory);
  const std::uint64_t mount = state.has_value() ? mount_id(state.value().get()) : 0;
  const auto look = [&](WritableRoot& root) {
    auto fd = pathfs::open_absolute(root.root.path, O_PATH | O_DIRECTORY);
    root.overlay = fd.has_value() && mount != 0 && mount_id(fd.value().get()) == mount &&
                   can_be_upper(fd.value().get()) &&
                   (!roots.idmapped || tried_in_child([&] { return try_idmap(root.root.path, true); }));
  };
  if (roots.worktree) {
    look(*roots.worktree);
  }
  std::for_each(roots.write.begin(), roots.write.end(), look);
}

AbsentNames absent_names(const Machine& machine, const std::string& state_directory) {
  if (asked_off("HITCHRAIL_PROTECTED_NAMES", "placeholders")) {
    return {false, "HITCHRAIL_PROTECTED_NAMES asks for them"};
  }
  if (!machine.overlay) {
    return {false, "an overlay cannot be mounted in a user namespace here"};
  }
  auto state = open_nearest(state_directory);
  if (state.has_error()) {
    return {false, "the state directory cannot be looked at (" + state.error().code + ")"};
  }
  if (mount_id(state.value().get()) == 0) {
    return {false, "this kernel does not say which mount a directory is on"};
  }
  if (!can_be_upper(state.value().get())) {
    return {false, "the state directory's file system is none of ext4, xfs, btrfs and tmpfs"};
  }
  const bool own_uid = machine.uid == 0 && machine.mount_api && !asked_off("HITCHRAIL_OWN_UID", "off");
  auto path = path_of_fd(state.value().get());
  if (own_uid && path.has_value() && tried_in_child([&] { return try_idmap(path.value(), false); }) &&
      !tried_in_child([&] { return try_idmap(path.value(), true); })) {
    return {false,
            "no overlay can be made over an idmapped tree here, and root's runs have a uid of their own"};
  }
  return {true, "an overlay can be mounted here"};
}

Status make_overlay_directories(Compiled& compiled, int attempt_dirfd) {
  std::vector<Marked> roots;
  for (const Protected& name : compiled.protected_names) {
    const bool listed =
        std::any_of(roots.begin(), roots.end(), [&](const Marked& each) { return each.root == name.root; });
    if (!name.overlay || listed) {
      continue;
    }
    for (const Grant& grant : compiled.grants) {
      if (grant.target == name.root && grant.writable) {
        roots.push_back({name.root, grant.source.identity});
        break;
      }
    }
  }
  if (roots.empty()) {
    return {};
  }
  HR_TRY(base, path_of_fd(attempt_dirfd));
  if (mkdirat(attempt_dirfd, directory_name, 0711) < 0) {
    return errno_error("make overlay directory", directory_name, errno);
  }
  HR_TRY(overlay, open_at(attempt_dirfd, directory_name, O_RDONLY | O_DIRECTORY));
  HR_CHECK(write_file_atomic(overlay.get(), record_name, json::write(record_of(roots)) + "\n"));
  compiled.overlay_directories.clear();
  for (std::size_t i = 0; i < roots.size(); ++i) {
    const std::string number = std::to_string(i);
    HR_TRY(folder, make_owned(overlay.get(), number, 0755, compiled));
    HR_TRY(work, make_owned(folder.get(), "work", 0700, compiled));
    HR_TRY(absent, make_owned(folder.get(), "absent", 0755, compiled));
    for (Protected& name : compiled.protected_names) {
      if (!name.overlay || name.root != roots[i].root) {
        continue;
      }
      HR_TRY(made, make_owned(absent.get(), name.name, 0755, compiled));
      struct stat info {};
      if (fstat(made.get(), &info) < 0) {
        return errno_error("make overlay directory", name.name, errno);
      }
      name.identity = {info.st_dev, info.st_ino};
    }
    struct stat info {};
    if (fstat(folder.get(), &info) < 0) {
      return errno_error("make overlay directory", number, errno);
    }
    compiled.overlay_directories.push_back(
        {roots[i].root, base + "/" + directory_name + "/" + number, {info.st_dev, info.st_ino}});
  }
  return {};
}

Status remove_overlay_directories(int attempt_dirfd) {
  auto overlay = open_at(attempt_dirfd, directory_name, O_RDONLY | O_DIRECTORY);
  if (overlay.has_error()) {
    return overlay.error().code == "enoent" ? Status{} : Status{overlay.error()};
  }
  if (!unmark_all(overlay.value().get())) {
    return Error{ErrorClass::failed,
                 "overlay-left",
                 "remove overlay marks",
                 directory_name,
                 "A mark of the overlay could not be removed from the worktree now.",
                 "Run: hitchrail runs recover"};
  }
  auto removed = remove_tree_at(attempt_dirfd, directory_name);
  if (removed.has_error()) {
    Error error = removed.error();
    error.code = "overlay-left";
    error.remedy = "Run: hitchrail runs recover";
    return error;
  }
  return {};
}

}  // namespace hitchrail::boundary
