#include "finish/workspace_step.hpp"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "attempt/completion.hpp"
#include "attempt/names.hpp"
#include "boundary/boundary.hpp"
#include "core/canonical.hpp"
#include "core/file.hpp"
#include "finish/artifacts.hpp"
#include "finish/blocker.hpp"
#include "workspace/inspector.hpp"
#include "workspace/nested_git.hpp"
#include "workspace/workspace.hpp"

namespace hitchrail::finish {
namespace {

constexpr std::size_t max_baseline = 256u << 20;
constexpr std::size_t max_lists = 128u << 20;
constexpr const char* lists_folder = "evidence";
constexpr const char* lists_name = "changed-files.json";

Error step_error(const char* code, std::string detail) {
  return Error{ErrorClass::failed, code, "look at the workspace", "worktree", std::move(detail), ""};
}

Result<std::string> path_of(int dirfd) {
  char path[PATH_MAX];
  const ssize_t size = ::readlink(("/proc/self/fd/" + std::to_string(dirfd)).c_str(), path, sizeof path);
  if (size <= 0 || size == static_cast<ssize_t>(sizeof path) || path[0] != '/') {
    return step_error("attempt-moved", "the attempt directory has no path");
  }
  return std::string(path, static_cast<std::size_t>(size));
}

Result<json::Value> read_envelope(int attempt_dirfd) {
  HR_TRY(manifests, open_at(attempt_dirfd, "manifests", O_RDONLY | O_DIRECTORY));
  HR_TRY(text, read_file_at(manifests.get(), "task-envelope.json", attempt::max_document));
  return json::parse(text, json::Duplicates::refuse, "task-envelope.json");
}

// The whole list of files with their stamps; an attempt of an older host has it in the envelope alone.
Result<workspace::Baseline> read_baseline(int attempt_dirfd, const json::Value& envelope) {
  HR_TRY(manifests, open_at(attempt_dirfd, "manifests", O_RDONLY | O_DIRECTORY));
  auto text = read_file_at(manifests.get(), workspace::baseline_document_name, max_baseline);
  if (text.has_error() && text.error().code != "enoent") {
    return std::move(text).error();
  }
  return workspace::baseline_from_json(envelope.get("workspace").get("baseline"),
                                       text.has_value() ? text.value() : std::string());
}

json::Value evidence_item(const char* id, const char* kind, std::string summary, const char* requirement) {
  json::Value item = json::Value::object();
  item.set("id", id);
  item.set("kind", kind);
  item.set("source", "harness");
  item.set("summary", std::move(summary));
  item.set("reference", json::Value());
  json::Value requirements = json::Value::array();
  if (requirement != nullptr) {
    requirements.push(requirement);
  }
  item.set("requirementIds", std::move(requirements));
  item.set("verified", true);
  return item;
}

// Work that stayed in the private git directory although it was meant for the repository.
bool is_lost_work(const workspace::RefReport& report) {
  return report.reason == "diverged" || report.reason == "branch-moved" ||
         report.reason == "branch-switched" || report.reason == "objects-invalid" ||
         report.reason == "gitlink-added" || report.reason == "protected-name-committed" ||
         report.reason == "private-damaged";
}

void judge_changes(const workspace::Evidence& evidence, const workspace::ImportReport& report,
                   workspace::CommitPolicy policy, const json::Value& side_effects, std::size_t created,
                   json::Value& blockers) {
  if (policy == workspace::CommitPolicy::forbidden && created > 0) {
    block(blockers, "forbidden-commit-created", "the run made commits although they are forbidden",
          std::to_string(created) + " commits, on any branch or gone back from; none was imported", false);
  }
  if (policy == workspace::CommitPolicy::required && evidence.commits.empty()) {
    block(blockers, "required-commit-missing", "the task asks for a commit and the run made none", "", true);
  }
  for (const json::Value& effect : side_effects.items()) {
    if (!effect.get("authorized").as_bool()) {
      block(blockers, "unauthorized-" + effect.get("kind").as_string(),
            "the task does not allow this side effect", effect.get("description").as_string(), false);
    }
  }
  if (report.moved_head) {
    const workspace::Head& now = *report.moved_head;
    block(blockers, "launch-head-moved",
          "HEAD of the work tree moved while the run worked; nothing of the run was put on top of it",
          "now " + (now.oid.empty() ? "no commit" : now.oid) + (now.ref.empty() ? "" : " of " + now.ref) +
              "; the run's commits can be fetched from git-kept/ of the attempt directory",
          false);
    return;
  }
  for (const workspace::RefReport& ref : report.not_imported) {
    if (policy != workspace::CommitPolicy::forbidden && is_lost_work(ref)) {
      block(blockers, "commits-not-imported", "commits of the run are not in the repository: " + ref.reason,
            ref.ref + " at " + ref.to + " is kept in the attempt's git directory", false);
    }
  }
}

bool took_time(const json::Value& verification) {
  const auto& gates = verification.items();
  return std::any_of(gates.begin(), gates.end(),
                     [](const json::Value& gate) { return gate.find("startedAt") != nullptr; });
}

// git opens these by name and waits for a writer: it is shown an empty file in their place, also the next git
// of this finish.
workspace::GitRunner hiding(const std::string& root, const std::vector<std::string>& entries) {
  std::vector<std::string> paths;
  paths.reserve(entries.size());
  for (const std::string& entry : entries) {
    paths.push_back(root + "/" + entry);
  }
  return [git = workspace::inspector_git(boundary::probe_machine()), paths](const workspace::GitCall& call) {
    workspace::GitCall hidden = call;
    hidden.hidden = paths;
    return git(hidden);
  };
}

std::string clean(std::string_view text, const SecretRedactor* redactor) {
  std::string out;
  return redactor != nullptr && redactor->redact(text, out) ? out : std::string(text);
}

// The lists as they are, where the result has only their beginning: a file of the attempt. Its digest.
Result<std::string> keep_lists(int attempt_dirfd, const workspace::Evidence& evidence,
                               const SecretRedactor* redactor) {
  workspace::Evidence told;
  for (const workspace::ChangedFile& file : evidence.changed) {
    told.changed.push_back(
        {clean(file.path, redactor), file.status, clean(file.previous_path, redactor), file.verified});
  }
  for (const workspace::Commit& commit : evidence.commits) {
    told.commits.push_back({commit.oid, clean(commit.subject, redactor)});
  }
  json::Value document = json::Value::object({{"schemaVersion", "changed-files/v1"}});
  document.set("changedFiles", workspace::changed_files_json(told, told.changed.size()));
  document.set("commits", workspace::commits_json(told, told.commits.size()));
  HR_TRY(text, canonicalize(document));
  if (text.size() > max_lists) {
    return step_error("list-too-large", std::to_string(text.size()) + " bytes");
  }
  if (::mkdirat(attempt_dirfd, lists_folder, 0700) != 0 && errno != EEXIST) {
    return errno_error("make", lists_folder, errno);
  }
  HR_TRY(folder, open_at(attempt_dirfd, lists_folder, O_RDONLY | O_DIRECTORY));
  HR_CHECK(write_file_atomic(folder.get(), lists_name, text));
  return sha256_prefixed(text);
}

// Members changedFiles, commits with their totals, and the evidence of both. What is cut is kept whole, or
// the run is no success.
json::Value tell_lists(int attempt_dirfd, const workspace::Evidence& evidence, workspace::CommitPolicy policy,
                       const SecretRedactor* redactor, Workspace& out) {
  const std::size_t files = evidence.changed.size();
  const std::size_t commits = evidence.commits.size();
  const bool files_cut = files > workspace::max_told_files;
  const bool commits_cut = commits > workspace::max_told_commits;
  const std::string reference = std::string(lists_folder) + "/" + lists_name;
  bool whole = true;
  out.members.set("changedFiles", workspace::changed_files_json(evidence));
  out.members.set("changedFilesTotal", static_cast<std::uint64_t>(files));
  out.members.set("changedFilesTruncated", files_cut);
  out.members.set("commits", workspace::commits_json(evidence));
  out.members.set("commitsTotal", static_cast<std::uint64_t>(commits));
  out.members.set("commitsTruncated", commits_cut);
  if (files_cut || commits_cut) {
    const auto digest = keep_lists(attempt_dirfd, evidence, redactor);
    whole = digest.has_value();
    if (whole) {
      out.members.set("changedFilesReference", reference);
      out.members.set("changedFilesDigest", digest.value());
    } else {
      block(out.blockers, "changed-files-truncated",
            "the result has only the beginning of its lists, and they could not be kept whole",
            std::to_string(files) + " files, " + std::to_string(commits) + " commits; " +
                digest.error().code + ": " + digest.error().detail,
            true);
    }
  }
  const auto item = [&](const char* id, const char* kind, std::string text, bool cut,
                        const char* requirement) {
    text += !cut    ? ""
            : whole ? "; the first are listed here, all in " + reference
                    : "; only the first are listed";
    json::Value told = evidence_item(id, kind, std::move(text), requirement);
    told.set("reference", cut && whole ? json::Value(reference) : json::Value());
    told.set("verified", !cut || whole);
    return told;
  };
  json::Value items = json::Value::array();
  items.push(
      item("file-changes", "file-change", std::to_string(files) + " changed files", files_cut, nullptr));
  if (commits > 0) {
    items.push(item("commits", "commit", std::to_string(commits) + " commits", commits_cut,
                    policy == workspace::CommitPolicy::required ? "commit" : nullptr));
  }
  return items;
}

// Held against the scopes of the envelope: every file and every commit, not only those that are listed.
json::Value judge_scopes(const workspace::Worktree& worktree, const workspace::Evidence& evidence,
                         const std::string& attempt_path, const json::Value& envelope,
                         const workspace::GitRunner& git, json::Value& blockers) {
  const json::Value& effects = envelope.get("allowedSideEffects");
  const auto writes = workspace::allowed_scopes(effects, "filesystem-write", worktree.root);
  const auto commits = workspace::allowed_scopes(effects, "git-commit", worktree.root);
  std::vector<std::string> committed;
  if (!evidence.commits.empty() && !commits.paths.empty() && !commits.whole()) {
    auto paths = workspace::committed_paths(worktree, evidence, attempt_path, git);
    if (paths.has_value()) {
      committed = std::move(paths).value();
    } else {
      block(blockers, "unauthorized-git-commit", "what the commits change cannot be held against their scope",
            paths.error().code + ": " + paths.error().detail, false);
    }
  }
  return workspace::side_effects_json(evidence, writes, commits, committed);
}

// Nothing of these was run by us; the operator's own git would run what their configuration names.
void report_nested(const workspace::NestedGit& nested, Workspace& out) {
  json::Value paths = json::Value::array();
  std::string text;
  for (const std::string& path : nested.changed) {
    paths.push(path_value(path));
    text += (text.empty() ? "" : ", ") + path;
  }
  if (!nested.changed.empty()) {
    block(
        out.blockers, "nested-git-changed",
        "the run made or changed git directories below the top level: look at them before running git there",
        text, false);
  }
  if (!nested.blocking.empty()) {
    std::string blocking;
    for (const std::string& path : nested.blocking) {
      blocking += (blocking.empty() ? "" : ", ") + path;
    }
    block(out.blockers, "worktree-unsafe-entry",
          "the run left FIFOs, sockets or devices on which the operator's git would wait: remove them",
          blocking, false);
  }
  if (!nested.complete) {
    block(out.blockers, "nested-git-unknown",
          "not every directory could be searched for git directories of the run", "", false);
  }
  out.members.set("nestedGit", std::move(paths));
  json::Value names = json::Value::array();
  for (const std::string& path : nested.dot_names) {
    names.push(path_value(path));
  }
  json::Value dotfiles = json::Value::object();
  dotfiles.set("count", static_cast<std::uint64_t>(nested.dot_count));
  dotfiles.set("names", std::move(names));
  out.members.set("dotNames", std::move(dotfiles));
}

}  // namespace

Result<Workspace> workspace_step(int attempt_dirfd, const json::Value& header,
                                 const std::function<const Gates&()>& gates, const SecretRedactor* redactor) {
  Workspace out;
  // Left-over placeholders are reported and tried again by `runs recover`; they do not stand in the way of
  // evidence.
  const Status placeholders = boundary::remove_placeholders(attempt_dirfd);
  if (placeholders.has_error()) {
    block(out.blockers, placeholders.error().code, "empty protected directories stay in the work tree",
          placeholders.error().detail, true);
  }
  HR_TRY(path, path_text(header.get("worktree")));
  HR_TRY(attempt_path, path_of(attempt_dirfd));
  HR_TRY(envelope, read_envelope(attempt_dirfd));
  HR_TRY(baseline, read_baseline(attempt_dirfd, envelope));
  const auto policy = workspace::commit_policy(header.get("commitPolicy").as_string())
                          .value_or(workspace::CommitPolicy::allowed);
  workspace::OpenOptions options;
  options.trust_foreign_owner = header.get("trustForeignOwner").as_bool();
  options.keep_apart = {attempt_path};
  options.allow_blocking = true;
  HR_TRY(worktree, workspace::open_worktree(path, options));
  if (const std::string& launched = header.get("worktreeIdentity").as_string();
      !launched.empty() && launched != worktree.identity()) {
    return step_error("worktree-changed", "another worktree lies at its path now");
  }
  HR_TRY(nested, workspace::changed_nested_git(worktree.root_fd->get(),
                                               header.get("createdUnixMs").as_int().value_or(0)));
  report_nested(nested, out);
  const workspace::GitRunner git = hiding(worktree.root, nested.blocking);
  const auto collect = [&] {
    return workspace::collect_evidence(worktree, baseline, attempt_dirfd, attempt_path, git);
  };
  HR_TRY(evidence, collect());
  const Gates& verified = gates();         // before anything of the run reaches the repository
  if (took_time(verified.verification)) {  // what somebody else did meanwhile is not hidden
    HR_TRY(again, collect());
    evidence = std::move(again);
  }
  out.members.set("artifacts", artifacts(worktree, baseline, evidence, attempt_dirfd, envelope));
  std::size_t created = evidence.commits.size();
  if (policy == workspace::CommitPolicy::forbidden && created == 0 && evidence.why_not != "private-damaged") {
    HR_TRY(count, workspace::commits_created(worktree, attempt_dirfd, attempt_path, git));
    created = count;
  }
  HR_TRY(head, workspace::read_head(worktree));
  HR_TRY(report, workspace::import_commits(worktree, attempt_dirfd, attempt_path, policy, git));
  const json::Value side_effects =
      judge_scopes(worktree, evidence, attempt_path, envelope, git, out.blockers);
  out.members.set("sideEffects", side_effects);
  out.members.set("import", report.to_json());
  json::Value items = tell_lists(attempt_dirfd, evidence, policy, redactor, out);
  if (evidence.commits.empty() && !(head == baseline.head)) {  // else the import says it
    items.push(evidence_item("launch-head-moved", "other",
                             "somebody else moved HEAD of the work tree while the run worked; the run had "
                             "nothing to put on top of it",
                             nullptr));
  }
  for (const json::Value& item : verified.evidence.items()) {
    items.push(item);
  }
  out.members.set("evidence", std::move(items));
  out.members.set("verification", verified.verification);
  out.last_change_ms = workspace::last_change(worktree, evidence);
  judge_changes(evidence, report, policy, side_effects, created, out.blockers);
  out.keep_git = report.keep_private;
  return out;
}

}  // namespace hitchrail::finish
