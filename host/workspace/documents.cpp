#include "core/canonical.hpp"
#include "core/ids.hpp"
#include "core/text.hpp"
#include "workspace/workspace.hpp"

namespace hitchrail::workspace {
namespace {

json::Value ref_json(const RefReport& ref) {
  json::Value out = json::Value::object();
  out.set("ref", path_value(ref.ref));
  if (!ref.from.empty()) {
    out.set("from", ref.from);
  }
  if (!ref.to.empty()) {
    out.set("to", ref.to);
  }
  if (!ref.reason.empty()) {
    out.set("reason", ref.reason);
  }
  return out;
}

Error bad_baseline(const char* field) {
  return Error{
      ErrorClass::internal, "baseline-invalid", "read baseline", field, "the member has a wrong type", ""};
}

}  // namespace

std::string_view to_string(CommitPolicy policy) {
  switch (policy) {
    case CommitPolicy::forbidden:
      return "forbidden";
    case CommitPolicy::allowed:
      return "allowed";
    case CommitPolicy::required:
      break;
  }
  return "required";
}

std::optional<CommitPolicy> commit_policy(std::string_view text) {
  for (const CommitPolicy policy : {CommitPolicy::forbidden, CommitPolicy::allowed, CommitPolicy::required}) {
    if (to_string(policy) == text) {
      return policy;
    }
  }
  return std::nullopt;
}

json::Value baseline_json(const Baseline& baseline) {
  json::Value out = json::Value::object();
  out.set("capturedAt", iso8601(baseline.captured_at_ms));
  out.set("headSha", baseline.head.oid.empty() ? json::Value() : json::Value(baseline.head.oid));
  if (!baseline.head.ref.empty()) {
    out.set("ref", path_value(baseline.head.ref));
  }
  out.set("dirty", baseline.dirty);
  std::vector<json::Value> files;
  for (const FileState& file : baseline.files) {
    json::Value entry = json::Value::object();
    entry.set("path", path_value(file.path));
    entry.set("status", file.status);
    if (!file.previous_path.empty()) {
      entry.set("previousPath", path_value(file.previous_path));
    }
    if (!file.index_blob.empty()) {
      entry.set("indexBlobHash", file.index_blob);
    }
    if (!file.worktree_sha256.empty()) {
      entry.set("worktreeSha256", file.worktree_sha256);
    }
    files.push_back(std::move(entry));
  }
  out.set("files", json::Value::array(std::move(files)));
  return out;
}

Result<Baseline> baseline_from_json(const json::Value& value) {
  if (!value.is_object() || !value.get("files").is_array() || !value.get("dirty").is_bool()) {
    return bad_baseline("files");
  }
  Baseline out;
  out.dirty = value.get("dirty").as_bool();
  out.head.oid = value.get("headSha").as_string();
  if (const json::Value* ref = value.find("ref")) {
    HR_TRY(text, path_text(*ref));
    out.head.ref = std::move(text);
    constexpr std::string_view kHeads = "refs/heads/";
    out.branch = out.head.ref.starts_with(kHeads) ? out.head.ref.substr(kHeads.size()) : out.head.ref;
  }
  for (const json::Value& entry : value.get("files").items()) {
    FileState file;
    HR_TRY(path, path_text(entry.get("path")));
    file.path = std::move(path);
    if (const json::Value* previous = entry.find("previousPath")) {
      HR_TRY(text, path_text(*previous));
      file.previous_path = std::move(text);
    }
    file.status = entry.get("status").as_string();
    file.index_blob = entry.get("indexBlobHash").as_string();
    file.worktree_sha256 = entry.get("worktreeSha256").as_string();
    out.files.push_back(std::move(file));
  }
  return out;
}

json::Value ImportReport::to_json() const {
  const auto list = [](const std::vector<RefReport>& refs) {
    std::vector<json::Value> items;
    for (const RefReport& ref : refs) {
      items.push_back(ref_json(ref));
    }
    return json::Value::array(std::move(items));
  };
  json::Value out = json::Value::object();
  out.set("imported", list(imported));
  out.set("notImported", list(not_imported));
  out.set("privateKept", keep_private);
  return out;
}

json::Value changed_files_json(const Evidence& evidence) {
  std::vector<json::Value> out;
  for (const ChangedFile& file : evidence.changed) {
    json::Value entry = json::Value::object();
    entry.set("path", path_value(file.path));
    entry.set("status", file.status);
    entry.set("previousPath", file.previous_path.empty() ? json::Value() : path_value(file.previous_path));
    entry.set("verified", file.verified);
    out.push_back(std::move(entry));
  }
  return json::Value::array(std::move(out));
}

json::Value commits_json(const Evidence& evidence) {
  std::vector<json::Value> out;
  for (const Commit& commit : evidence.commits) {
    json::Value entry = json::Value::object();
    entry.set("oid", commit.oid);
    entry.set("subject", commit.subject);
    out.push_back(std::move(entry));
  }
  return json::Value::array(std::move(out));
}

json::Value side_effects_json(const Evidence& evidence, bool write_allowed, bool commit_allowed) {
  std::vector<json::Value> out;
  const auto add = [&](const char* kind, std::string description, json::Value target, bool authorized) {
    json::Value entry = json::Value::object();
    entry.set("kind", kind);
    entry.set("description", std::move(description));
    entry.set("target", std::move(target));
    entry.set("authorized", authorized);
    entry.set("verified", true);
    out.push_back(std::move(entry));
  };
  if (!evidence.changed.empty()) {
    const std::string more = evidence.changed_truncated ? " and more" : "";
    add("filesystem-write", std::to_string(evidence.changed.size()) + more + " changed files", nullptr,
        write_allowed);
  }
  if (!evidence.commits.empty()) {
    const std::string more = evidence.commits_truncated ? " and more" : "";
    add("git-commit", std::to_string(evidence.commits.size()) + more + " commits",
        evidence.commits.front().oid, commit_allowed);
  }
  if (!evidence.head_attributable) {
    add("git-commit", "HEAD of the run does not descend from the launch's on the same branch",
        evidence.head.oid.empty() ? json::Value() : json::Value(evidence.head.oid), false);
  }
  return json::Value::array(std::move(out));
}

}  // namespace hitchrail::workspace
