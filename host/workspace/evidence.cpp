#include <fcntl.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "core/text.hpp"
#include "pathfs/raw.hpp"
#include "workspace/git_call.hpp"
#include "workspace/index_entries.hpp"
#include "workspace/launch_state.hpp"
#include "workspace/refs.hpp"
#include "workspace/run_objects.hpp"
#include "workspace/status.hpp"
#include "workspace/sweep.hpp"
#include "workspace/workspace.hpp"

namespace hitchrail::workspace {
namespace {

constexpr std::uint64_t kHashBudget = 256ull << 20;

// Was this file left as it was at launch?
enum class Compared { same, changed, unknown };

Compared compare(const FileState& now, const FileState& then) {
  if (now.status == "deleted" || then.status == "deleted") {
    return now.status == then.status ? Compared::same : Compared::changed;
  }
  if (!now.stamp.empty() && now.stamp == then.stamp) {
    return Compared::same;  // nobody has touched it
  }
  if (!now.worktree_mode.empty() && !then.worktree_mode.empty() && now.worktree_mode != then.worktree_mode) {
    return Compared::changed;
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
      out_.changed_paths.push_back(path);
      out_.changed.push_back(std::move(change));
    }
    out_.last_change_ms = last_change(worktree_, out_);
    return std::move(out_);
  }

 private:
  Status read_heads() {
    HR_TRY(base, pathfs::open_directory_beneath(attempt_, "git-base"));
    HR_CHECK(check_launch_state(base.get(), worktree_));
    HR_TRY(launch, read_head(base.get(), base.get(), worktree_.object_format));
    launch_ = std::move(launch);
    base_ = std::move(base);
    HR_TRY(own, pathfs::open_directory_beneath(attempt_, "git"));
    auto head = read_head(own.get(), own.get(), worktree_.object_format);
    if (head.has_error() || RunObjects::check_layout(own.get()).has_error()) {
      // The run broke its own directory: no commit can be attributed, the files still can.
      out_.why_not = "private-damaged";
      return {};
    }
    out_.head = std::move(head).value();
    if (out_.head.ref != launch_.ref) {
      out_.why_not = "branch-switched";
    } else if (out_.head.oid != launch_.oid) {
      HR_TRY(descends,
             launch_.oid.empty() ? Result<bool>(true) : objects_.is_ancestor(launch_.oid, out_.head.oid));
      out_.why_not = descends && !out_.head.oid.empty() ? "" : "diverged";
    }
    out_.head_attributable = out_.why_not.empty();
    return {};
  }

  Status worktree_changes() {
    HR_TRY(output, git_output(git_, base_call(status_arguments())));
    HR_TRY(status, parse_status(output));
    FilesByPath then;
    for (const FileState& file : baseline_.files) {
      then.emplace(file.path, &file);
    }
    hash_files(worktree_, status.files, kHashBudget, &then);
    std::set<std::string_view> told;
    for (const FileState& file : status.files) {
      told.insert(file.path);
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
    return untold_changes(told);
  }

  // git believes a file of the size and second it remembers, and what the operator told it to assume. The
  // kernel's change time says which of the tracked files somebody touched nevertheless; these git reads.
  Status untold_changes(const std::set<std::string_view>& told) {
    if (baseline_.captured_at_ms == 0) {
      return {};
    }
    HR_TRY(touched, touched_since(worktree_, base_.get(), baseline_.captured_at_ms * 1'000'000));
    std::erase_if(touched, [&](const TouchedFile& file) { return told.count(file.path) != 0; });
    if (touched.empty()) {
      return {};
    }
    GitCall list = base_call({"ls-files", "--stage", "-z"});
    list.max_output = 512u << 20;
    HR_TRY(listing, git_output(git_, list));
    HR_TRY(entries, parse_index(listing, worktree_.object_format));
    std::vector<TouchedFile> asked;
    std::string names;
    for (TouchedFile& file : touched) {
      const auto entry = entries.find(IndexKey(file.path, 0));
      if (entry == entries.end()) {
        continue;
      }
      if (file.type == pathfs::FileType::symlink) {
        if (entry->second.oid != link_oid(file.path)) {
          add(file.path, "modified", "", !file.assumed);
        }
      } else {
        names += quote_path(file.path) + "\n";
        asked.push_back(std::move(file));
      }
    }
    return asked.empty() ? Status{} : compare_content(asked, names, entries);
  }

  Status compare_content(const std::vector<TouchedFile>& asked, const std::string& names,
                         const IndexEntries& entries) {
    GitCall call = base_call({"hash-object", "--stdin-paths"});
    call.input = names;
    auto output = git_output(git_, call);
    if (output.has_error() && !is_answer_of_git(output.error())) {
      return std::move(output).error();
    }
    // What went away meanwhile ends git early: the rest is told as not known.
    std::string_view rest = output.has_value() ? std::string_view(output.value()) : std::string_view();
    for (const TouchedFile& file : asked) {
      const std::string_view oid = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(rest.size(), oid.size() + 1));
      if (oid != entries.at(IndexKey(file.path, 0)).oid) {
        add(file.path, "modified", "", !file.assumed && !oid.empty());
      }
    }
    return {};
  }

  // HEAD and index of the launch: none of the run's objects is needed.
  [[nodiscard]] GitCall base_call(std::vector<std::string> args) const {
    GitCall call = git_call(objects_.base_path(), worktree_.root);
    call.args = std::move(args);
    call.readable = worktree_.object_stores;
    call.readable.push_back(objects_.base_path());
    call.timeout = std::chrono::milliseconds(30'000);
    call.max_output = 64u << 20;
    return call;
  }

  [[nodiscard]] std::string link_oid(const std::string& path) const {
    const auto text = pathfs::read_link_beneath(worktree_.root_fd->get(), path);
    return text.has_value() ? blob_oid(text.value(), worktree_.object_format) : std::string();
  }

  // Objects that git cannot read are no evidence of a commit.
  Status attribute_commits() {
    Status done = check_history();
    if (done.has_value() && out_.head_attributable) {
      done = list_commits();
    }
    if (done.has_value() && out_.head_attributable) {
      done = committed_changes();
    }
    if (done.has_error() && is_answer_of_git(done.error())) {
      out_.head_attributable = false;
      out_.why_not = "private-damaged";
      out_.commits.clear();
      return {};
    }
    return done;
  }

  // Commits that stood on another ref at launch are nobody's work of this run, however HEAD came there.
  Status check_history() {
    std::vector<std::string> since = {"rev-list", out_.head.oid};
    if (!launch_.oid.empty()) {
      since.push_back("^" + launch_.oid);
    }
    HR_TRY(all, revisions(since));
    HR_TRY(fresh, revisions({"rev-list", "--ignore-missing", out_.head.oid, "--not", "--all"}));
    const std::vector<std::string>& before = baseline_.preexisting.commits;
    const bool known = std::any_of(all.begin(), all.end(), [&](const std::string& commit) {
      return std::binary_search(before.begin(), before.end(), commit);
    });
    if (known || fresh.size() != all.size()) {
      out_.head_attributable = false;
      out_.why_not = "preexisting-history";
    }
    return {};
  }

  Result<std::vector<std::string>> revisions(const std::vector<std::string>& args) const {
    GitCall call = objects_.call(args);
    call.timeout = std::chrono::milliseconds(30'000);
    call.max_output = 64u << 20;
    HR_TRY(output, git_output(git_, call));
    std::vector<std::string> out;
    std::string_view rest = output;
    while (!rest.empty()) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(rest.size(), line.size() + 1));
      out.emplace_back(line);
    }
    return out;
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
    GitCall call = objects_.call({"log", "-z", "--no-color", "--no-decorate", "--no-notes",
                                  "--encoding=UTF-8", "--format=%H %s", out_.head.oid});
    if (!launch_.oid.empty()) {
      call.args.push_back("^" + launch_.oid);
    }
    call.timeout = std::chrono::milliseconds(30'000);
    call.max_output = 64u << 20;
    HR_TRY(output, git_output(git_, call));
    std::string_view rest = output;
    std::string_view line;
    while (next_field(rest, line)) {
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
  Fd base_;
  Head launch_;
  std::set<std::string> unchanged_;
  std::map<std::string, ChangedFile> changes_;
  Evidence out_;
};

}  // namespace

Result<bool> made_by_run(const Worktree& worktree, const Baseline& baseline, const Evidence& evidence,
                         int attempt_dirfd, const std::string& path) {
  const auto& changed = evidence.changed_paths;
  if (std::binary_search(changed.begin(), changed.end(), path)) {
    return true;
  }
  const bool dirty = std::any_of(baseline.files.begin(), baseline.files.end(),
                                 [&](const FileState& file) { return file.path == path; });
  if (dirty || baseline.captured_at_ms == 0) {
    return false;
  }
  HR_TRY(base, pathfs::open_directory_beneath(attempt_dirfd, "git-base"));
  HR_TRY(tracked, is_tracked(worktree, base.get(), path));
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : path.substr(0, slash);
  const Fd above = pathfs::raw::open_below(worktree.root_fd->get(), folder, O_PATH | O_DIRECTORY);
  pathfs::raw::Stat stat;
  return !tracked && above.valid() &&
         pathfs::raw::look(above.get(), path.substr(slash == std::string::npos ? 0 : slash + 1).c_str(),
                           stat) &&
         stat.born_ns >= baseline.captured_at_ms * 1'000'000;
}

Result<std::vector<std::string>> committed_paths(const Worktree& worktree, const Evidence& evidence,
                                                 const std::string& attempt_path, const GitRunner& git) {
  GitCall call = RunObjects(worktree, attempt_path, git)
                     .call({"diff-tree", "--stdin", "-r", "-m", "-z", "--root", "--name-only",
                            "--no-commit-id", "--no-renames", "--no-ext-diff", "--no-textconv"});
  for (const Commit& commit : evidence.commits) {
    call.input += commit.oid + "\n";
  }
  call.timeout = std::chrono::milliseconds(30'000);
  call.max_output = 64u << 20;
  HR_TRY(output, git_output(git, call));
  std::set<std::string> paths;
  std::string_view rest = output;
  std::string_view path;
  while (next_field(rest, path)) {
    if (!path.empty()) {
      paths.emplace(path);
    }
  }
  return std::vector<std::string>(paths.begin(), paths.end());
}

Result<std::size_t> commits_created(const Worktree& worktree, int attempt_dirfd,
                                    const std::string& attempt_path, const GitRunner& git) {
  HR_TRY(base, pathfs::open_directory_beneath(attempt_dirfd, "git-base"));
  HR_TRY(before, read_refs(base.get(), worktree.object_format));
  HR_TRY(own, pathfs::open_directory_beneath(attempt_dirfd, "git"));
  HR_CHECK(RunObjects::check_layout(own.get()));
  HR_TRY(head, read_head(own.get(), own.get(), worktree.object_format));
  HR_TRY(refs, read_refs(own.get(), worktree.object_format));
  std::set<std::string> wanted;
  if (!head.oid.empty()) {
    wanted.insert(head.oid);
  }
  for (const auto& [name, oid] : refs.oids) {
    const auto found = before.oids.find(name);
    if (found == before.oids.end() || found->second != oid) {
      wanted.insert(oid);
    }
  }
  HR_TRY(log, read_metadata(own.get(), "logs/HEAD", 16u << 20));
  for (std::string_view rest = log; !rest.empty();) {  // FROM TO WHO WHEN<tab>WHY
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const std::size_t space = line.find(' ');
    const std::string_view to =
        space == std::string_view::npos ? "" : line.substr(space + 1, line.find(' ', space + 1) - space - 1);
    if (valid_oid(to, worktree.object_format) && to.find_first_not_of('0') != std::string_view::npos) {
      wanted.emplace(to);
    }
  }
  if (wanted.empty()) {
    return std::size_t{0};
  }
  GitCall call = RunObjects(worktree, attempt_path, git)
                     .call({"rev-list", "--count", "--ignore-missing", "--stdin", "--not", "--all"});
  for (const std::string& oid : wanted) {
    call.input += oid + "\n";
  }
  call.timeout = std::chrono::milliseconds(30'000);
  HR_TRY(output, git_output(git, call));
  return static_cast<std::size_t>(std::strtoull(output.c_str(), nullptr, 10));
}

std::int64_t last_change(const Worktree& worktree, const Evidence& evidence) {
  std::int64_t newest_ns = 0;
  const int root = worktree.root_fd->get();
  for (const ChangedFile& file : evidence.changed) {
    std::string path = file.path.back() == '/' ? file.path.substr(0, file.path.size() - 1) : file.path;
    auto identity = pathfs::identify_beneath(root, path);
    // Of a file that is gone the folder knows, or the one above it.
    while ((identity.has_error() || identity.value().type == pathfs::FileType::absent) && !path.empty()) {
      const std::size_t slash = path.rfind('/');
      path = slash == std::string::npos ? "" : path.substr(0, slash);
      identity = path.empty() ? pathfs::identify(root) : pathfs::identify_beneath(root, path);
    }
    if (identity.has_value()) {
      newest_ns = std::max(newest_ns, identity.value().changed_ns);
    }
  }
  return newest_ns / 1'000'000;
}

Result<Evidence> collect_evidence(const Worktree& worktree, const Baseline& baseline, int attempt_dirfd,
                                  const std::string& attempt_path, const GitRunner& git) {
  return Collector(worktree, baseline, attempt_dirfd, attempt_path, git).run();
}

}  // namespace hitchrail::workspace
