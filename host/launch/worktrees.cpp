#include "launch/worktrees.hpp"

#include "attempt/attempt.hpp"
#include "core/ids.hpp"
#include "launch/exec.hpp"
#include "launch/presets.hpp"
#include "launch/stages.hpp"
#include "workspace/inspector.hpp"
#include "workspace/worktree_parts.hpp"

namespace hitchrail::launch {
namespace {

std::string actor_text() {
  const Person person = current_person();
  const std::string uid = "uid " + std::to_string(person.uid);
  return person.user.empty() ? uid : person.user + " (" + uid + ")";
}

// A run that ended is no obstacle; one that died without an end is, until it is recovered.
Result<bool> attempt_stands(int state, const std::string& attempt) {
  HR_TRY(holder, attempt::lease_holder(state, attempt));
  return holder == attempt::LeaseHolder::live || holder == attempt::LeaseHolder::needs_recovery;
}

struct Tools {
  Ground ground;
  store::StateHome home;
  workspace::WorktreeManifests manifests;
  workspace::GitRunner git;
};

// Without a state home there is nothing managed: the error says so as state-directory-absent.
Result<Tools> tools_for(const ExtraDirs& dirs, store::Access access) {
  Request request;
  request.dirs = dirs;
  HR_TRY(home, store::StateHome::open(access));
  HR_TRY(ground, survey(request, access == store::Access::write));
  HR_TRY(manifests, workspace::WorktreeManifests::open(home.fd(), access));
  workspace::GitRunner git = workspace::inspector_git(ground.machine());
  return Tools{std::move(ground), std::move(home), std::move(manifests), std::move(git)};
}

Result<std::string> live_in(const store::StateHome& home, const workspace::WorktreeManifest& m) {
  HR_TRY(database, store::Store::open(home, store::Access::read));
  HR_TRY(leases, database.leases());
  for (const store::WorktreeLease& lease : leases) {
    const std::string root = std::to_string(lease.root.device) + ":" + std::to_string(lease.root.inode);
    const bool here = lease.canonical_path == m.path || lease.canonical_path.starts_with(m.path + "/") ||
                      workspace::same_identity(m.identity.root, m.identity.boot_id, root);
    if (!here) {
      continue;
    }
    if (lease.attempt_id.rfind(exec_prefix, 0) == 0) {
      HR_TRY(holds, command_holds(home, lease.attempt_id));
      if (holds) {
        return lease.attempt_id;
      }
      continue;
    }
    HR_TRY(stands, attempt_stands(home.fd(), lease.attempt_id));
    if (stands) {
      return lease.attempt_id;
    }
  }
  return std::string();
}

workspace::CleanupGround cleanup_ground(const Tools& tools) {
  workspace::CleanupGround ground{tools.manifests, tools.git, {}, nullptr, nullptr};
  ground.open.trust_foreign_owner = ::geteuid() == 0;  // what root made for an owner it trusted then
  const store::StateHome* home = &tools.home;
  ground.stands = [home](const std::string& attempt) { return attempt_stands(home->fd(), attempt); };
  ground.live_run = [home](const workspace::WorktreeManifest& m) { return live_in(*home, m); };
  return ground;
}

std::string state_of(const Tools& tools, const workspace::WorktreeManifest& m) {
  if (m.gone()) {
    return "removed";
  }
  if (m.creation != "ready") {
    return m.creation == "failed" ? "failed" : "making";
  }
  if (m.cleanup == "removing" || m.cleanup == "failed") {
    return "removing";
  }
  auto stands = workspace::standing(m);
  if (stands.has_error() || stands.value() == workspace::Standing::foreign) {
    return "mismatch";
  }
  if (stands.value() == workspace::Standing::absent) {
    return "missing";
  }
  const std::string& owner = m.lease.owner_attempt_id;
  if (!owner.empty() && m.lease.expires_at > iso8601(unix_millis_now())) {
    auto holds = attempt_stands(tools.home.fd(), owner);
    if (holds.has_error() || holds.value()) {
      return "leased";
    }
  }
  return "idle";
}

}  // namespace

Result<workspace::WorktreeManifest> create_managed(CreateRequest request) {
  HR_TRY(tools, tools_for(request.dirs, store::Access::write));
  workspace::CreateWorktree& what = request.what;
  const Installation& installation = tools.ground.installation;
  what.open.trust_foreign_owner = request.trust_owner;
  what.keep_apart = {tools.ground.state_path, installation.config_dir, installation.program_dir};
  for (const auto* dirs : {&installation.plugin_dirs, &installation.profile_dirs}) {
    what.keep_apart.insert(what.keep_apart.end(), dirs->begin(), dirs->end());
  }
  std::erase(what.keep_apart, "");
  what.open.keep_apart = what.keep_apart;
  what.actor = actor_text();
  return workspace::create_worktree(tools.home.fd(), what, tools.git);
}

Result<std::vector<Listed>> list_managed(const ExtraDirs& dirs, bool with_removed) {
  std::vector<Listed> out;
  auto opened = tools_for(dirs, store::Access::read);
  if (opened.has_error()) {
    return opened.error().code == "state-directory-absent" ? Result<std::vector<Listed>>(std::move(out))
                                                           : opened.error();
  }
  const Tools tools = std::move(opened).value();
  HR_TRY(manifests, tools.manifests.all(
                        [&](const std::string& id, const Error& error) {
                          Listed damaged;
                          damaged.manifest.id = id;
                          damaged.state = "damaged";
                          damaged.error = error;
                          out.push_back(std::move(damaged));
                        },
                        with_removed));
  for (workspace::WorktreeManifest& manifest : manifests) {
    Listed listed;
    listed.state = state_of(tools, manifest);
    listed.size = workspace::size_on_disk(manifest);
    listed.manifest = std::move(manifest);
    out.push_back(std::move(listed));
  }
  return out;
}

Result<workspace::Removal> remove_managed(const ExtraDirs& dirs, const std::string& name,
                                          const std::string& force_reason) {
  HR_TRY(tools, tools_for(dirs, store::Access::write));
  HR_TRY(manifest, tools.manifests.find(name));
  workspace::RemoveOptions options;
  options.force_reason = force_reason;
  options.actor = actor_text();
  return workspace::remove_worktree(cleanup_ground(tools), manifest.id, options);
}

Result<std::vector<workspace::Pruned>> prune_managed(const ExtraDirs& dirs, bool dry_run) {
  auto opened = tools_for(dirs, dry_run ? store::Access::read : store::Access::write);
  if (opened.has_error()) {
    return opened.error().code == "state-directory-absent"
               ? Result<std::vector<workspace::Pruned>>(std::vector<workspace::Pruned>{})
               : opened.error();
  }
  const Tools tools = std::move(opened).value();
  workspace::RemoveOptions options;
  options.actor = actor_text();
  return workspace::prune_worktrees(cleanup_ground(tools), dry_run, options);
}

}  // namespace hitchrail::launch
