#include <algorithm>
#include <future>

#include "core/canonical.hpp"
#include "core/ids.hpp"
#include "core/text.hpp"
#include "workspace/git_call.hpp"
#include "workspace/refs.hpp"
#include "workspace/status.hpp"
#include "workspace/sweep.hpp"
#include "workspace/workspace.hpp"

namespace hitchrail::workspace {
namespace {

constexpr int kAttempts = 3;

Error named_after_timeout(const Worktree& worktree, const Error& error) {
  if (error.code != "git-timeout") {
    return error;
  }
  const std::string entry = find_blocking_entry(worktree.root_fd->get());
  if (entry.empty()) {
    return error;
  }
  return Error{ErrorClass::refused,
               "worktree-unsafe-entry",
               "capture baseline",
               worktree.root + "/" + entry,
               "it is a FIFO, a socket or a device, and git waits on it for ever",
               "remove it"};
}

GitCall repository_call(const Worktree& worktree, const BaselineLimits& limits) {
  GitCall call = git_call(worktree.git_dir, worktree.root);
  call.readable = worktree.object_stores;
  call.readable.push_back(worktree.common_dir);
  if (worktree.git_dir != worktree.common_dir) {
    call.readable.push_back(worktree.git_dir);
  }
  call.timeout = limits.timeout;
  return call;
}

Result<StatusOutput> status_now(const Worktree& worktree, const GitRunner& git,
                                const BaselineLimits& limits) {
  GitCall call = repository_call(worktree, limits);
  call.args = status_arguments();
  call.max_output = limits.max_status_bytes;
  auto output = git_output(git, call);
  if (output.has_error()) {
    return named_after_timeout(worktree, output.error());
  }
  return parse_status(output.value());
}

Preexisting preexisting_of(std::string_view output) {
  std::vector<std::string_view> commits;
  while (!output.empty()) {
    const std::size_t end = std::min(output.find('\n'), output.size());
    commits.push_back(output.substr(0, end));
    output.remove_prefix(std::min(end + 1, output.size()));
  }
  std::sort(commits.begin(), commits.end());
  commits.erase(std::unique(commits.begin(), commits.end()), commits.end());
  Preexisting out;
  out.count = commits.size();
  std::string text;
  for (const std::string_view commit : commits) {
    text.append(commit);
    text += '\n';
  }
  out.digest = sha256_prefixed(text);
  if (commits.size() <= max_listed_commits) {
    out.commits.assign(commits.begin(), commits.end());
  }
  return out;
}

// What git cannot answer within the bounds is no reason not to start: the refs of the launch are kept beside
// the run, and its end asks them.
Result<Preexisting> commits_of_other_refs(const Worktree& worktree, const GitRunner& git, const Head& head,
                                          const BaselineLimits& limits) {
  GitCall call = repository_call(worktree, limits);
  call.args = {"rev-list", "--ignore-missing", "--all"};
  if (!head.oid.empty()) {
    call.args.emplace_back("--not");
    call.args.push_back(head.oid);
  }
  call.max_output = limits.max_commit_bytes;
  auto output = git_output(git, call);
  if (output.has_error()) {
    if (!is_answer_of_git(output.error())) {
      return std::move(output).error();
    }
    Preexisting unknown;
    unknown.known = false;
    return unknown;
  }
  return preexisting_of(output.value());
}

std::string short_name(const std::string& ref) {
  constexpr std::string_view kHeads = "refs/heads/";
  return ref.starts_with(kHeads) ? ref.substr(kHeads.size()) : ref;
}

// One attempt. Everything is read once; then one look at the change times of all that was read says whether
// it held still. Only when that does not say so is git asked a second time.
class Capture {
 public:
  Capture(const Worktree& worktree, const GitRunner& git, const BaselineLimits& limits)
      : worktree_(worktree), git_(git), limits_(limits) {}

  // Nothing: it moved.
  Result<std::optional<Baseline>> attempt(int number) {
    const std::int64_t since_ns = change_clock_ns();
    HR_TRY(before, read_metadata_state(worktree_));
    auto still = std::make_shared<Stillness>();
    auto commits = std::async(before.other_refs ? std::launch::async : std::launch::deferred, [&] {
      return before.other_refs ? commits_of_other_refs(worktree_, git_, before.head, limits_)
                               : Result<Preexisting>(preexisting_of({}));
    });
    auto index = std::async(std::launch::async, [&] {
      still->usable = still->paths.add_index(worktree_.git_fd->get(), oid_bytes(worktree_));
    });
    auto status = status_now(worktree_, git_, limits_);
    index.get();
    auto preexisting = commits.get();
    if (status.has_error()) {
      return std::move(status).error();
    }
    if (preexisting.has_error()) {
      return std::move(preexisting).error();
    }
    std::vector<FileState>& files = status.value().files;
    hash_files(worktree_, files, limits_.max_hash_bytes);
    for (const FileState& file : files) {
      still->paths.add(file.path);
    }
    still->paths.close();
    if (limits_.between_looks) {
      limits_.between_looks(number);
    }
    still->sweep = look(worktree_.root_fd->get(), still->paths);
    HR_TRY(after, read_metadata_state(worktree_));
    if (before.head != after.head || before.refs != after.refs || status.value().head_oid != after.head.oid) {
      return std::optional<Baseline>();
    }
    const bool quiet = still->usable && still->sweep.newest_ns < since_ns && before.same(after);
    if (!quiet) {
      HR_TRY(same, looks_the_same(status.value(), after));
      if (!same) {
        return std::optional<Baseline>();
      }
    }
    still->metadata = std::move(after);
    return std::optional<Baseline>(finished(std::move(files), std::move(preexisting).value(), still));
  }

 private:
  Result<bool> looks_the_same(const StatusOutput& first, const Metadata& before) {
    HR_TRY(again, status_now(worktree_, git_, limits_));
    hash_files(worktree_, again.files, limits_.max_hash_bytes);
    HR_TRY(after, read_metadata_state(worktree_));
    return again.files == first.files && again.head_oid == first.head_oid && before.head == after.head &&
           before.refs == after.refs;
  }

  static Baseline finished(std::vector<FileState> files, Preexisting preexisting,
                           std::shared_ptr<Stillness> still) {
    Baseline out;
    out.captured_at_ms = unix_millis_now();
    out.head = still->metadata.head;
    out.branch = out.head.ref.empty() ? "" : short_name(out.head.ref);
    out.dirty = !files.empty();
    out.files = std::move(files);
    out.preexisting = std::move(preexisting);
    out.still = std::move(still);
    return out;
  }

  const Worktree& worktree_;
  const GitRunner& git_;
  const BaselineLimits& limits_;
};

// What differs, for the operator.
std::string difference(const Baseline& then, const Baseline& now) {
  if (then.head != now.head) {
    return "HEAD is at " + (now.head.oid.empty() ? "no commit" : now.head.oid) +
           (now.head.ref.empty() ? "" : " of " + now.head.ref);
  }
  if (then.preexisting != now.preexisting) {
    return "commits of other refs came or went";
  }
  const auto by_path = [](const FileState& a, const FileState& b) { return a.path < b.path; };
  const auto missing = [&](const std::vector<FileState>& from, const std::vector<FileState>& in) {
    return std::find_if(from.begin(), from.end(), [&](const FileState& file) {
      const auto found = std::lower_bound(in.begin(), in.end(), file, by_path);
      return found == in.end() || !(*found == file);
    });
  };
  auto found = missing(now.files, then.files);
  if (found == now.files.end()) {
    found = missing(then.files, now.files);
    if (found == then.files.end()) {
      return {};
    }
  }
  return escape_cut(found->path, 200) + " has changed";
}

}  // namespace

bool FileState::operator==(const FileState& other) const {
  return path == other.path && status == other.status && previous_path == other.previous_path &&
         index_blob == other.index_blob && worktree_mode == other.worktree_mode &&
         worktree_sha256 == other.worktree_sha256;
}

Result<Baseline> capture_baseline(const Worktree& worktree, const GitRunner& git,
                                  const BaselineLimits& limits) {
  Capture capture(worktree, git, limits);
  for (int number = 1; number <= kAttempts; ++number) {
    HR_TRY(captured, capture.attempt(number));
    if (captured) {
      return std::move(*captured);
    }
  }
  return Error{
      ErrorClass::refused,
      "baseline-unstable",
      "capture baseline",
      worktree.root,
      "the worktree changed during each of " + std::to_string(kAttempts) + " attempts to read its state",
      "wait until nothing else works in it"};
}

Status baseline_still(const Worktree& worktree, const Baseline& baseline, const GitRunner& git) {
  const Stillness* still = baseline.still.get();
  if (still != nullptr && still->usable) {
    HR_TRY(now, read_metadata_state(worktree));
    if (now.same(still->metadata) && look(worktree.root_fd->get(), still->paths) == still->sweep) {
      return {};
    }
  }
  HR_TRY(now, capture_baseline(worktree, git));
  const std::string what = difference(baseline, now);
  if (what.empty()) {
    return {};
  }
  return Error{ErrorClass::refused,
               "baseline-changed",
               "look at the worktree again",
               worktree.root,
               what + " since the launch was planned",
               "start the run again"};
}

}  // namespace hitchrail::workspace
