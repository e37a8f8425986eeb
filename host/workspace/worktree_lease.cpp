// Whose a managed worktree is: the checks of a claim, the claim and the release, each under the worktree's
// lock.

#include "core/canonical.hpp"
#include "core/ids.hpp"
#include "core/text.hpp"
#include "workspace/git_config.hpp"
#include "workspace/refs.hpp"
#include "workspace/worktree_manifest.hpp"

namespace hitchrail::workspace {
namespace {

constexpr std::size_t kMaxConfig = 1u << 20;
constexpr int kLockWait = 10'000;

Error mismatch(const WorktreeManifest& manifest, const std::string& detail) {
  return Error{ErrorClass::refused,
               "worktree-manifest-mismatch",
               "claim worktree",
               manifest.id,
               detail,
               "look at it: git -C " + escape_visible(manifest.repository.root_path) + " worktree list"};
}

// Is this what the manifest's owner left behind, and may another one have it?
Result<bool> owned_by_another(const WorktreeManifest& manifest, const std::string& attempt,
                              const OwnerStands& stands) {
  const WorktreeManifest::Lease& lease = manifest.lease;
  if (lease.owner_attempt_id.empty() || lease.owner_attempt_id == attempt ||
      lease.expires_at <= iso8601(unix_millis_now())) {
    return false;
  }
  return stands(lease.owner_attempt_id);
}

}  // namespace

std::string without_credentials(const std::string& url) {
  const std::size_t scheme = url.find("://");
  const std::size_t begin = scheme == std::string::npos ? 0 : scheme + 3;
  const std::size_t end = std::min(url.find('/', begin), url.size());
  const std::size_t at = url.substr(begin, end - begin).rfind('@');
  std::string out = url;
  if (at != std::string::npos) {
    out.erase(begin, at + 1);
  }
  if (scheme != std::string::npos) {
    out.resize(std::min(out.find_first_of("?#"), out.size()));  // keys travel there too
  }
  return out;
}

Result<std::string> origin_fingerprint(const Worktree& worktree) {
  HR_TRY(text, read_metadata(worktree.common_fd->get(), "config", kMaxConfig));
  HR_TRY(config, GitConfig::parse(text, worktree.common_dir + "/config"));
  for (const auto& [key, value] : config.entries()) {
    if (key == "remote.origin.url") {  // git fetches from the first
      return sha256_prefixed(without_credentials(value));
    }
  }
  return sha256_prefixed("");
}

bool same_identity(const std::string& recorded, const std::string& recorded_boot, const std::string& now) {
  const std::size_t mine = recorded.find(':');
  const std::size_t theirs = now.find(':');
  if (mine == std::string::npos || theirs == std::string::npos) {
    return false;
  }
  return recorded_boot == boot_id() ? recorded == now : recorded.substr(mine) == now.substr(theirs);
}

Status same_worktree(const WorktreeManifest& m, const Worktree& worktree) {
  if (m.creation != "ready" || m.cleanup == "removing" || m.cleanup == "removed") {
    return Error{ErrorClass::refused,
                 "worktree-not-ready",
                 "claim worktree",
                 m.id,
                 m.creation != "ready" ? "its creation is " + m.creation : "its removal is " + m.cleanup,
                 "hitchrail worktrees prune"};
  }
  if (worktree.kind != WorktreeKind::linked || worktree.common_dir != m.repository.common_git_dir ||
      !same_identity(m.identity.common_git_dir, m.identity.boot_id, worktree.common_dir_id.text())) {
    return mismatch(
        m, "it does not belong to the repository " + m.repository.common_git_dir + " that it was made for");
  }
  if (worktree.root != m.path) {
    return mismatch(m, "it was moved from " + m.path + " to " + worktree.root);
  }
  if (!same_identity(m.identity.root, m.identity.boot_id, worktree.root_id.text())) {
    return mismatch(m, "another directory stands at " + m.path + " than the one that was made");
  }
  if (worktree.git_dir.substr(worktree.git_dir.rfind('/') + 1) != m.registration ||
      !same_identity(m.identity.git_dir, m.identity.boot_id, worktree.git_dir_id.text())) {
    return mismatch(m, "git knows another worktree at this path than the one that was made");
  }
  HR_TRY(origin, origin_fingerprint(worktree));
  if (origin != m.repository.origin_fingerprint) {
    return mismatch(m, "the repository's origin is another one than when the worktree was made");
  }
  return {};
}

Status on_its_branch(const WorktreeManifest& m, const Worktree& worktree) {
  HR_TRY(head, read_head(worktree));
  if (head.ref == "refs/heads/" + m.branch) {
    return {};
  }
  return Error{ErrorClass::refused,
               "worktree-branch-mismatch",
               "claim worktree",
               m.id,
               head.ref.empty() ? "its HEAD is detached, and it was made for the branch " + m.branch
                                : "it is on " + head.ref + ", and it was made for the branch " + m.branch,
               "git -C " + escape_visible(m.path) + " switch " + escape_visible(m.branch)};
}

Status claimable(const WorktreeManifest& m, const Worktree& worktree, const std::string& attempt,
                 const OwnerStands& stands) {
  HR_CHECK(same_worktree(m, worktree));
  HR_CHECK(on_its_branch(m, worktree));
  HR_TRY(owned, owned_by_another(m, attempt, stands));
  if (owned) {
    return Error{ErrorClass::refused,
                 "worktree-leased",
                 "claim worktree",
                 m.lease.owner_attempt_id,
                 "the attempt owns the worktree " + m.path + " until " + m.lease.expires_at,
                 "wait for it, or: hitchrail runs stop " + m.lease.owner_attempt_id};
  }
  return {};
}

Result<WorktreeManifest> claim_worktree(int state_dirfd, const Claim& claim, const Worktree& worktree,
                                        const OwnerStands& stands) {
  HR_TRY(manifests, WorktreeManifests::open(state_dirfd, store::Access::write));
  HR_TRY(lock, manifests.lock(claim.manifest_id, kLockWait));
  HR_TRY(manifest, manifests.read(claim.manifest_id));
  HR_CHECK(claimable(manifest, worktree, claim.attempt_id, stands));
  const std::int64_t now = unix_millis_now();
  manifest.task_id = claim.task_id;
  manifest.lease.owner_task_id = claim.task_id;
  manifest.lease.owner_attempt_id = claim.attempt_id;
  manifest.lease.acquired_at = iso8601(now);
  manifest.lease.expires_at = iso8601(now + manifest.lease.duration_s * 1000);
  HR_CHECK(manifests.write(lock, manifest));
  return manifest;
}

Status release_worktree(int state_dirfd, const std::string& manifest_id, const std::string& attempt_id) {
  HR_TRY(manifests, WorktreeManifests::open(state_dirfd, store::Access::read));
  HR_TRY(lock, manifests.lock(manifest_id, kLockWait));
  HR_TRY(manifest, manifests.read(manifest_id));
  if (manifest.lease.owner_attempt_id.empty()) {
    return {};
  }
  if (manifest.lease.owner_attempt_id != attempt_id) {
    return Error{ErrorClass::refused,
                 "lease-not-owner",
                 "release worktree",
                 manifest.lease.owner_attempt_id,
                 "this attempt owns " + manifest_id + " by now",
                 ""};
  }
  manifest.lease.owner_attempt_id.clear();
  manifest.lease.expires_at = iso8601(unix_millis_now());
  return manifests.write(lock, manifest);
}

}  // namespace hitchrail::workspace
