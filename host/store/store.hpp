#pragma once
// The database of decisions and projections (SQLite, hitchrail.db in the state home). Nothing in it is needed
// to recover a journal: losing it loses enabled plugins and the list's speed, never evidence.
//
// Promises: each call is one transaction (WAL, full sync, busy timeout 5 s); a decision changes only from the
// value its maker saw (compare-and-set). Refuses: a database that is a link or foreign (store-unsafe), or
// newer than this build (store-newer). Other codes: store-busy, store-full, store-io, store-damaged,
// store-read-only, store-failed, store-conflict. Not yet: approvals, budgets.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "store/state_home.hpp"

namespace hitchrail::store {

struct PluginPin {
  std::string provider_id;
  std::string path;    // where it was enabled from
  std::string digest;  // "sha256:…" of the file; a file with another digest is not loaded
  bool enabled = true;
  std::int64_t changed_unix_ms = 0;
};

struct DirectoryIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  bool operator==(const DirectoryIdentity&) const = default;
};

// Admission: one live run per worktree, by identity of its root and of its own git directory (a linked
// worktree has its own, so two of them run side by side), and no run inside or around another one's root.
struct WorktreeLease {
  std::string attempt_id;
  std::string canonical_path;  // realpath of the root
  DirectoryIdentity root;
  DirectoryIdentity git_dir;
  std::int64_t acquired_unix_ms = 0;
};

// Projection of an attempt, for lists and lookups; the attempt directory is the truth.
struct AttemptRow {
  std::string attempt_id;
  std::string task_id;
  std::string provider;
  std::string agent;
  std::string worktree;
  std::string state;  // starting, completed, failed, interrupted
  std::string code;
  std::int64_t created_unix_ms = 0;
  std::int64_t finished_unix_ms = 0;  // 0 = not yet
};

// A sandbox preset of an operator, as it was when it was recorded; built-ins are here only when disabled.
struct PresetRecord {
  std::string id;
  std::string path;
  std::string digest;  // sha256:… of its canonical form; a file with another digest is not used
  std::string enforcement;
  bool enabled = true;
  std::int64_t changed_unix_ms = 0;
  bool operator==(const PresetRecord&) const = default;
};
// Who did what with a preset. Never changed, never removed.
struct PresetDecision {
  std::string preset_id;
  std::string digest;
  std::string enforcement;
  std::string action;  // added, changed, enabled, disabled, selected
  std::uint32_t uid = 0;
  std::string user;  // name of that uid, "" when it has none
  std::int64_t at_unix_ms = 0;
  std::string run;  // selected: the attempt, or "exec"
};

// Projection of a worktree-manifest/v1, for lookups; the file in worktrees/ is the truth.
struct ManagedWorktree {
  std::string id;
  std::int64_t revision = 0;
  std::string path;
  std::string branch;
  std::string repository;     // common git directory
  std::string owner_attempt;  // of the lease, "" = none
  std::string creation, cleanup;
  std::string digest;
  bool operator==(const ManagedWorktree&) const = default;
};

// Who let a repository be read by a harness, or not (workspace/trust_decision.hpp). Never changed, never
// removed.
struct TrustRecord {
  std::string id;
  std::string identity;   // digest
  std::string inventory;  // digest, "" = whatever the inventory
  std::string mode;       // trusted, restricted, denied, revoked
  std::string agent;      // "" = every agent
  std::uint32_t uid = 0;
  std::string user;
  std::string reason;
  std::int64_t at_unix_ms = 0;
  std::int64_t expires_unix_ms = 0;  // 0 = never
  std::string supersedes;            // id, "" = none; set by add_trust_decision()
  std::string workspace;             // path, any bytes
};
// All of them; the last 100 places are kept for `denied` and `revoked`, so that trust can always be
// withdrawn.
inline constexpr std::size_t max_trust_decisions = 10'000;
inline constexpr std::size_t kept_trust_decisions = 100;

class Store {
 public:
  // Access::read makes and changes nothing: without a database it gives an empty one that is not kept.
  static Result<Store> open(int state_dirfd, Access access = Access::write);
  static Result<Store> open(const StateHome& home, Access access = Access::write) {
    return open(home.fd(), access);
  }
  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  Result<std::vector<PluginPin>> plugin_pins();
  Result<std::optional<PluginPin>> plugin_pin(const std::string& provider_id);
  // Writes the pin when the stored one still has `expected_digest` (nullopt: when there is none); error
  // store-conflict.
  Status set_plugin_pin(const PluginPin& pin, const std::optional<std::string>& expected_digest);
  Status remove_plugin_pin(const std::string& provider_id);

  Result<std::vector<PresetRecord>> presets();
  Result<std::optional<PresetRecord>> preset(const std::string& id);
  // Record and decision in one transaction, when the stored record is still `seen`; error store-conflict.
  Status set_preset(const PresetRecord& record, const std::optional<PresetRecord>& seen,
                    const PresetDecision& decision);
  Status add_preset_decision(const PresetDecision& decision);
  Result<std::vector<PresetDecision>> preset_decisions(const std::string& id);  // oldest first

  // Names the decision it supersedes: the newest of the same identity and agent. Code trust-decision-limit.
  Result<TrustRecord> add_trust_decision(TrustRecord record);
  Result<std::vector<TrustRecord>> trust_decisions(const std::string& identity);  // newest first

  // Lease and attempt row in one transaction. Errors, class refused, Error::object = the holding attempt's
  // id: worktree-busy (same root), worktree-git-dir-busy, worktree-overlap. The caller asks that attempt's
  // state, recovers or releases it when it is over, and tries again.
  Status begin_attempt(const WorktreeLease& lease, const AttemptRow& row);
  Status claim_worktree(const WorktreeLease& lease);
  Result<std::vector<WorktreeLease>> leases();
  // Idempotent; only the named attempt's lease.
  Status release_worktree(const std::string& attempt_id);
  // Terminal state and lease release in one transaction; idempotent. Makes the row when it is missing.
  Status finish_attempt(const AttemptRow& row);
  Status remove_attempt(
      const std::string& attempt_id);          // row and lease of an attempt that never got a directory
  Result<std::vector<AttemptRow>> attempts();  // newest first

  // Kept when its revision is newer than what is there.
  Status project_worktree(const ManagedWorktree& row);
  Result<std::vector<ManagedWorktree>> managed_worktrees();

 private:
  struct State;
  explicit Store(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace hitchrail::store
