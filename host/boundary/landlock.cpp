// Lowering to the landlock backend: no namespace, no mount. Every grant is a rule on a host path; the
// worktree's top level can be listed, and its entries are granted one by one, so that a rule never covers a
// protected name.
#include "boundary/internal.hpp"

namespace hitchrail::boundary {

Status write_landlock(const Compiled& compiled, const RunDirectories& run, PlanWriter& plan) {
  const std::uint64_t handled = rights::handled(compiled.landlock_abi);
  plan.header.landlock_fs = handled;
  plan.header.landlock_scoped = rights::scoped(compiled.landlock_abi);
  const auto allow = [&](const Root& root, std::uint64_t access) {
    plan.rule(plan.source(root), (root.directory ? access : access & rights::file_only) & handled);
  };
  constexpr std::uint64_t read = rights::read | rights::execute;
  for (const Grant& view : run.views) {
    if (view.source.path != view.target) {
      return Error{ErrorClass::refused,
                   "view-needs-mounts",
                   "write plan",
                   view.target,
                   "The landlock backend can show a directory only at its own path.",
                   ""};
    }
    allow(view.source, read | (view.writable ? rights::write : 0));
  }
  for (const Grant& grant : compiled.grants) {
    if (grant.source.path != grant.target && grant.role != "system") {
      return Error{ErrorClass::refused,
                   "view-needs-mounts",
                   "write plan",
                   grant.target,
                   "The landlock backend can show a directory only at its own path.",
                   ""};
    }
    const bool split = grant.writable && (grant.role == "worktree" || grant.role == "write-root");
    const bool writable = grant.writable && !compiled.verification.on;  // there are no layers here
    allow(grant.source, split ? rights::read_dir : read | (writable ? rights::write : 0));
  }
  // Protected names may be read, except git's own metadata: its configuration can hold credentials.
  for (const Protected& name : compiled.protected_names) {
    if (name.state != EntryKind::absent && std::string_view(name.name) != ".git") {
      allow(Root{name.root + "/" + name.name, name.identity, name.state == EntryKind::directory, 0, 0}, read);
    }
  }
  if (compiled.proc) {
    allow(*compiled.proc,
          rights::read);  // other processes' memory and environment are closed by the domain itself
  }
  for (const Root& device : compiled.devices) {
    allow(device, rights::read_file | rights::write_file | rights::ioctl_dev);
  }
  for (const std::optional<Root>& directory : {run.home, run.temp}) {
    if (directory) {
      allow(*directory, read | rights::write);
    }
  }
  if (run.git) {
    allow(*run.git, read | (compiled.verification.on ? 0 : rights::write));
  }
  return {};
}

}  // namespace hitchrail::boundary
