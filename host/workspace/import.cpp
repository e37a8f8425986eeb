#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <set>
#include <thread>

#include "core/canonical.hpp"
#include "core/file.hpp"
#include "pathfs/edit.hpp"
#include "workspace/git_call.hpp"
#include "workspace/index_entries.hpp"
#include "workspace/kept.hpp"
#include "workspace/launch_state.hpp"
#include "workspace/ref_locks.hpp"
#include "workspace/refs.hpp"
#include "workspace/run_objects.hpp"
#include "workspace/workspace.hpp"

namespace hitchrail::workspace {
namespace {

constexpr std::size_t kMaxIndexFile = 1u << 30;
constexpr std::size_t kMaxListing = 512u << 20;
constexpr std::size_t kMaxOtherRefs = 64;
constexpr int kInstallAttempts = 3;
constexpr std::chrono::milliseconds kLockWait{2'000};

// In any case of letters: a file system that does not tell them apart writes the same file. `.git` and what
// file systems take for it is refused by git's own checks (objects-invalid) and by parse_index().
bool is_protected(std::string_view name) {
  constexpr std::array<std::string_view, 4> names{".agents", ".codex", ".claude", ".hitchrail"};
  return std::any_of(names.begin(), names.end(), [&](std::string_view each) {
    return std::equal(each.begin(), each.end(), name.begin(), name.end(),
                      [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? b - 'A' + 'a' : b); });
  });
}

Error in_git_dir(Error error, const std::string& directory, const char* name) {
  error.object = directory + "/" + name;
  return error;
}

// One import. Members are what was found out so far; the order of the steps is the order of run().
class Import {
 public:
  Import(const Worktree& worktree, int attempt_dirfd, const std::string& attempt_path, CommitPolicy policy,
         const GitRunner& git)
      : worktree_(worktree),
        attempt_(attempt_dirfd),
        objects_(worktree, attempt_path, git),
        git_(git),
        policy_(policy),
        attempt_path_(attempt_path),
        scratch_("hitchrail.index." + sha256_hex(attempt_path).substr(0, 16)) {}

  Result<ImportReport> run() {
    Status done = steps();
    if (done.has_error()) {
      if (done.error().code != "import-unproven") {
        return std::move(done).error();
      }
      refuse_all("boundary-unproven");  // this machine's backend cannot hold a configuration while git writes
    }
    HR_CHECK(clear_scratch());
    HR_CHECK(clear_stale_ref_locks(worktree_, attempt_, branch_));
    unmark_ref_update(attempt_);
    report_.keep_private = !report_.not_imported.empty();
    if (report_.keep_private && !damaged_) {
      HR_CHECK(keep_refs(worktree_, attempt_, attempt_path_, refs_, head_));
    } else {
      HR_CHECK(drop_kept(attempt_));  // of an earlier attempt at this import
    }
    return std::move(report_);
  }

 private:
  Status steps() {
    HR_CHECK(read_states());
    HR_CHECK(clear_scratch());
    HR_CHECK(clear_stale_ref_locks(worktree_, attempt_, branch_));
    if (damaged_) {
      return {};
    }
    report_other_refs();
    HR_CHECK(read_indexes());
    if (!wants_branch() && !wants_index_) {
      return {};
    }
    if (policy_ == CommitPolicy::forbidden) {
      refuse_all("forbidden");
      return {};
    }
    HR_TRY(fit, branch_fits());
    if (!fit) {
      return {};
    }
    HR_TRY(plain, without_new_gitlinks());
    if (!plain) {
      refuse_all("gitlink-added");
      return {};
    }
    HR_TRY(unprotected, without_protected_names());
    if (!unprotected) {
      refuse_all("protected-name-committed");
      return {};
    }
    HR_TRY(planned, plan_index());
    if (!planned) {
      return {};
    }
    HR_TRY(objects, bring_objects());
    if (!objects) {
      return {};
    }
    HR_TRY(moved, move_branch());
    return moved && wants_index_ ? install_index() : Status{};
  }

  // ---- what is there ----
  Status read_states() {
    HR_TRY(base, pathfs::open_directory_beneath(attempt_, "git-base"));
    HR_CHECK(check_launch_state(base.get(), worktree_));
    HR_TRY(launch, read_head(base.get(), base.get(), worktree_.object_format));
    launch_ = std::move(launch);
    HR_TRY(launch_refs, read_refs(base.get(), worktree_.object_format));
    launch_refs_ = std::move(launch_refs);
    base_ = std::move(base);
    HR_TRY(own, pathfs::open_directory_beneath(attempt_, "git"));
    private_ = std::move(own);
    // The run wrote these: what cannot be read is reported, not an error of ours.
    auto head = read_head(private_.get(), private_.get(), worktree_.object_format);
    auto refs = read_refs(private_.get(), worktree_.object_format);
    if (head.has_error() || refs.has_error() || RunObjects::check_layout(private_.get()).has_error()) {
      refuse("HEAD", launch_.oid, "", "private-damaged");
      damaged_ = true;
      return {};
    }
    head_ = std::move(head).value();
    refs_ = std::move(refs).value();
    branch_ = launch_.ref.empty() ? "HEAD" : launch_.ref;
    if (!launch_.ref.empty()) {
      const auto found = refs_.oids.find(launch_.ref);
      wanted_ = found == refs_.oids.end() ? std::string() : found->second;
    } else if (head_.ref.empty()) {
      wanted_ = head_.oid;
    } else {
      wanted_ = launch_.oid;
    }
    return {};
  }

  [[nodiscard]] bool wants_branch() const { return !wanted_.empty() && wanted_ != launch_.oid; }

  void report_other_refs() {
    for (const auto& [name, oid] : refs_.oids) {
      const auto before = launch_refs_.oids.find(name);
      const std::string from = before == launch_refs_.oids.end() ? std::string() : before->second;
      if (name != launch_.ref && oid != from && report_.not_imported.size() < kMaxOtherRefs) {
        refuse(name, from, oid, "other-ref");
      }
    }
    if (head_.ref.empty() && !launch_.ref.empty() && head_.oid != launch_.oid && head_.oid != wanted_) {
      refuse("HEAD", launch_.oid, head_.oid, "other-ref");
    }
    if (launch_.ref.empty() && !head_.ref.empty()) {
      refuse("HEAD", launch_.oid, head_.oid, "branch-switched");
    }
  }

  Result<IndexEntries> entries_of(const std::string& index_path) {
    GitCall call = git_call(objects_.base_path(), worktree_.root);
    call.args = {"ls-files", "--stage", "-z"};
    call.env.emplace_back("GIT_INDEX_FILE", index_path);
    call.readable = objects_.readable();
    call.readable.push_back(worktree_.common_dir);  // the operator's own index is copied there
    call.max_output = kMaxListing;
    HR_TRY(output, git_output(git_, call));
    return parse_index(output, worktree_.object_format);
  }

  // The run's index counts only when the run is still on the launch's branch.
  Status read_indexes() {
    if (head_.ref != launch_.ref) {
      return {};
    }
    auto mine = index_bytes(private_.get());
    auto theirs = index_bytes(base_.get());
    if (mine.has_value() && theirs.has_value() && mine.value() == theirs.value()) {
      return {};
    }
    HR_TRY(launch, entries_of(objects_.base_path() + "/index"));
    auto run = mine.has_error() ? Result<IndexEntries>(mine.error())
                                : entries_of(objects_.private_path() + "/index");
    if (run.has_error()) {
      if (!is_answer_of_git(run.error())) {
        return run.error();
      }
      refuse("index", "", "", "index-unreadable");
      return {};
    }
    launch_index_ = std::move(launch);
    run_index_ = std::move(run).value();
    wants_index_ = launch_index_ != run_index_;
    return {};
  }

  static Result<std::string> index_bytes(int dir) {
    HR_TRY(text, read_metadata(dir, "index", kMaxIndexFile));
    return sha256_hex(text);
  }

  // ---- may it be imported? ----
  Result<bool> branch_fits() {
    HR_TRY(real, workspace::read_head(worktree_));
    if (real.ref != launch_.ref || (real.oid != launch_.oid && real.oid != wanted_)) {
      refuse_all(real.ref != launch_.ref ? "branch-switched" : "branch-moved");
      report_.moved_head = std::move(real);
      return false;
    }
    if (wants_branch() && !launch_.oid.empty()) {
      HR_TRY(descends, objects_.is_ancestor(launch_.oid, wanted_));
      if (!descends) {
        refuse_all("diverged");
        return false;
      }
    }
    return true;
  }

  // A gitlink that was not there at launch makes the operator's next git look into a git directory the run
  // wrote, and run what that one's configuration names.
  Result<bool> without_new_gitlinks() {
    constexpr std::string_view gitlink = "160000";
    for (const auto& [key, entry] : run_index_) {
      const auto before = launch_index_.find(key);
      if (entry.mode == gitlink && (before == launch_index_.end() || before->second.mode != gitlink)) {
        return false;
      }
    }
    if (!wants_branch()) {
      return true;
    }
    const std::vector<std::string> args =
        launch_.oid.empty() ? std::vector<std::string>{"ls-tree", "-r", "-z", wanted_}
                            : std::vector<std::string>{"diff-tree",    "-r",        "--raw", "-z",
                                                       "--no-renames", launch_.oid, wanted_};
    auto output = git_output(git_, objects_.call(args));
    if (output.has_error()) {
      return is_answer_of_git(output.error()) ? Result<bool>(false) : Result<bool>(output.error());
    }
    // Records are ":OLD NEW …" and "MODE TYPE …"; a path in between begins with neither and follows a NUL of
    // its own.
    std::string_view rest = output.value();
    while (!rest.empty()) {
      const std::string_view record = rest.substr(0, rest.find('\0'));
      rest.remove_prefix(std::min(rest.size(), record.size() + 1));
      if (launch_.oid.empty()) {
        if (record.substr(0, 6) == gitlink) {
          return false;
        }
        continue;
      }
      if (record.size() > 14 && record[0] == ':' && record.substr(8, 6) == gitlink &&
          record.substr(1, 6) != gitlink) {
        return false;
      }
      const std::string_view path = rest.substr(0, rest.find('\0'));
      rest.remove_prefix(std::min(rest.size(), path.size() + 1));
    }
    return true;
  }

  // The names at the top level that no run may write: git would write them at the operator's next checkout.
  // Every commit has them exactly as the launch's has, not only the last: each can be checked out.
  Result<bool> without_protected_names() {
    const auto differs = [](const IndexEntries& one, const IndexEntries& other) {
      return std::any_of(one.begin(), one.end(), [&](const auto& item) {
        const std::string& path = item.first.first;
        if (!is_protected(std::string_view(path).substr(0, path.find('/')))) {
          return false;
        }
        const auto found = other.find(item.first);
        return found == other.end() || !(found->second == item.second);
      });
    };
    if (differs(run_index_, launch_index_) || differs(launch_index_, run_index_)) {
      return false;
    }
    if (!wants_branch()) {
      return true;
    }
    auto trees = trees_of_commits();
    auto changes = trees.has_error() ? Result<std::string>(trees.error()) : top_level_changes(trees.value());
    if (changes.has_error()) {
      return is_answer_of_git(changes.error()) ? Result<bool>(false) : Result<bool>(changes.error());
    }
    // ":OLD NEW OID OID S" NUL path NUL, and for each pair of trees a line with their ids.
    std::string_view rest = changes.value();
    while (!rest.empty()) {
      const bool record = rest.front() == ':';
      rest.remove_prefix(std::min(rest.size(), rest.find(record ? '\0' : '\n')));
      rest.remove_prefix(std::min<std::size_t>(rest.size(), 1));
      if (record) {
        const std::string_view path = rest.substr(0, rest.find('\0'));
        if (is_protected(path)) {
          return false;
        }
        rest.remove_prefix(std::min(rest.size(), path.size() + 1));
      }
    }
    return true;
  }

  // The launch's tree first, then every other that a commit to be imported has.
  Result<std::vector<std::string>> trees_of_commits() const {
    std::vector<std::string> args{"log", "--format=%H %T", wanted_};
    if (!launch_.oid.empty()) {
      args.push_back(launch_.oid + "^!");
    }
    GitCall call = objects_.call(args);
    call.max_output = kMaxListing;
    HR_TRY(output, git_output(git_, call));
    std::string launch_tree = launch_.oid.empty() ? empty_tree(worktree_.object_format) : "";
    std::set<std::string> others;
    std::string_view rest = output;
    while (!rest.empty()) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(rest.size(), line.size() + 1));
      const std::size_t space = std::min(line.find(' '), line.size() - 1);
      if (line.substr(0, space) == launch_.oid) {
        launch_tree = line.substr(space + 1);
      } else {
        others.emplace(line.substr(space + 1));
      }
    }
    std::vector<std::string> out{launch_tree};
    out.insert(out.end(), others.begin(), others.end());
    return out;
  }

  Result<std::string> top_level_changes(const std::vector<std::string>& trees) const {
    GitCall call = objects_.call({"diff-tree", "--stdin", "--raw", "-z", "--no-renames"});
    call.max_output = kMaxListing;
    for (std::size_t i = 1; i < trees.size(); ++i) {
      call.input += trees.front() + " " + trees[i] + "\n";
    }
    return git_output(git_, call);
  }

  Result<bool> plan_index() {
    if (!wants_index_) {
      return true;
    }
    HR_CHECK(copy_real_index());
    auto real = entries_of(scratch_path());
    if (real.has_error()) {
      if (!is_answer_of_git(real.error())) {
        return real.error();
      }
      refuse_all("index-unreadable");
      return false;
    }
    merge_ = merge_index(launch_index_, real.value(), run_index_);
    if (merge_.conflict) {
      refuse_all("index-conflict");
      return false;
    }
    return true;
  }

  Result<bool> bring_objects() {
    std::vector<std::string> wants;
    if (wants_branch()) {
      wants.push_back(wanted_);
    }
    for (const auto& [key, entry] : merge_.set) {
      if (entry.mode != "160000") {
        wants.push_back(entry.oid);
      }
    }
    HR_CHECK(make_held_directories());
    HR_TRY(brought, objects_.bring(wants, launch_.oid, attempt_));
    if (!brought) {
      refuse_all("objects-invalid");
    }
    return brought;
  }

  // The import boundary holds these read-only, which it can only do with what exists; `git init` makes both.
  Status make_held_directories() {
    for (const char* name : {"hooks", "info"}) {
      pathfs::DirectoryOptions options;
      if (::geteuid() == 0) {
        options.owner = pathfs::Owner{worktree_.common_dir_id.uid, worktree_.common_dir_id.gid};
      }
      auto made = pathfs::make_directory_beneath(worktree_.common_fd->get(), name, options);
      if (made.has_error() && pathfs::io_reason(made.error()) != "eexist") {
        return in_git_dir(std::move(made).error(), worktree_.common_dir, name);
      }
    }
    return {};
  }

  // ---- the changes ----
  Result<bool> move_branch() {
    if (!wants_branch()) {
      return true;
    }
    HR_TRY(before, workspace::read_head(worktree_));
    if (before.ref == launch_.ref && before.oid == wanted_) {  // an earlier, killed import came this far
      accept(branch_, launch_.oid, wanted_);
      return true;
    }
    GitCall call = git_call(worktree_.git_dir, worktree_.root);
    call.import_git_dir = worktree_.common_dir;
    call.readable = worktree_.object_stores;
    call.args = {"update-ref", "-m", "hitchrail: commits of a run"};
    if (launch_.ref.empty()) {
      call.args.emplace_back("--no-deref");
    }
    call.args.push_back(branch_);
    call.args.push_back(wanted_);
    call.args.push_back(launch_.oid.empty() ? zero_oid(worktree_.object_format) : launch_.oid);
    HR_CHECK(mark_ref_update(attempt_));
    HR_TRY(outcome, run_git(git_, call));
    unmark_ref_update(attempt_);
    HR_TRY(after, workspace::read_head(worktree_));
    const bool done = after.ref == launch_.ref && after.oid == wanted_;
    if (outcome.exit_code == 0 || done) {
      accept(branch_, launch_.oid, wanted_);
      return done;  // HEAD was switched meanwhile: the branch has moved, its index is not the run's any more
    }
    const bool elsewhere = after.ref != launch_.ref || after.oid != launch_.oid;
    refuse_all(elsewhere ? "branch-moved" : "ref-locked");
    if (elsewhere) {
      report_.moved_head = std::move(after);
    }
    return false;
  }

  Status install_index() {
    for (int attempt = 0; attempt < kInstallAttempts; ++attempt) {
      if (merge_.empty()) {  // the operator's index already has it all
        accept("index", "", "");
        return {};
      }
      GitCall call = git_call(objects_.base_path(), worktree_.root);
      call.import_git_dir = worktree_.common_dir;
      call.readable = worktree_.object_stores;
      call.readable.push_back(objects_.base_path());
      call.env.emplace_back("GIT_INDEX_FILE", scratch_path());
      call.args = {"update-index", "-z", "--replace", "--index-info"};
      call.input = index_info(merge_, worktree_.object_format);
      HR_TRY(outcome, run_git(git_, call));
      if (outcome.exit_code != 0) {
        refuse("index", "", "", "index-conflict");
        return {};
      }
      HR_TRY(end, replace_index());
      if (end == Installed::done) {
        accept("index", "", "");
        return {};
      }
      if (end == Installed::locked) {
        refuse("index", "", "", "index-locked");
        return {};
      }
      HR_TRY(planned, plan_index());  // the operator's index changed under us: merge again
      if (!planned) {
        return {};
      }
    }
    refuse("index", "", "", "index-locked");
    return {};
  }

  enum class Installed { done, locked, changed };

  // git's own protocol: index.lock is the right to replace index. It is a second name of the finished file,
  // so that a crash leaves a lock that the next import knows as its own (clear_scratch).
  Result<Installed> replace_index() {
    const int git = worktree_.git_fd->get();
    const auto give_up = std::chrono::steady_clock::now() + kLockWait;
    while (true) {
      const Status linked = pathfs::link_beneath(git, scratch_, "index.lock");
      if (linked.has_value()) {
        break;
      }
      if (pathfs::io_reason(linked.error()) != "eexist") {
        return in_git_dir(linked.error(), worktree_.git_dir, "index.lock");
      }
      if (std::chrono::steady_clock::now() > give_up) {
        return Installed::locked;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    auto now = index_bytes(git);
    auto head = workspace::read_head(worktree_);
    const std::string expected = wanted_.empty() ? launch_.oid : wanted_;
    const bool same = now.has_value() && now.value() == copied_ && head.has_value() &&
                      head.value().ref == launch_.ref && head.value().oid == expected;
    if (!same) {
      (void)pathfs::remove_file_beneath(git, "index.lock");
      return Installed::changed;
    }
    const Status replaced = pathfs::rename_beneath(git, "index.lock", "index", true);
    if (replaced.has_error()) {
      (void)pathfs::remove_file_beneath(git, "index.lock");
      return in_git_dir(replaced.error(), worktree_.git_dir, "index");
    }
    (void)pathfs::remove_file_beneath(git, scratch_);
    ::fsync(git);
    return Installed::done;
  }

  // ---- files of ours in the real git directory ----
  // For a linked worktree the index lies in its own directory below the common one.
  [[nodiscard]] std::string scratch_path() const { return worktree_.git_dir + "/" + scratch_; }

  Status clear_scratch() {
    const int git = worktree_.git_fd->get();
    HR_TRY(mine, pathfs::identify_at(git, scratch_));
    HR_TRY(lock, pathfs::identify_at(git, "index.lock"));
    if (mine.same_file(lock)) {
      (void)pathfs::remove_file_beneath(git, "index.lock");
    }
    (void)pathfs::remove_file_beneath(git, scratch_);
    (void)pathfs::remove_file_beneath(git, scratch_ + ".lock");
    return {};
  }

  Status copy_real_index() {
    const int git = worktree_.git_fd->get();
    (void)pathfs::remove_file_beneath(git, scratch_);
    HR_TRY(bytes, read_metadata(git, "index", kMaxIndexFile));
    copied_ = sha256_hex(bytes);
    if (bytes.empty()) {
      return {};  // no index yet: git makes one
    }
    HR_TRY(index, pathfs::identify_at(git, "index"));
    HR_TRY(fd, pathfs::open_beneath(git, scratch_, O_WRONLY | O_CREAT | O_EXCL, index.mode & 0777));
    if (::geteuid() == 0 && ::fchown(fd.get(), index.uid, index.gid) != 0) {
      return errno_error("change owner", scratch_path(), errno);
    }
    HR_CHECK(write_all(fd.get(), bytes));
    // Entries changed in the very second of the index are looked at again by git: the copy keeps that second.
    const timespec second{index.modified_ns / 1'000'000'000, index.modified_ns % 1'000'000'000};
    const timespec times[2] = {second, second};
    if (::futimens(fd.get(), times) != 0) {
      return errno_error("set time", scratch_path(), errno);
    }
    return {};
  }

  // ---- the report ----
  void refuse(const std::string& ref, const std::string& from, const std::string& to,
              const std::string& reason) {
    report_.not_imported.push_back(RefReport{ref, from, to, reason});
  }
  void accept(const std::string& ref, const std::string& from, const std::string& to) {
    report_.imported.push_back(RefReport{ref, from, to, ""});
  }
  void refuse_all(const std::string& reason) {
    if (wants_branch()) {
      refuse(branch_, launch_.oid, wanted_, reason);
    }
    if (wants_index_) {
      refuse("index", "", "", reason);
    }
  }

  const Worktree& worktree_;
  int attempt_;
  RunObjects objects_;
  const GitRunner& git_;
  CommitPolicy policy_;
  std::string attempt_path_;
  std::string scratch_;
  Fd base_, private_;
  Head launch_, head_;
  RefTable launch_refs_, refs_;
  bool damaged_ = false;
  std::string branch_, wanted_;
  IndexEntries launch_index_, run_index_;
  bool wants_index_ = false;
  IndexMerge merge_;
  std::string copied_;  // hash of the operator's index that merge_ was made against
  ImportReport report_;
};

}  // namespace

Result<ImportReport> import_commits(const Worktree& worktree, int attempt_dirfd,
                                    const std::string& attempt_path, CommitPolicy policy,
                                    const GitRunner& git) {
  return Import(worktree, attempt_dirfd, attempt_path, policy, git).run();
}

}  // namespace hitchrail::workspace
