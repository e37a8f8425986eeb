#pragma once
// worktree-manifest/v1: a worktree that Hitchrail made, who owns it, and what became of it. One document per
// worktree, `worktrees/ID.json` of the state home (0600); the database holds a projection for lookups.
//
// Promises: a document is read back strictly (schema, digest, bounds, no unknown member) or refused; it
// changes only from the revision its writer saw, under the lock of that worktree, which its holder's death
// gives back. Identities are device and inode; a device number is compared only within one boot, an inode
// always. Refuses: worktree-manifest-damaged, worktree-manifest-conflict, worktree-not-found,
// worktree-ambiguous, worktree-locked; worktree-manifest-mismatch, worktree-branch-mismatch,
// worktree-not-ready, worktree-leased and lease-not-owner for a claim or release. Does not do yet: rebase and
// integration (their states stay `idle`), adoption of worktrees that somebody else made.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/fd.hpp"
#include "core/json.hpp"
#include "core/result.hpp"
#include "store/state_home.hpp"
#include "workspace/workspace.hpp"

namespace hitchrail::workspace {

inline constexpr std::int64_t default_lease_s = 30LL * 86'400;
inline constexpr std::int64_t min_lease_s = 60;
inline constexpr std::int64_t max_lease_s = 365LL * 86'400;

// Times are texts of core/ids.hpp's iso8601(): fixed width, so that comparing texts compares times.
struct WorktreeManifest {
  std::string id;  // "worktree_" and 18 of [A-Za-z0-9]
  std::int64_t revision = 0;
  std::string task_id;  // of the last claim, "" before the first
  struct Repository {
    std::string name, root_path, common_git_dir;
    std::string
        origin_fingerprint;  // sha256 of the origin's URL without credentials; of "" without an origin
    bool operator==(const Repository&) const = default;
  } repository;
  struct Identity {  // "device:inode", "" before it was made
    std::string boot_id, root, git_dir, common_git_dir;
    bool operator==(const Identity&) const = default;
  } identity;
  std::string path, branch;
  std::string registration;  // name below worktrees/ of the common git directory
  bool branch_made = false;  // by us, for this worktree
  struct Acknowledgement {
    std::string reason, acknowledged_at, actor;
    bool operator==(const Acknowledgement&) const = default;
  };
  struct Base {
    std::string branch;  // "" for a commit that was named by its id
    std::string commit;  // "" until it is resolved
    std::string source;  // remote, local, local-stale, legacy-adopted
    std::string resolved_at, fetched_at, fetch_error;
    std::optional<Acknowledgement> stale_base;
    bool operator==(const Base&) const = default;
  } base;
  struct Lease {
    std::string id, owner_task_id, owner_attempt_id, acquired_at, expires_at;
    std::int64_t duration_s = default_lease_s;  // of each claim
    bool operator==(const Lease&) const = default;
  } lease;
  std::string creation = "planned";        // planned, creating, ready, failed
  std::string integration_state = "idle";  // preparing, merging, pushing, integrated, failed
  std::string cleanup = "active";          // active, blocked, removing, removed, failed
  struct Rebase {
    std::string state = "idle";  // rebasing, failed
    std::string target_base, started_at, completed_at;
    bool operator==(const Rebase&) const = default;
  } rebase;
  struct Integration {
    std::string worktree_path, base_commit, integration_head, target_commit, started_at, completed_at;
    bool operator==(const Integration&) const = default;
  } integration;
  std::string created_at, updated_at, removed_at;
  struct LastError {
    std::string operation;  // create, task-update, rebase, integration-*, cleanup
    std::string code, message, at;
    bool recoverable = false;
    bool operator==(const LastError&) const = default;
  };
  std::optional<LastError> last_error;
  struct Override {
    std::string reason, actor, recorded_at;
    std::vector<std::string> bypassed;
    bool operator==(const Override&) const = default;
  };
  std::vector<Override> overrides;  // at most 100, newest last

  [[nodiscard]] bool gone() const { return cleanup == "removed"; }
};

// Sealed. Code worktree-manifest-damaged with the member when a bound is broken.
Result<json::Value> worktree_manifest_json(const WorktreeManifest& manifest);
Result<WorktreeManifest> parse_worktree_manifest(const json::Value& document);

// Who works on a worktree: a creator, a remover, a claim. Dies with its holder.
class WorktreeLock {
 public:
  WorktreeLock() = default;
  explicit WorktreeLock(Fd fd) : fd_(std::move(fd)) {}
  [[nodiscard]] bool held() const { return fd_.valid(); }

 private:
  Fd fd_;
};

class WorktreeManifests {
 public:
  // Access::read makes nothing: no folder is as good as an empty one.
  static Result<WorktreeManifests> open(int state_dirfd, store::Access access);
  [[nodiscard]] Result<std::vector<std::string>> ids() const;
  [[nodiscard]] Result<WorktreeManifest> read(const std::string& id) const;
  // By id, unique prefix of one (with or without "worktree_"), or path; removed ones only by their id.
  [[nodiscard]] Result<WorktreeManifest> find(const std::string& name) const;
  // Those that are not removed, by id; a damaged one is passed to `damaged`, or is the error without it.
  [[nodiscard]] Result<std::vector<WorktreeManifest>> all(
      const std::function<void(const std::string& id, const Error&)>& damaged = nullptr,
      bool with_removed = false) const;
  // The one that says it is this worktree: by path, by registration, or by identity.
  [[nodiscard]] Result<std::optional<WorktreeManifest>> of(const Worktree& worktree) const;

  // Error worktree-locked when another process holds it beyond `wait_ms`.
  [[nodiscard]] Result<WorktreeLock> lock(const std::string& id, int wait_ms = 0) const;
  [[nodiscard]] Result<WorktreeLock> lock_all(int wait_ms) const;  // who plans a new one
  // Revision and time go on; code worktree-manifest-conflict when the stored revision is not manifest's.
  Status write(const WorktreeLock& lock, WorktreeManifest& manifest) const;

  // A directory of its own for the time something is made, below worktrees/; absolute path for git.
  [[nodiscard]] Result<Fd> make_scratch(const std::string& id) const;
  Status remove_scratch(const std::string& id) const;
  [[nodiscard]] Result<std::string> scratch_path(const std::string& id) const;

 private:
  Fd state_, folder_;  // folder_ invalid: there is none
};

// ---- whose it is

// sha256:… of the first URL of the remote `origin`, credentials taken out.
Result<std::string> origin_fingerprint(const Worktree& worktree);
std::string without_credentials(const std::string& url);
// Is this the very worktree that the manifest means? Codes worktree-not-ready, worktree-manifest-mismatch.
Status same_worktree(const WorktreeManifest& manifest, const Worktree& worktree);
// And is it on its branch? Code worktree-branch-mismatch.
Status on_its_branch(const WorktreeManifest& manifest, const Worktree& worktree);
// Device and inode again; a device only within the boot it was seen in.
bool same_identity(const std::string& recorded, const std::string& recorded_boot, const std::string& now);

// Whether that attempt still stands in the way: false when it is over or was never there.
using OwnerStands = std::function<Result<bool>(const std::string& attempt_id)>;
// What a claim would refuse, without claiming. `attempt` may be "" (none yet).
Status claimable(const WorktreeManifest& manifest, const Worktree& worktree, const std::string& attempt,
                 const OwnerStands& stands);
struct Claim {
  std::string manifest_id, task_id, attempt_id;
};
Result<WorktreeManifest> claim_worktree(int state_dirfd, const Claim& claim, const Worktree& worktree,
                                        const OwnerStands& stands);
// By the owner; a second time it is success. lease-not-owner when another attempt owns it by now.
Status release_worktree(int state_dirfd, const std::string& manifest_id, const std::string& attempt_id);

// The members that an envelope and a launch manifest take over: see launch::WorktreeStage::manifest.
json::Value manifest_reference(const WorktreeManifest& manifest);

}  // namespace hitchrail::workspace
