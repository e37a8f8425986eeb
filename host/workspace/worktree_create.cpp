#include "workspace/worktree_create.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "core/file.hpp"
#include "core/ids.hpp"
#include "core/text.hpp"
#include "pathfs/edit.hpp"
#include "workspace/git_call.hpp"
#include "workspace/refs.hpp"
#include "workspace/worktree_base.hpp"
#include "workspace/worktree_parts.hpp"

namespace hitchrail::workspace {
namespace {

constexpr std::size_t kMaxIndex = 1u << 30;
constexpr std::size_t kMaxReason = 1000;
constexpr std::size_t kMaxBranch = 500;
constexpr std::chrono::milliseconds kCheckoutTime{600'000};
constexpr int kPlannerWait = 30'000;

Error refusal(ErrorClass kind, const char* code, const std::string& object, std::string detail,
              std::string remedy) {
  return Error{kind, code, "create worktree", object, std::move(detail), std::move(remedy)};
}

std::string now_text() {
  return iso8601(unix_millis_now());
}

bool printable_reason(const std::string& reason) {
  return reason.size() <= kMaxReason && is_valid_utf8(reason) && reason.find('\x7f') == std::string::npos &&
         reason.find('\0') == std::string::npos && reason.find_first_not_of(" \t\r\n") != std::string::npos;
}

// One component that git accepts below worktrees/, and nobody else has: its end is the id's.
std::string registration_name(const std::string& path, const std::string& id) {
  std::string out;
  for (const char c : path.substr(path.rfind('/') + 1).substr(0, 60)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    out += plain ? c : '-';
  }
  return out + "-" + id.substr(9, 8);
}

class Creator {
 public:
  Creator(int state, const CreateWorktree& what, const GitRunner& git)
      : state_(state), what_(what), git_(git) {}

  Result<WorktreeManifest> run() {
    Status looked = look();
    if (looked.has_error()) {
      HR_TRY(taken_back, take_back_half_made(looked.error().code));
      if (taken_back) {
        looked = look();
      }
    }
    HR_CHECK(looked);
    HR_TRY(manifests, WorktreeManifests::open(state_, store::Access::write));
    manifests_ = std::move(manifests);
    HR_CHECK(plan());
    step(CreateStep::planned);
    const Status made = make();
    if (made.has_value()) {
      return std::move(manifest_);
    }
    Error error = made.error();
    manifest_.last_error =
        WorktreeManifest::LastError{"create", error.code, escape_cut(error.detail, 1900), now_text(), true};
    if (manifest_.base.fetch_error.empty() && error.code == "base-fetch-failed") {
      manifest_.base.fetch_error = escape_cut(error.detail, 1900);
    }
    // What cannot be taken back now is still described by the manifest, and `worktrees prune` finds it.
    (void)abandon_worktree(manifests_, lock_, manifest_, git_);
    error.detail += " (" + manifest_.id + ")";
    return error;
  }

 private:
  void step(CreateStep now) const {
    if (what_.after) {
      what_.after(now);
    }
  }

  // ---- nothing is written before all of this is known
  Status look() {
    HR_CHECK(check_options());
    HR_TRY(source, open_worktree(what_.repository, what_.open));
    source_ = std::move(source);
    HR_TRY(config, repository_config(source_));
    config_ = std::move(config);
    HR_TRY(base, resolve_base(source_, config_, what_.base, git_));
    base_ = std::move(base);
    if (!base_.remote.empty() && !what_.fetch && !what_.accept_stale) {
      return refusal(ErrorClass::refused, "base-stale", base_.branch,
                     "it has a counterpart at the remote \"" + base_.remote +
                         "\", and what is here may be older than that",
                     "--fetch, or answer for it: --accept-stale-base REASON");
    }
    manifest_.id = random_id("worktree_", 18);
    HR_CHECK(name_branch());
    HR_CHECK(place());
    describe();
    return {};
  }

  Status check_options() const {
    if (what_.accept_stale && !printable_reason(what_.stale_reason)) {
      return refusal(ErrorClass::usage, "base-stale-reason", "--accept-stale-base",
                     "a reason is needed, of at most 1000 bytes of text", "say why what is here will do");
    }
    if (what_.lease_s < min_lease_s || what_.lease_s > max_lease_s) {
      return refusal(ErrorClass::usage, "lease-bounds", "--lease",
                     "a lease lasts from 60 seconds to 365 days (31536000)", "leave it out for 30 days");
    }
    return {};
  }

  Status name_branch() {
    manifest_.branch = what_.branch.empty() ? "hitchrail/" + manifest_.id.substr(9, 8) : what_.branch;
    const std::string ref = "refs/heads/" + manifest_.branch;
    if (!valid_ref(ref) || manifest_.branch.front() == '-' || manifest_.branch.size() > kMaxBranch ||
        manifest_.branch == "HEAD") {
      return refusal(ErrorClass::usage, "branch-invalid", manifest_.branch, "git would not take this name",
                     "git check-ref-format --branch NAME");
    }
    HR_TRY(there, read_ref(source_.common_fd->get(), ref, source_.object_format));
    return there.empty() ? Status{}
                         : Status(refusal(ErrorClass::refused, "branch-exists", manifest_.branch,
                                          "the repository has this branch", "another name: --branch NAME"));
  }

  Status place() {
    std::string path = what_.path;
    if (path.empty()) {
      std::string suffix = manifest_.branch;
      std::replace(suffix.begin(), suffix.end(), '/', '-');
      path = source_.root + "-" + suffix;
    }
    while (path.size() > 1 && path.back() == '/') {
      path.pop_back();
    }
    if (path.find('/') == std::string::npos) {
      path.insert(0, "./");
    }
    auto parent = open_parent_of(path);
    if (parent.has_error()) {
      return refusal(ErrorClass::usage, "worktree-path-invalid", path,
                     "the directory it is to lie in cannot be opened: " + parent.error().detail,
                     "make it first, or name another path");
    }
    parent_ = std::move(parent).value();
    const std::string& base = parent_.directory.path;
    manifest_.path = (base == "/" ? "" : base) + "/" + parent_.name;
    const auto unusable = [](const std::string& text) {
      return text.find('\n') != std::string::npos || text.find('\r') != std::string::npos;
    };
    if (parent_.name.empty() || parent_.name == "." || parent_.name == ".." || unusable(manifest_.path) ||
        unusable(source_.common_dir) || manifest_.path.size() > 3800) {
      return refusal(ErrorClass::usage, "worktree-path-invalid", manifest_.path,
                     "git keeps such a path on one line of a file, and it needs a name of its own",
                     "name another path");
    }
    HR_CHECK(check_place());
    HR_TRY(there, pathfs::identify_at(parent_.directory.fd.get(), parent_.name));
    return there.type == pathfs::FileType::absent
               ? Status{}
               : Status(refusal(ErrorClass::refused, "worktree-path-exists", manifest_.path,
                                "something stands there", "name a path that does not exist"));
  }

  Status check_place() {
    const int parent = parent_.directory.fd.get();
    for (const auto& [identity, path] :
         {std::pair{source_.root_id, source_.root}, std::pair{source_.common_dir_id, source_.common_dir}}) {
      HR_TRY(within, pathfs::lies_within(parent, identity));
      if (within) {
        return refusal(ErrorClass::refused, "worktree-path-inside", manifest_.path,
                       "it would lie in " + path + ", and a run in one would see the other",
                       "name a path beside the repository");
      }
    }
    for (const std::string& apart : what_.keep_apart) {
      auto other = pathfs::resolve_directory(apart);
      if (other.has_error()) {
        continue;  // not there: nothing can lie in it
      }
      HR_TRY(within, pathfs::lies_within(parent, other.value().identity));
      if (within) {
        return refusal(ErrorClass::refused, "worktree-overlaps-state", manifest_.path,
                       "it would lie in " + apart + ", which no run may reach", "name another path");
      }
    }
    return {};
  }

  void describe() {
    const std::string now = now_text();
    manifest_.repository.root_path = source_.root;
    manifest_.repository.common_git_dir = source_.common_dir;
    manifest_.repository.name = source_.root.substr(source_.root.rfind('/') + 1);
    manifest_.identity.boot_id = boot_id();
    manifest_.identity.common_git_dir = source_.common_dir_id.text();
    manifest_.registration = registration_name(manifest_.path, manifest_.id);
    manifest_.base.branch = base_.branch;
    manifest_.base.commit = base_.commit;
    manifest_.base.resolved_at = now;
    manifest_.base.source = base_.remote.empty() ? "local" : "local-stale";
    if (!base_.remote.empty() && what_.accept_stale) {
      manifest_.base.stale_base = WorktreeManifest::Acknowledgement{what_.stale_reason, now, what_.actor};
    }
    manifest_.lease.id = random_id("lease_", 18);
    manifest_.lease.duration_s = what_.lease_s;
    manifest_.lease.acquired_at = now;
    manifest_.lease.expires_at = iso8601(unix_millis_now() + what_.lease_s * 1000);
    manifest_.created_at = now;
  }

  // A maker that was killed may have left the very branch or path that stands in the way.
  Result<bool> take_back_half_made(const std::string& code) {
    if (code != "branch-exists" && code != "worktree-path-exists") {
      return false;
    }
    auto manifests = WorktreeManifests::open(state_, store::Access::read);
    if (manifests.has_error()) {
      return false;  // nothing was ever made
    }
    HR_TRY(others, manifests.value().all([](const std::string&, const Error&) {}));
    const auto in_the_way = [&](const WorktreeManifest& other) {
      return other.repository.common_git_dir == source_.common_dir && other.creation != "ready" &&
             other.removed_at.empty() && (other.branch == manifest_.branch || other.path == manifest_.path);
    };
    if (std::none_of(others.begin(), others.end(), in_the_way)) {
      return false;
    }
    HR_TRY(writable, WorktreeManifests::open(state_, store::Access::write));
    HR_TRY(planning, writable.lock_all(kPlannerWait));
    HR_TRY(again, writable.all([](const std::string&, const Error&) {}));
    for (WorktreeManifest& other : again) {
      if (in_the_way(other)) {
        HR_CHECK(abandon(writable, other));
      }
    }
    return true;
  }

  Status abandon(WorktreeManifests& manifests, WorktreeManifest& other) {
    auto held = manifests.lock(other.id);
    if (held.has_error()) {
      return refusal(ErrorClass::refused, "worktree-being-made", other.id,
                     "another hitchrail is making " + other.path + " right now", "wait for it");
    }
    return abandon_worktree(manifests, held.value(), other, git_);
  }

  // One maker a path: what a dead one left is taken back, a living one is waited for by nobody.
  Status plan() {
    HR_TRY(fingerprint, origin_fingerprint(source_));
    manifest_.repository.origin_fingerprint = fingerprint;
    HR_TRY(planning, manifests_.lock_all(kPlannerWait));
    HR_TRY(others, manifests_.all([](const std::string&, const Error&) {}));
    for (WorktreeManifest& other : others) {
      const bool same_branch = other.repository.common_git_dir == manifest_.repository.common_git_dir &&
                               other.branch == manifest_.branch;
      if (other.path != manifest_.path && !(same_branch && other.creation != "ready")) {
        continue;
      }
      if (other.creation == "ready") {
        HR_TRY(there, pathfs::identify_at(parent_.directory.fd.get(), parent_.name));
        if (there.type != pathfs::FileType::absent) {  // another maker was faster
          return refusal(ErrorClass::refused, "worktree-path-exists", manifest_.path,
                         "something stands there", "name a path that does not exist");
        }
        return refusal(ErrorClass::refused, "worktree-path-taken", other.id,
                       "Hitchrail made a worktree at " + other.path + ", which is not there any more",
                       "hitchrail worktrees prune");
      }
      HR_CHECK(abandon(manifests_, other));
    }
    HR_TRY(lock, manifests_.lock(manifest_.id));
    lock_ = std::move(lock);
    return manifests_.write(lock_, manifest_);
  }

  // ---- each step is written down before it is taken
  Status make() {
    HR_TRY(scratch, manifests_.make_scratch(manifest_.id));
    scratch_ = std::move(scratch);
    HR_TRY(path, manifests_.scratch_path(manifest_.id));
    scratch_path_ = std::move(path);
    HR_CHECK(ask_remote());
    step(CreateStep::fetched);
    HR_CHECK(make_aside());
    step(CreateStep::creating);
    HR_CHECK(check_out());
    step(CreateStep::checked_out);
    HR_CHECK(make_branch(manifest_, source_, git_));
    step(CreateStep::branch);
    HR_CHECK(register_it());
    step(CreateStep::registered);
    HR_CHECK(pathfs::rename_beneath(parent_.directory.fd.get(), aside_name(manifest_.id), parent_.name));
    step(CreateStep::renamed);
    HR_CHECK(finish());
    step(CreateStep::ready);
    (void)manifests_.remove_scratch(manifest_.id);
    return {};
  }

  Status ask_remote() {
    if (!what_.fetch) {
      return {};
    }
    auto fetched = fetch_base(source_, config_, base_, scratch_.get(), scratch_path_, git_);
    if (fetched.has_value()) {
      manifest_.base.commit = fetched.value();
      manifest_.base.source = "remote";
      manifest_.base.fetched_at = manifest_.base.resolved_at = now_text();
      manifest_.base.stale_base.reset();
      return manifests_.write(lock_, manifest_);
    }
    manifest_.base.fetch_error = escape_cut(fetched.error().code + ": " + fetched.error().detail, 1900);
    // Recorded whether somebody answers for it or not.
    HR_CHECK(manifests_.write(lock_, manifest_));
    return what_.accept_stale && !base_.remote.empty() ? Status{} : Status(fetched.error());
  }

  Status make_aside() {
    pathfs::DirectoryOptions options;
    if (::geteuid() == 0 && source_.root_id.uid != 0) {
      options.owner = pathfs::Owner{source_.root_id.uid, source_.root_id.gid};
    }
    const std::string aside = aside_name(manifest_.id);
    HR_TRY(made, pathfs::make_directory_beneath(parent_.directory.fd.get(), aside, options));
    aside_ = std::move(made);
    step(CreateStep::aside);
    HR_TRY(identity, pathfs::identify(aside_.get()));
    manifest_.identity.root = identity.text();
    manifest_.creation = "creating";
    manifest_.branch_made = true;  // from here on it may be ours
    return manifests_.write(lock_, manifest_);
  }

  // The repository is only read, and by a git directory of ours: a configuration that names no filter.
  Status check_out() {
    HR_TRY(made, prepare_private_git(source_, scratch_.get(), scratch_path_));
    (void)made;
    pathfs::DirectoryOptions options;
    options.mode = 0700;
    if (::geteuid() == 0 && source_.root_id.uid != 0) {
      options.owner = pathfs::Owner{source_.root_id.uid, source_.root_id.gid};
    }
    HR_TRY(out, pathfs::make_directory_beneath(scratch_.get(), "out", options));
    const std::string target = parent_.directory.path + "/" + aside_name(manifest_.id);
    GitCall call = git_call(scratch_path_ + "/git-base", source_.root);
    for (auto& [name, value] : call.env) {
      if (name == "GIT_WORK_TREE") {
        value = target;
      }
    }
    call.env.emplace_back("GIT_INDEX_FILE", scratch_path_ + "/out/index");
    call.args = {"-c",
                 "core.sparseCheckout=false",
                 "-c",
                 "index.sparse=false",
                 "read-tree",
                 "--reset",
                 "-u",
                 "--no-recurse-submodules",
                 manifest_.base.commit};
    call.readable = source_.object_stores;
    call.readable.push_back(scratch_path_ + "/git-base");
    call.writable = {target, scratch_path_ + "/out"};
    call.timeout = kCheckoutTime;
    HR_TRY(done, git_output(git_, call));
    (void)done;
    HR_TRY(index, read_metadata(out.get(), "index", kMaxIndex));
    index_ = std::move(index);
    return {};
  }

  Status register_it() {
    // A tree cannot hold an entry `.git`, and what was checked out followed no filter: it is absent.
    pathfs::WriteOptions options;
    options.replace = false;
    if (::geteuid() == 0 && source_.root_id.uid != 0) {
      options.owner = pathfs::Owner{source_.root_id.uid, source_.root_id.gid};
    }
    const Registration registration{"ref: refs/heads/" + manifest_.branch, index_};
    HR_CHECK(write_registration(manifest_, source_, registration));
    HR_TRY(pointer,
           pathfs::write_beneath(
               aside_.get(), ".git",
               "gitdir: " + source_.common_dir + "/worktrees/" + manifest_.registration + "\n", options));
    (void)pointer;
    return {};
  }

  // git's own way to it, walked again: both pointers, the branch, the commit.
  Status finish() {
    HR_CHECK(pathfs::remove_file_beneath(source_.common_fd->get(),
                                         "worktrees/" + manifest_.registration + "/locked"));
    HR_TRY(made, open_worktree(manifest_.path, what_.open));
    HR_TRY(head, read_head(made));
    if (made.root_id.text() != manifest_.identity.root || head.oid != manifest_.base.commit ||
        head.ref != "refs/heads/" + manifest_.branch) {
      return refusal(ErrorClass::environment, "worktree-changed", manifest_.path,
                     "somebody changed it while it was made", "try again");
    }
    manifest_.identity.git_dir = made.git_dir_id.text();
    manifest_.creation = "ready";
    return manifests_.write(lock_, manifest_);
  }

  int state_;
  const CreateWorktree& what_;
  const GitRunner& git_;
  Worktree source_;
  GitConfig config_;
  LocalBase base_;
  Parent parent_;
  WorktreeManifests manifests_;
  WorktreeLock lock_;
  WorktreeManifest manifest_;
  Fd scratch_, aside_;
  std::string scratch_path_, index_;
};

}  // namespace

Result<WorktreeManifest> create_worktree(int state_dirfd, const CreateWorktree& what, const GitRunner& git) {
  return Creator(state_dirfd, what, git).run();
}

Status abandon_worktree(const WorktreeManifests& manifests, const WorktreeLock& lock,
                        WorktreeManifest& manifest, const GitRunner& git) {
  const auto take_back = [&]() -> Status {
    HR_CHECK(remove_files(manifest));
    HR_CHECK(remove_registration(manifest));
    HR_TRY(branch, remove_branch(manifest, git));
    manifest.branch_made = !branch && manifest.branch_made;
    return manifests.remove_scratch(manifest.id);
  };
  const Status taken = take_back();
  manifest.creation = "failed";
  if (!manifest.last_error) {
    manifest.last_error =
        WorktreeManifest::LastError{"create", "creation-interrupted",
                                    "whoever made it was gone before it was complete", now_text(), true};
  }
  manifest.cleanup = taken.has_value() ? "removed" : "failed";
  manifest.removed_at = taken.has_value() ? now_text() : "";
  HR_CHECK(manifests.write(lock, manifest));
  return taken;
}

}  // namespace hitchrail::workspace
