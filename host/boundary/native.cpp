// Lowering to the native backend: a fresh root with the system read-only, the run's own directories, and
// protected names and masks mounted over.
#include <algorithm>
#include <cstring>

#include "boundary/internal.hpp"

namespace hitchrail::boundary {
namespace {

constexpr std::uint32_t ro = plan::read_only | plan::no_dev | plan::recursive;
constexpr std::uint32_t rw = plan::no_dev | plan::recursive;

class Native {
 public:
  Native(const Compiled& compiled, const RunDirectories& run, PlanWriter& plan)
      : compiled_(compiled), run_(run), plan_(plan), handled_(rights::handled(compiled.landlock_abi)) {}

  Status write() {
    plan_.header.flags |= plan::user_namespace | plan::mount_namespace | plan::pid_namespace |
                          plan::ipc_namespace | plan::uts_namespace | plan::cgroup_namespace;
    plan_.header.hostname = plan_.string("hitchrail");
    allow(0, rights::read_dir);  // listing the skeleton; nothing in it can be written
    system();
    devices();
    run_directories();
    others();
    HR_CHECK(protect());
    for (const Grant& view : run_.views) {
      grant(view);
    }
    credentials();
    hold_nested_git();
    deny();
    mask_dotfiles();
    if (compiled_.nested_allowed) {
      plan_.header.landlock_scoped = rights::scoped(compiled_.landlock_abi);
    } else if (handled_ != 0) {
      plan_.header.landlock_fs = handled_;
      plan_.header.landlock_scoped = rights::scoped(compiled_.landlock_abi);
    }
    return {};
  }

 private:
  // A domain that handles any file right forbids every mount below it, so a nested sandbox gets none.
  void allow(std::uint32_t step, std::uint64_t access) {
    plan_.rule(step, compiled_.nested_allowed ? 0 : access & handled_);
  }
  void allow_grant(std::uint32_t step, bool directory, bool writable, bool executable) {
    std::uint64_t access = rights::read | (writable ? rights::write : 0) | (executable ? rights::execute : 0);
    allow(step, directory ? access : access & rights::file_only);
  }

  void grant(const Grant& grant) {
    if (!grant.writable && grant.source.path == grant.target && covered_read_only(grant.target)) {
      return;  // already there, with the same rights: part of a tree mounted before
    }
    std::uint32_t flags = grant.writable ? rw : ro;
    flags |= grant.executable ? 0u : static_cast<std::uint32_t>(plan::no_exec);
    if (grant.role != "system") {
      flags |= of_owner(grant.writable);
    }
    const OverlayDirectory* overlay = overlay_of(grant);
    std::uint32_t made = 0;
    if (grant.writable && compiled_.verification.on) {
      made = own_copy(grant.source, grant.target);
    } else {
      made = overlay != nullptr ? plan_.overlay(grant.source, *overlay, grant.target, flags)
                                : plan_.mount(grant.source, grant.target, flags);
    }
    allow_grant(made, grant.source.directory, grant.writable, grant.executable);
    mounted_.push_back({grant.target, grant.writable, grant.source.path == grant.target});
  }
  // What the run may write, as a gate sees it: below a layer of its own, or only to be read.
  std::uint32_t own_copy(const Root& source, const std::string& target) {
    if (compiled_.verification.layered) {
      return plan_.layer(source, target, rw | of_owner(true), compiled_.verification.scratch_bytes);
    }
    return plan_.mount(source, target, ro | of_owner(false));
  }
  // A tree that the run must see as its own when its global uid is another than the owner's. What is only
  // read may lie on a file system that cannot do that: then it is read with the rights of others.
  [[nodiscard]] std::uint32_t of_owner(bool writable) const {
    if (!compiled_.idmapped) {
      return 0;
    }
    return plan::idmapped | (writable ? 0u : static_cast<std::uint32_t>(plan::idmap_optional));
  }
  [[nodiscard]] const OverlayDirectory* overlay_of(const Grant& grant) const {
    for (const OverlayDirectory& each : compiled_.overlay_directories) {
      if (grant.writable && each.root == grant.target) {
        return &each;
      }
    }
    return nullptr;
  }
  bool covered_read_only(const std::string& target) const {
    const Mounted* nearest = nullptr;
    for (const Mounted& mounted : mounted_) {
      if (contains(mounted.target, target) &&
          (nearest == nullptr || mounted.target.size() >= nearest->target.size())) {
        nearest = &mounted;
      }
    }
    return nearest != nullptr && !nearest->writable && nearest->own_path;
  }

  void system() {
    for (const SystemLink& link : compiled_.links) {
      plan_.link(link.target, link.text);
    }
    for (const Grant& each : compiled_.grants) {
      if (each.role == "system") {
        grant(each);
      }
    }
    const std::string name = sandbox_user_name(compiled_);
    const std::string ids = std::to_string(compiled_.inside_uid) + ":" + std::to_string(compiled_.inside_gid);
    const std::string home = compiled_.run_directories ? inside_home : "/nonexistent";
    std::string passwd = name + ":x:" + ids + ":" + name + ":" + home + ":" + compiled_.shell + "\n";
    passwd +=
        compiled_.inside_uid == 65534 ? "" : "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
    std::string group = name + ":x:" + std::to_string(compiled_.inside_gid) + ":\n";
    group += compiled_.inside_gid == 65534 ? "" : "nogroup:x:65534:\n";
    read_file("/etc/passwd", passwd);
    read_file("/etc/group", group);
    const std::uint32_t proc = plan_.special(
        plan::step_proc, "/proc",
        plan::no_dev | plan::no_exec | (compiled_.nested_allowed ? std::uint32_t{plan::whole} : 0u));
    allow(proc, rights::read);
  }
  void read_file(const std::string& path, const std::string& content) {
    plan_.file(path, content);
    allow(plan_.node(path, false), rights::read_file);
  }

  void devices() {
    for (const Root& device : compiled_.devices) {
      const std::uint32_t made = plan_.mount(device, device.path, plan::no_exec);
      allow(made, (rights::read | rights::write | rights::ioctl_dev) & rights::file_only);
    }
    plan_.link("/dev/fd", "/proc/self/fd");
    plan_.link("/dev/stdin", "/proc/self/fd/0");
    plan_.link("/dev/stdout", "/proc/self/fd/1");
    plan_.link("/dev/stderr", "/proc/self/fd/2");
    if (!compiled_.run_directories) {
      return;  // a probe gets neither terminals nor shared memory
    }
    const std::uint32_t pts = plan_.special(plan::step_devpts, "/dev/pts", plan::no_exec);
    allow(pts, rights::read | rights::write_file | rights::ioctl_dev);
    plan_.link("/dev/ptmx", "pts/ptmx");
    const std::uint32_t shm =
        plan_.special(plan::step_tmpfs, "/dev/shm", plan::no_dev | plan::no_exec, 01777, 64u << 20);
    allow(shm, rights::read | rights::write);
  }

  void run_directories() {
    if (!compiled_.run_directories) {
      const std::uint32_t tmp =
          plan_.special(plan::step_tmpfs, "/tmp", plan::no_dev | plan::no_exec, 01777, 16u << 20);
      plan_.object_at("/tmp", tmp, true);
      allow(tmp, rights::read | rights::write);
      return;
    }
    if (compiled_.verification.on) {
      const std::uint64_t bytes = compiled_.verification.scratch_bytes;
      const std::uint32_t tmp = plan_.special(plan::step_tmpfs, "/tmp", plan::no_dev, 01777, bytes);
      plan_.object_at("/tmp", tmp, true);
      allow_grant(tmp, true, true, true);
      mounted_.push_back({"/tmp", true, false});
      allow_grant(plan_.special(plan::step_tmpfs, inside_home, plan::no_dev, 0700, bytes), true, true, true);
      mounted_.push_back({inside_home, true, false});
      return;
    }
    // The run's temporary directory is new and nobody else's: mount points of roots below /tmp may be made in
    // it.
    allow_grant(plan_.mount(*run_.temp, "/tmp", rw | of_owner(true), true), true, true, true);
    mounted_.push_back({"/tmp", true, false});
    allow_grant(plan_.mount(*run_.home, inside_home, rw | of_owner(true)), true, true, true);
    mounted_.push_back({inside_home, true, false});
  }

  // Outer roots before inner ones, so that an inner one is mounted on what the outer one brought.
  void others() {
    std::vector<const Grant*> rest;
    for (const Grant& each : compiled_.grants) {
      if (each.role != "system" && each.role != "entry") {
        rest.push_back(&each);
      }
    }
    std::stable_sort(rest.begin(), rest.end(),
                     [](const Grant* a, const Grant* b) { return a->target.size() < b->target.size(); });
    for (const Grant* each : rest) {
      grant(*each);
    }
  }

  Status protect() {
    for (const Protected& name : compiled_.protected_names) {
      const std::string path = name.root + "/" + name.name;
      const bool root_writable = std::any_of(mounted_.begin(), mounted_.end(), [&](const Mounted& mounted) {
        return mounted.target == name.root && mounted.writable;
      });
      if (compiled_.has_git && name.root == compiled_.worktree && name.name == ".git") {
        HR_CHECK(private_git(name, path));
        continue;
      }
      if (!root_writable) {
        continue;
      }
      if (compiled_.verification.on) {
        if (name.identity.ino != 0) {  // one that is absent can only be made in the layer
          plan_.cover(Root{path, name.identity, true, 0, 0}, plan::no_step, ro);
        }
        continue;
      }
      if (name.identity.ino == 0) {
        return Error{ErrorClass::internal,
                     "placeholder-missing",
                     "write plan",
                     path,
                     "make_placeholders() was not called for this boundary.",
                     ""};
      }
      const std::uint32_t entry = plan_.existing(path, name.identity);
      plan_.clone(entry, entry, path, ro);
    }
    return {};
  }

  Status private_git(const Protected& name, const std::string& path) {
    if (!run_.git) {
      return Error{ErrorClass::internal,
                   "git-directory-missing",
                   "write plan",
                   path,
                   "The boundary was compiled with a private git directory and none was given.",
                   ""};
    }
    const std::uint32_t entry = plan_.existing(path, name.identity);
    if (compiled_.verification.on && !compiled_.git_file) {
      allow_grant(own_git(entry, path), true, true, true);
      return {};
    }
    if (compiled_.git_file) {
      const std::uint32_t made = compiled_.verification.on
                                     ? own_copy(*run_.git, inside_git)
                                     : plan_.mount(*run_.git, inside_git, rw | of_owner(true));
      allow_grant(made, true, true, true);
      plan_.file("/hitchrail/dotgit", std::string("gitdir: ") + inside_git + "\n");
      allow(plan_.node("/hitchrail/dotgit", false), rights::read_file);
      plan_.clone(plan_.node("/hitchrail/dotgit", false), entry, path, ro);
      return {};
    }
    plan::Step step{};
    step.kind = plan::step_mount;
    step.parent = entry;
    step.flags = rw | of_owner(true);
    step.identity = {run_.git->identity.dev, run_.git->identity.ino};
    const std::uint32_t made = plan_.add(step, "", run_.git->path);
    plan_.object_at(path, made, false);
    allow_grant(made, true, true, true);
    return {};
  }

  // As own_copy(), over the entry that is there.
  std::uint32_t own_git(std::uint32_t entry, const std::string& path) {
    const bool layered = compiled_.verification.layered;
    plan::Step step{};
    step.kind = layered ? plan::step_layer : plan::step_mount;
    step.parent = entry;
    step.flags = layered ? rw | of_owner(true) : ro | of_owner(false);
    step.identity = {run_.git->identity.dev, run_.git->identity.ino};
    step.size = layered ? compiled_.verification.scratch_bytes : 0;
    const std::uint32_t made = plan_.add(step, "", run_.git->path);
    plan_.object_at(path, made, false);
    return made;
  }

  void credentials() {
    if (compiled_.copy_credentials) {
      return;
    }
    for (const CredentialFile& file : compiled_.credentials) {
      const std::string target = std::string(inside_home) + "/" + file.home_path;
      const std::uint32_t entry = plan_.existing(target, {});
      plan::Step step{};
      step.kind = plan::step_mount;
      step.parent = entry;
      // Read-only: a tool command could otherwise replace the operator's login. A token the provider renews
      // lasts for this run only.
      step.flags = plan::read_only | plan::no_dev | plan::no_exec | of_owner(true);
      step.identity = {file.source.identity.dev, file.source.identity.ino};
      const std::uint32_t made = plan_.add(step, "", file.source.path);
      plan_.object_at(target, made, false);
      allow_grant(made, false, false, false);
    }
  }

  // The empty thing that is mounted over what must not be seen.
  std::uint32_t mask(bool directory) {
    const std::string path = directory ? "/hitchrail/mask" : "/hitchrail/mask-file";
    if (!plan_.known(path)) {
      plan::Step step{};
      step.kind = directory ? plan::step_directory : plan::step_file;
      step.parent = plan_.node("/hitchrail", true);
      step.mode = 0;
      plan_.object_at(path, plan_.add(step, directory ? "mask" : "mask-file", ""), true);
    }
    return plan_.node(path, directory);
  }

  void deny() {
    for (const Root& denied : compiled_.denied) {
      if (!plan_.covered(denied.path)) {
        continue;  // not there at all
      }
      if (compiled_.verification.on) {
        plan_.cover(denied, mask(denied.directory), ro);
        continue;
      }
      const std::uint32_t entry = plan_.existing(denied.path, denied.identity);
      plan_.clone(mask(denied.directory), entry, denied.path, ro);
    }
  }

  void hold_nested_git() {
    for (const Root& nested : compiled_.nested_git) {
      plan_.cover(nested, plan::no_step, ro);
    }
  }

  void mask_dotfiles() {
    for (const Root& dotfile : compiled_.masks) {
      plan_.cover(dotfile, mask(dotfile.directory), ro);
    }
  }

  struct Mounted {
    std::string target;
    bool writable;
    bool own_path;  // appears where it is on the host
  };

  const Compiled& compiled_;
  const RunDirectories& run_;
  PlanWriter& plan_;
  std::uint64_t handled_;
  std::vector<Mounted> mounted_;
};

}  // namespace

Status write_native(const Compiled& compiled, const RunDirectories& run, PlanWriter& plan) {
  return Native(compiled, run, plan).write();
}

}  // namespace hitchrail::boundary
