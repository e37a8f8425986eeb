#pragma once
// The operator's worktree: which one it is, what state it is in, the private git directory of a run, and the
// import of its commits.
//
// Promises: a repository is hostile input. It is looked at by descriptors, no link is followed in its
// metadata, nothing blocks on a FIFO, everything is bounded; the git program runs only through a GitRunner,
// i.e. inside a boundary. Files of the worktree are never touched. The real git directory is changed by
// import_commits alone. Refuses, each with its code and remedy: worktree-missing, worktree-not-a-directory,
// worktree-unreadable, worktree-symlink, worktree-too-wide, worktree-overlaps-state,
// worktree-not-a-repository, worktree-bare, worktree-foreign-owner, worktree-metadata-unsafe (a link, FIFO or
// device in the git directory), worktree-gitdir-foreign (a .git file whose git directory does not point
// back), worktree-core-worktree, worktree-alternates-foreign, worktree-unsupported, worktree-unsafe-entry.
// Worktrees of Hitchrail's own making, with their manifests and owners: worktree_manifest.hpp. Does not do
// yet: fetching a base, checkpoints.

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/fd.hpp"
#include "core/json.hpp"
#include "core/result.hpp"
#include "pathfs/pathfs.hpp"
#include "workspace/git_runner.hpp"

namespace hitchrail::workspace {

struct OpenOptions {
  bool trust_foreign_owner = false;  // the operator says so
  bool trust_alternates = false;     // object stores outside the repository may be read by the run
  // Directories and files that the root may neither contain nor lie in: state, configuration, plugins,
  // profiles, credential files.
  std::vector<std::string> keep_apart;
  // After a run: what git would wait on is its business, the caller hides it (GitCall::hidden).
  bool allow_blocking = false;
};

enum class WorktreeKind { plain, linked, submodule };

// Where HEAD points. An unborn branch has a ref and no oid, a detached HEAD an oid and no ref.
struct Head {
  std::string ref;  // "refs/heads/main"
  std::string oid;
  bool operator==(const Head&) const = default;
};

struct Worktree {
  std::string root;          // canonical path of the top level
  std::string subdirectory;  // where the given path lies below the root; "" = the root itself
  WorktreeKind kind = WorktreeKind::plain;
  std::string git_dir;     // this worktree's own git directory
  std::string common_dir;  // equals git_dir unless linked
  pathfs::Identity root_id, git_dir_id, common_dir_id;
  std::string object_format;               // "sha1" or "sha256"
  std::vector<std::string> object_stores;  // the common directory's objects, then its alternates
  std::map<std::string, std::string>
      config;  // harmless keys of the repository's own configuration, lower case
  std::shared_ptr<const Fd> root_fd, git_fd, common_fd;  // kept open: what was checked is what is used

  // Device and inode of the root and of its own git directory: the key of the lease.
  [[nodiscard]] std::string identity() const { return root_id.text() + "/" + git_dir_id.text(); }
};

// `path`: the worktree or a directory inside it; the result is its top level. Runs no program, changes
// nothing.
Result<Worktree> open_worktree(const std::string& path, const OpenOptions& options = {});
// HEAD now, by descriptors.
Result<Head> read_head(const Worktree& worktree);

// ---- baseline

struct FileState {
  std::string path;           // any bytes; ends in "/" for a repository of its own that is not tracked
  std::string status;         // added, modified, deleted, type-changed, renamed, untracked, conflicted
  std::string previous_path;  // renamed only
  std::string index_blob;     // "" when the index has none; "ours" of a conflict
  std::string worktree_mode;  // "100644", "100755", "120000", "160000"; "" when missing or of no such kind
  // Hex; of the link text for a link; "" when missing, not a file, or over the bound.
  std::string worktree_sha256;
  // Which inode, how large, changed when (the kernel's time, which no run sets back): tells that a file over
  // the hash bound was left alone. "" when it could still have changed in the same tick.
  std::string stamp;
  bool operator==(const FileState& other) const;  // everything but the stamp
};

// Commits that other refs reach and HEAD does not: history that no run can have made. Commands that give the
// digest: `git rev-list --all --not HEAD | LC_ALL=C sort -u | sha256sum`.
struct Preexisting {
  bool known = true;  // false: too many for the bounds of one git call; evidence asks the refs of the launch
  std::uint64_t count = 0;
  std::string digest;                // "sha256:" + hex
  std::vector<std::string> commits;  // sorted, unique; empty above max_listed_commits
  bool operator==(const Preexisting&) const = default;
};
inline constexpr std::size_t max_listed_commits = 4096;
inline constexpr std::size_t max_listed_files = 1000;  // in the envelope; above, its count and digest

class Stillness;  // of what was looked at, for baseline_still(); sweep.hpp

struct Baseline {
  std::int64_t captured_at_ms = 0;
  Head head;
  std::string branch;  // short name, "" when detached
  bool dirty = false;
  std::vector<FileState> files;  // all of them, sorted by path
  Preexisting preexisting;
  std::shared_ptr<const Stillness> still;  // not in any document
};

struct BaselineLimits {
  std::uint64_t max_hash_bytes = 256ull << 20;  // of all files together
  std::size_t max_status_bytes = 64u << 20;     // what git may print about changed files
  std::size_t max_commit_bytes = 64u << 20;     // and about commits of other refs
  std::chrono::milliseconds timeout{10'000};
  std::function<void(int attempt)> between_looks;  // for tests: something else works in the worktree
};

// Three attempts at a state that does not move while it is read. Codes: baseline-unstable, git-timeout,
// git-failed, git-output (more changed files than max_status_bytes can name).
Result<Baseline> capture_baseline(const Worktree& worktree, const GitRunner& git,
                                  const BaselineLimits& limits = {});
// Is all as it was captured? Cheap where nothing moved: no git, one look at each known file and directory.
// Where something did, git is asked whether it makes a difference. Code baseline-changed, and those of a
// capture.
Status baseline_still(const Worktree& worktree, const Baseline& baseline, const GitRunner& git);
// The envelope's member workspace.baseline {capturedAt, headSha|null, ref?, dirty, files[{path, status,
// previousPath?, indexBlobHash?, worktreeMode?, worktreeSha256?}], fileCount, filesDigest,
// preexistingCommits{count|null, digest|null}, preexistingCommitShas?[]}; paths by path_value(). Above
// max_listed_files `files` is empty: filesDigest is over the list in baseline_document().
json::Value baseline_json(const Baseline& baseline);
// The attempt's launch-baseline/v1: the whole list of files with their stamps, sealed.
Result<json::Value> baseline_document(const Baseline& baseline);
inline constexpr const char* baseline_document_name = "launch-baseline.json";

// ---- the run-private git directory

struct PrivateGitOptions {
  std::optional<Head> expected_head;  // of the baseline; worktree-changed when HEAD has moved since
  // Where the run sees the common directory's objects (boundary::Inside::objects); "" = at their own path.
  // Alternates of that store are seen at their own paths always.
  std::string objects_inside;
};

struct PrivateGit {
  std::string directory;              // ATTEMPT/git: to be seen in the place of Worktree::git_dir, writable
  std::string objects;                // the common directory's objects: read-only
  std::vector<std::string> readable;  // further object stores, read-only at their own paths
  // The identity that the repository's own configuration gives, "" when it has none.
  std::string user_name, user_email;
};

// Makes `git/` (the run's) and `git-base/` (the state at launch, never granted) in the attempt directory,
// owned by the worktree's owner when root asks. Runs no program. Codes: worktree-changed,
// worktree-metadata-unsafe, worktree-too-large, and errno names of the attempt directory.
Result<PrivateGit> prepare_private_git(const Worktree& worktree, int attempt_dirfd,
                                       const std::string& attempt_path,
                                       const PrivateGitOptions& options = {});

// ---- after the run

enum class CommitPolicy { forbidden, allowed, required };
std::string_view to_string(CommitPolicy policy);
std::optional<CommitPolicy> commit_policy(std::string_view text);

struct RefReport {
  std::string ref;  // "HEAD" for a detached head, "index" for the index
  std::string from, to;
  std::string reason;  // not imported: diverged, branch-moved, branch-switched, forbidden, other-ref,
                       // index-conflict, index-locked, index-unreadable, ref-locked, objects-invalid,
                       // boundary-unproven, private-damaged, gitlink-added, protected-name-committed
};

struct ImportReport {
  std::vector<RefReport> imported;
  std::vector<RefReport> not_imported;
  // Something was not imported: do not delete git/. `git-kept/` of the attempt directory can then be fetched
  // from.
  bool keep_private = false;
  // Outside the run HEAD, or the branch it names, was moved: something was not imported for that reason.
  std::optional<Head> moved_head;
  [[nodiscard]] json::Value to_json() const;
};

// Policy allowed or required: fast-forward of the branch that was checked out at launch, and its index. Only
// objects (checked by git fsck rules) and ids are taken from the private directory. Killed at any step and
// called again, it comes to the same end. `worktree` is opened again by the caller: worktree-changed when it
// is another one than at launch.
Result<ImportReport> import_commits(const Worktree& worktree, int attempt_dirfd,
                                    const std::string& attempt_path, CommitPolicy policy,
                                    const GitRunner& git);

struct Commit {
  std::string oid;
  std::string subject;  // at most 500 code points
};
struct ChangedFile {
  std::string path, status, previous_path;
  bool verified = true;  // false: the state at launch is not known well enough (over a bound)
};
struct Evidence {
  Head head;  // of the private directory
  // Unchanged, or the same branch descending from the head at launch by commits that are all new.
  bool head_attributable = false;
  std::string why_not;                     // branch-switched, diverged, preexisting-history, private-damaged
  std::vector<Commit> commits;             // all, newest first; empty unless attributable
  std::vector<ChangedFile> changed;        // all, sorted by path
  std::vector<std::string> changed_paths;  // of all changed files, sorted
  std::int64_t last_change_ms = 0;  // the newest change of a changed file or of the directory it lay in
};

// What the run left behind, compared with `baseline`, against the launch's own index and configuration:
// nothing the run wrote into its private directory is believed but object ids.
Result<Evidence> collect_evidence(const Worktree& worktree, const Baseline& baseline, int attempt_dirfd,
                                  const std::string& attempt_path, const GitRunner& git);
// Is this file one that the run changed, or made where git does not look: born after the launch, at a path
// that was neither tracked nor changed then? "" for a path that names nothing is false.
Result<bool> made_by_run(const Worktree& worktree, const Baseline& baseline, const Evidence& evidence,
                         int attempt_dirfd, const std::string& path);
// Evidence::last_change_ms now, for what is already known to have changed: later than before means that
// something still works in the worktree.
std::int64_t last_change(const Worktree& worktree, const Evidence& evidence);

// Every path that one of `evidence.commits` changed, also one that a later commit put back. Sorted.
Result<std::vector<std::string>> committed_paths(const Worktree& worktree, const Evidence& evidence,
                                                 const std::string& attempt_path, const GitRunner& git);
// Commits that a ref, HEAD or HEAD's log of the private directory names or reaches and that the launch did
// not have. Of what no name leads to nothing is said.
Result<std::size_t> commits_created(const Worktree& worktree, int attempt_dirfd,
                                    const std::string& attempt_path, const GitRunner& git);

// The scopes that an envelope allows for one kind of side effect, as paths below the worktree's root; "" is
// the root. Compared by whole components, bytes, the text alone.
struct Scopes {
  std::vector<std::string> paths;
  [[nodiscard]] bool whole() const;
  [[nodiscard]] bool allow(std::string_view path) const;
};
// Of `allowedSideEffects`; what does not lie below `root` allows nothing, what holds it allows all.
Scopes allowed_scopes(const json::Value& effects, std::string_view kind, std::string_view root);

// Members of completion-result/v1: the first max_told_* of them.
inline constexpr std::size_t max_told_files = 2000;
inline constexpr std::size_t max_told_commits = 256;
json::Value changed_files_json(const Evidence& evidence, std::size_t limit = max_told_files);
json::Value commits_json(const Evidence& evidence, std::size_t limit = max_told_commits);  // [{oid, subject}]
// `committed`: what committed_paths() gives; needed where `commits` does not allow the whole worktree.
json::Value side_effects_json(const Evidence& evidence, const Scopes& writes, const Scopes& commits,
                              const std::vector<std::string>& committed = {});
// From the envelope's member and, where the attempt has one, the text of its launch-baseline/v1 (""
// otherwise). Codes baseline-invalid, digest-mismatch.
Result<Baseline> baseline_from_json(const json::Value& value, const std::string& document = {});

}  // namespace hitchrail::workspace
