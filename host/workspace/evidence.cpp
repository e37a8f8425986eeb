#include <algorithm>
#include <map>
#include <set>

#include "core/text.hpp"
#include "workspace/git_call.hpp"
#include "workspace/launch_state.hpp"
#include "workspace/refs.hpp"
#include "workspace/run_objects.hpp"
#include "workspace/status.hpp"
#include "workspace/workspace.hpp"

namespace hitchrail::workspace {
namespace {

constexpr std::size_t kMaxCommits = 256;
constexpr std::size_t kMaxChanged = 2000;
constexpr std::uint64_t kHashBudget = 256ull << 20;

// Was this file left as it was at launch?
enum class Compared { same, changed, unknown };

Compared compare(const FileState& now, const FileState& then) {
  if (now.status == "deleted" || then.status == "deleted") {
    return now.status == then.status ? Compared::same : Compared::changed;
  }
  if (now.worktree_sha256.empty() || then.worktree_sha256.empty()) {
    return Compared::unknown;
  }
  return now.worktree_sha256 == then.worktree_sha256 ? Compared::same : Compared::changed;
}

class Collector {
 public:
  Collector(const Worktree& worktree, const Baseline& baseline, int attempt_dirfd,
            const std::string& attempt_path, const GitRunner& git)
      : worktree_(worktree),
        baseline_(baseline),
        attempt_(attempt_dirfd),
        objects_(worktree, attempt_path, git),
        git_(git) {}

  Result<Evidence> run() {
    HR_CHECK(read_heads());
    HR_CHECK(worktree_changes());
    if (out_.head_attributable && out_.head.oid != launch_.oid && !out_.head.oid.empty()) {
      HR_CHECK(attribute_commits());
    }
    for (auto& [path, change] : changes_) {
      if (out_.changed.size() == kMaxChanged) {
        out_.changed_truncated = true;
        break;
      }
      out_.changed.push_back(std::move(change));
    }
    return std::move(out_);
  }

 private:
  Status read_heads() {
    HR_TRY(base, pathfs::open_directory_beneath(attempt_, "git-base"));
    HR_CHECK(check_launch_state(base.get(), worktree_));
    HR_TRY(launch, read_head(base.get(), base.get(), worktree_.object_format));
    launch_ = std::move(launch);
    HR_TRY(own, pathfs::open_directory_beneath(attempt_, "git"));
    auto head = read_head(own.get(), own.get(), worktree_.object_format);
    if (head.has_error() || RunObjects::check_layout(own.get()).has_error()) {
      return {};  // the run broke its own directory: no commit can be attributed, the files still can
    }
    out_.head = std::move(head).value();
    if (out_.head == launch_) {
      out_.head_attributable = true;
    } else if (out_.head.ref == launch_.ref && !out_.head.oid.empty()) {
      if (launch_.oid.empty()) {
        out_.head_attributable = true;
      } else {
        HR_TRY(descends, objects_.is_ancestor(launch_.oid, out_.head.oid));
        out_.head_attributable = descends;
      }
    }
    return {};
  }

  Status worktree_changes() {
    // HEAD and index of the launch: none of the run's objects is needed.
    GitCall call = git_call(objects_.base_path(), worktree_.root);
    call.args = status_arguments();
    call.readable = worktree_.object_stores;
    call.readable.push_back(objects_.base_path());
    call.timeout = std::chrono::milliseconds(30'000);
    call.max_output = 64u << 20;
    HR_TRY(output, git_output(git_, call));
    HR_TRY(status, parse_status(output));
    hash_files(worktree_.root_fd->get(), status.files, kHashBudget);
    std::map<std::string_view, const FileState*> then;
    for (const FileState& file : baseline_.files) {
      then.emplace(file.path, &file);
    }
    for (const FileState& file : status.files) {
      const auto before = then.find(file.path);
      const Compared end = before == then.end() ? Compared::changed : compare(file, *before->second);
      if (end == Compared::same) {
        unchanged_.insert(file.path);
      } else {
        add(file.path, file.status, "", end == Compared::changed);
      }
      if (before != then.end()) {
        then.erase(before);
      }
    }
    for (const auto& [path, file] : then) {  // dirty at launch, now as the launch's index has it
      add(file->path, file->status == "untracked" ? "deleted" : "modified", "", true);
    }
    return {};
  }

  // Objects that git cannot read are no evidence of a commit.
  Status attribute_commits() {
    Status done = list_commits();
    if (done.has_value()) {
      done = committed_changes();
    }
    if (done.has_error() && is_answer_of_git(done.error())) {
      out_.head_attributable = false;
      out_.commits.clear();
      return {};
    }
    return done;
  }

  Status committed_changes() {
    GitCall call = objects_.call(
        {"diff-tree", "-r", "-z", "--name-status", "-M", "--no-ext-diff", "--no-textconv",
         launch_.oid.empty() ? empty_tree(worktree_.object_format) : launch_.oid, out_.head.oid});
    call.timeout = std::chrono::milliseconds(30'000);
    call.max_output = 64u << 20;
    HR_TRY(output, git_output(git_, call));
    std::string_view rest = output;
    std::string_view letter;
    std::string_view path;
    while (next_field(rest, letter) && next_field(rest, path)) {
      const std::string_view previous = path;
      const bool pair = letter[0] == 'R' || letter[0] == 'C';
      if (pair && !next_field(rest, path)) {
        break;
      }
      const char* status = letter[0] == 'A' || letter[0] == 'C' ? "added"
                           : letter[0] == 'D'                   ? "deleted"
                           : letter[0] == 'R'                   ? "renamed"
                                                                : "modified";
      add_committed(std::string(path), status, letter[0] == 'R' ? std::string(previous) : std::string());
    }
    return {};
  }

  Status list_commits() {
    GitCall call =
        objects_.call({"log", "-z", "--no-color", "--no-decorate", "--no-notes", "--encoding=UTF-8",
                       "--format=%H %s", "--max-count=" + std::to_string(kMaxCommits + 1), out_.head.oid});
    if (!launch_.oid.empty()) {
      call.args.push_back("^" + launch_.oid);
    }
    call.timeout = std::chrono::milliseconds(30'000);
    HR_TRY(output, git_output(git_, call));
    std::string_view rest = output;
    std::string_view line;
    while (next_field(rest, line)) {
      if (out_.commits.size() == kMaxCommits) {
        out_.commits_truncated = true;
        break;
      }
      const std::size_t space = line.find(' ');
      out_.commits.push_back(
          Commit{std::string(line.substr(0, space)),
                 space == std::string_view::npos ? "" : escape_cut(line.substr(space + 1), 500)});
    }
    return {};
  }

  void add(const std::string& path, std::string status, std::string previous, bool verified) {
    changes_.insert_or_assign(path, ChangedFile{path, std::move(status), std::move(previous), verified});
  }

  // What the worktree says goes first; a rename adds where the file came from.
  void add_committed(const std::string& path, const char* status, const std::string& previous) {
    if (unchanged_.find(path) != unchanged_.end()) {
      return;  // committed as the operator had left it
    }
    const auto found = changes_.find(path);
    if (found == changes_.end()) {
      add(path, status, previous, true);
      return;
    }
    if (found->second.status == "untracked") {
      found->second.status = "added";
    }
    if (!previous.empty()) {
      found->second.status = "renamed";
      found->second.previous_path = previous;
      changes_.erase(previous);
    }
  }

  const Worktree& worktree_;
  const Baseline& baseline_;
  int attempt_;
  RunObjects objects_;
  const GitRunner& git_;
  Head launch_;
  std::set<std::string> unchanged_;
  std::map<std::string, ChangedFile> changes_;
  Evidence out_;
};

}  // namespace

Result<Evidence> collect_evidence(const Worktree& worktree, const Baseline& baseline, int attempt_dirfd,
                                  const std::string& attempt_path, const GitRunner& git) {
  return Collector(worktree, baseline, attempt_dirfd, attempt_path, git).run();
}

}  // namespace hitchrail::workspace
