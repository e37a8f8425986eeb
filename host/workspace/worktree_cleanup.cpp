#include "workspace/worktree_cleanup.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <set>

#include "core/ids.hpp"
#include "core/text.hpp"
#include "pathfs/raw.hpp"
#include "pathfs/walk.hpp"
#include "workspace/git_call.hpp"
#include "workspace/refs.hpp"
#include "workspace/status.hpp"
#include "workspace/worktree_create.hpp"
#include "workspace/worktree_parts.hpp"

namespace hitchrail::workspace {
namespace {

constexpr std::size_t kMaxHeadLog = 4u << 20;

std::string now_text() {
  return iso8601(unix_millis_now());
}

std::string counted(std::size_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

// ---- what git says of a worktree that is there
class Inspection {
 public:
  Inspection(const CleanupGround& ground, const WorktreeManifest& manifest, std::vector<CleanupReason>& out)
      : ground_(ground), m_(manifest), out_(out) {}

  void run() {
    auto opened = open_worktree(m_.path, ground_.open);
    if (opened.has_error()) {
      add("inspection-failed", opened.error().code + ": " + opened.error().detail);
      return;
    }
    const Worktree worktree = std::move(opened).value();
    const Status same = same_worktree(m_, worktree);
    if (same.has_error() && same.error().code == "worktree-manifest-mismatch") {
      add("manifest-mismatch", same.error().detail);
      return;
    }
    const Status branch = on_its_branch(m_, worktree);
    if (branch.has_error()) {
      add(branch.error().code == "worktree-branch-mismatch" ? "branch-mismatch" : "inspection-failed",
          branch.error().detail);
    }
    for (const Status& done : {files(worktree), flagged(worktree), unfinished(worktree), commits(worktree),
                               left_behind(worktree)}) {
      if (done.has_error()) {
        add("inspection-failed", done.error().code + ": " + done.error().detail);
        return;  // what git cannot read for one question it cannot read for the next
      }
    }
  }

 private:
  void add(const std::string& code, const std::string& detail) { out_.push_back({code, detail}); }

  GitCall call(const Worktree& worktree, std::vector<std::string> args) const {
    GitCall call = git_call(worktree.git_dir, worktree.root);
    call.readable = worktree.object_stores;
    call.readable.push_back(worktree.git_dir);
    call.readable.push_back(worktree.common_dir);
    call.args = std::move(args);
    return call;
  }

  Status files(const Worktree& worktree) {
    HR_TRY(output, git_output(ground_.git, call(worktree, status_arguments())));
    HR_TRY(status, parse_status(output));
    const auto untracked = static_cast<std::size_t>(
        std::count_if(status.files.begin(), status.files.end(),
                      [](const FileState& file) { return file.status == "untracked"; }));
    if (status.files.size() > untracked) {
      add("dirty", counted(status.files.size() - untracked, "changed file"));
    }
    if (untracked != 0) {
      add("untracked", counted(untracked, "untracked file"));
    }
    return {};
  }

  // What the index tells git not to look at may well have been edited.
  Status flagged(const Worktree& worktree) {
    HR_TRY(output, git_output(ground_.git, call(worktree, {"ls-files", "-v", "-z"})));
    std::size_t flagged = 0;
    for (std::size_t at = 0; at < output.size();) {
      const char flag = output[at];
      flagged += (flag >= 'a' && flag <= 'z') || flag == 'S' ? 1U : 0U;
      const std::size_t end = output.find('\0', at);
      at = end == std::string::npos ? output.size() : end + 1;
    }
    if (flagged != 0) {
      add("dirty", counted(flagged, "file") + " that git was told not to look at");
    }
    return {};
  }

  // A merge, rebase, cherry-pick or bisection that was begun here.
  Status unfinished(const Worktree& worktree) {
    for (const char* name : {"MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG", "rebase-merge",
                             "rebase-apply", "sequencer"}) {
      HR_TRY(there, pathfs::identify_at(worktree.git_fd->get(), name));
      if (there.type != pathfs::FileType::absent) {
        add("dirty", std::string("something is not finished: ") + name);
      }
    }
    return {};
  }

  // Commits that only the worktree's own log of HEAD still names; it goes with the worktree.
  Status left_behind(const Worktree& worktree) {
    auto log = read_metadata(worktree.git_fd->get(), "logs/HEAD", kMaxHeadLog);
    if (log.has_error()) {
      return pathfs::is(log.error(), pathfs::Code::not_found) ? Status{} : Status(log.error());
    }
    HR_TRY(refs, read_refs(worktree.common_fd->get(), worktree.object_format));
    std::set<std::string> named;
    for (std::size_t at = 0; at < log.value().size();) {
      const std::size_t end = std::min(log.value().find('\n', at), log.value().size());
      const std::size_t first = log.value().find(' ', at);
      const std::size_t second = first == std::string::npos ? first : log.value().find(' ', first + 1);
      if (second != std::string::npos && second < end) {
        const std::string oid = log.value().substr(first + 1, second - first - 1);
        if (oid.find_first_not_of('0') != std::string::npos && valid_oid(oid, worktree.object_format)) {
          named.insert(oid);
        }
      }
      at = end + 1;
    }
    HR_TRY(head, read_head(worktree));
    std::string revisions = "^" + m_.base.commit + "\n";
    revisions += head.oid.empty() ? "" : "^" + head.oid + "\n";
    for (const auto& [name, oid] : refs.oids) {
      revisions += "^" + oid + "\n";
    }
    for (const std::string& oid : named) {
      revisions += oid + "\n";
    }
    HR_TRY(lost, named.empty() ? Result<std::size_t>(0) : count(worktree, revisions));
    if (lost != 0) {
      add("unmerged", counted(lost, "commit") + " that only this worktree's log of HEAD names");
    }
    return {};
  }

  Result<std::size_t> count(const Worktree& worktree, const std::string& revisions) const {
    GitCall counting = call(worktree, {"rev-list", "--count", "--stdin"});
    counting.input = revisions;
    HR_TRY(output, git_output(ground_.git, counting));
    return static_cast<std::size_t>(std::strtoull(output.c_str(), nullptr, 10));
  }

  // Commits since the base that nobody else has: not a remote, not the branch it came from.
  Status commits(const Worktree& worktree) {
    HR_TRY(head, read_head(worktree));
    if (head.oid.empty() || head.oid == m_.base.commit) {
      return {};
    }
    HR_TRY(refs, read_refs(worktree.common_fd->get(), worktree.object_format));
    std::string remotes;
    std::string bases;
    for (const auto& [name, oid] : refs.oids) {
      const bool remote = name.starts_with("refs/remotes/");
      remotes += remote ? "^" + oid + "\n" : "";
      const bool base =
          m_.base.branch.empty()
              ? name.starts_with("refs/heads/") && name != "refs/heads/" + m_.branch
              : name == "refs/heads/" + m_.base.branch || name == "refs/remotes/origin/" + m_.base.branch;
      bases += base ? "^" + oid + "\n" : "";
    }
    const std::string own = head.oid + "\n^" + m_.base.commit + "\n";
    if (!remotes.empty()) {
      HR_TRY(unpushed, count(worktree, own + remotes));
      if (unpushed != 0) {
        add("unpushed", counted(unpushed, "commit") + " that no remote-tracking branch has");
      }
    }
    HR_TRY(unmerged, count(worktree, own + bases));
    if (unmerged != 0) {
      add("unmerged", counted(unmerged, "commit") + " that " +
                          (m_.base.branch.empty() ? std::string("no other branch")
                                                  : "the branch " + m_.base.branch + " has not and") +
                          " only this worktree's branch has");
    }
    return {};
  }

  const CleanupGround& ground_;
  const WorktreeManifest& m_;
  std::vector<CleanupReason>& out_;
};

// A creation or removal that somebody works on holds its lock; the reasons are for complete ones.
Status inspect_tree(const CleanupGround& ground, const WorktreeManifest& m, std::vector<CleanupReason>& out) {
  HR_TRY(stands, standing(m));
  if (stands == Standing::foreign) {
    out.push_back(
        {"manifest-mismatch", "another directory stands at " + m.path + " than the one that was made"});
    return {};
  }
  auto common = open_common(m);
  if (common.has_error()) {
    const bool absent = pathfs::is(common.error(), pathfs::Code::not_found);
    out.push_back({absent ? "inspection-failed" : "manifest-mismatch",
                   absent ? "its repository is not there any more" : common.error().detail});
    return {};
  }
  HR_TRY(git, registered(m, common.value()));
  if (git == Registered::foreign || (git == Registered::absent && stands == Standing::ours)) {
    out.push_back(
        {"manifest-mismatch", git == Registered::foreign
                                  ? "git registered another worktree, or another path, under its name"
                                  : "git does not know this worktree any more"});
    return {};
  }
  if (git == Registered::ours) {
    HR_TRY(hold, held_by_operator(m));
    if (!hold.empty()) {
      out.push_back({"external-hold", "git worktree lock: " + hold});
    }
  }
  if (stands == Standing::absent) {
    out.push_back({"worktree-missing", "there is nothing at " + m.path});
    return {};
  }
  Inspection(ground, m, out).run();
  return {};
}

void record_failure(const CleanupGround& ground, const WorktreeLock& lock, WorktreeManifest& m,
                    const std::string& state, const std::string& code, const std::string& message) {
  m.cleanup = state;
  m.last_error = WorktreeManifest::LastError{"cleanup", code, escape_cut(message, 1900), now_text(), true};
  (void)ground.manifests.write(lock, m);
}

// From `removing` on; each part that is gone already is passed over.
Status carry_out(const CleanupGround& ground, const WorktreeLock& lock, WorktreeManifest& m,
                 const RemoveOptions& options, bool files, bool& branch_kept) {
  const auto step = [&](const char* name) {
    if (options.after) {
      options.after(name);
    }
  };
  step("removing");
  if (files) {
    HR_CHECK(remove_files(m));
  }
  step("files");
  HR_CHECK(remove_registration(m));
  step("registration");
  if (m.branch_made) {
    HR_TRY(removed, remove_branch(m, ground.git));
    branch_kept = !removed;
  } else {
    branch_kept = true;
  }
  step("branch");
  HR_CHECK(ground.manifests.remove_scratch(m.id));
  m.cleanup = "removed";
  m.removed_at = now_text();
  m.lease.owner_attempt_id.clear();
  m.lease.expires_at = std::min(m.lease.expires_at, m.removed_at);
  m.last_error.reset();
  HR_CHECK(ground.manifests.write(lock, m));
  step("removed");
  return {};
}

Status start_removal(const CleanupGround& ground, const WorktreeLock& lock, WorktreeManifest& m,
                     const RemoveOptions& options, bool files, bool& branch_kept) {
  m.cleanup = "removing";
  HR_CHECK(ground.manifests.write(lock, m));
  const Status done = carry_out(ground, lock, m, options, files, branch_kept);
  if (done.has_error()) {
    record_failure(ground, lock, m, "failed", done.error().code, done.error().detail);
  }
  return done;
}

}  // namespace

bool may_override(const std::string& reason) {
  return reason != "active-run" && reason != "manifest-mismatch";
}

Result<std::vector<CleanupReason>> inspect_cleanup(const CleanupGround& ground, const WorktreeManifest& m) {
  std::vector<CleanupReason> out;
  HR_TRY(live, ground.live_run(m));
  if (!live.empty()) {
    out.push_back({"active-run", live + " is live in it"});
  }
  const std::string& owner = m.lease.owner_attempt_id;
  if (!owner.empty() && m.lease.expires_at > now_text()) {
    HR_TRY(stands, ground.stands(owner));
    if (stands) {
      out.push_back({"active-lease", owner + " owns it until " + m.lease.expires_at});
    }
  }
  HR_CHECK(inspect_tree(ground, m, out));
  return out;
}

Result<Removal> remove_worktree(const CleanupGround& ground, const std::string& id,
                                const RemoveOptions& options) {
  HR_TRY(lock, ground.manifests.lock(id));
  HR_TRY(m, ground.manifests.read(id));
  Removal removal;
  removal.id = id;
  if (m.gone()) {
    return removal;
  }
  if (m.creation != "ready") {  // nobody works on it: its lock was free
    HR_CHECK(abandon_worktree(ground.manifests, lock, m, ground.git));
    return removal;
  }
  if (m.cleanup == "removing" || m.cleanup == "failed") {  // judged then; the way back is gone
    HR_TRY(live, ground.live_run(m));
    if (live.empty()) {
      HR_CHECK(start_removal(ground, lock, m, options, true, removal.branch_kept));
      return removal;
    }
  }
  HR_TRY(reasons, inspect_cleanup(ground, m));
  for (CleanupReason& reason : reasons) {
    const bool over = !options.force_reason.empty() && may_override(reason.code);
    (over ? removal.bypassed : removal.reasons).push_back(std::move(reason));
  }
  if (!removal.reasons.empty()) {
    removal.bypassed.clear();
    record_failure(ground, lock, m, "blocked", removal.reasons.front().code, removal.reasons.front().detail);
    return removal;
  }
  if (!removal.bypassed.empty()) {
    WorktreeManifest::Override record{options.force_reason, options.actor, now_text(), {}};
    for (const CleanupReason& reason : removal.bypassed) {
      record.bypassed.push_back(reason.code);
    }
    m.overrides.push_back(std::move(record));
  }
  HR_CHECK(start_removal(ground, lock, m, options, true, removal.branch_kept));
  return removal;
}

namespace {

// What prune would do with it; "" = nothing.
Result<std::string> prunable(const CleanupGround& ground, const WorktreeManifest& m) {
  if (m.creation != "ready") {
    return std::string("interrupted-creation");
  }
  if (m.cleanup == "removing" || m.cleanup == "failed") {
    return std::string("interrupted-removal");
  }
  HR_TRY(stands, standing(m));
  if (stands != Standing::absent) {
    return std::string();
  }
  HR_TRY(reasons, inspect_cleanup(ground, m));
  const bool only_missing = std::all_of(reasons.begin(), reasons.end(), [](const CleanupReason& reason) {
    return reason.code == "worktree-missing" || reason.code == "inspection-failed";
  });
  return std::string(only_missing ? "worktree-missing" : "");
}

Status prune_one(const CleanupGround& ground, const WorktreeManifest& seen, const RemoveOptions& options) {
  HR_TRY(lock, ground.manifests.lock(seen.id));
  HR_TRY(m, ground.manifests.read(seen.id));
  if (m.gone()) {
    return {};
  }
  if (m.creation != "ready") {
    return abandon_worktree(ground.manifests, lock, m, ground.git);
  }
  // One that is missing may come back while we look: its files were never judged, and stay.
  const bool files = m.cleanup == "removing" || m.cleanup == "failed";
  bool kept = false;
  return start_removal(ground, lock, m, options, files, kept);
}

}  // namespace

Result<std::vector<Pruned>> prune_worktrees(const CleanupGround& ground, bool dry_run,
                                            const RemoveOptions& options) {
  std::vector<Pruned> out;
  HR_TRY(manifests, ground.manifests.all([&](const std::string& id, const Error& error) {
    out.push_back({id, "", "worktree-manifest-damaged", error});
  }));
  for (const WorktreeManifest& m : manifests) {
    auto what = prunable(ground, m);
    if (what.has_error()) {
      out.push_back({m.id, m.path, "inspection-failed", what.error()});
      continue;
    }
    if (what.value().empty()) {
      continue;
    }
    // Whoever works on it holds its lock: then it is nobody's leftover.
    if (ground.manifests.lock(m.id).has_error()) {
      continue;
    }
    Pruned pruned{m.id, m.path, what.value(), std::nullopt};
    if (!dry_run) {
      const Status done = prune_one(ground, m, options);
      if (done.has_error()) {
        pruned.error = done.error();
      }
    }
    out.push_back(std::move(pruned));
  }
  return out;
}

Size size_on_disk(const WorktreeManifest& manifest, std::size_t max_entries) {
  Size size;
  auto stands = standing(manifest);
  auto parent = open_parent_of(manifest.path);
  if (stands.has_error() || stands.value() != Standing::ours || parent.has_error()) {
    return size;
  }
  const int above = parent.value().directory.fd.get();
  pathfs::raw::Stat top;
  if (!pathfs::raw::look(above, parent.value().name.c_str(), top)) {
    return size;
  }
  size.bytes = top.allocated;
  std::set<std::uint64_t> several;
  pathfs::WalkLimits limits;
  limits.depth = 1024;
  limits.directories = limits.entries = max_entries;
  auto walked = pathfs::walk(above, parent.value().name, limits, [&](const pathfs::Visit& visit) {
    pathfs::raw::Stat info;
    if (!pathfs::raw::look(visit.directory, visit.name.c_str(), info)) {
      return pathfs::Next::go_on;  // it went meanwhile
    }
    if (info.device != top.device) {
      return pathfs::Next::skip;
    }
    ++size.entries;
    if (S_ISDIR(info.mode) || info.links < 2 || several.insert(info.inode).second) {
      size.bytes += info.allocated;
    }
    return pathfs::Next::go_on;
  });
  size.complete = walked.has_value() && walked.value().unreadable == 0;
  return size;
}

}  // namespace hitchrail::workspace
