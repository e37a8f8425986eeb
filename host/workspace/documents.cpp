#include <algorithm>

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

namespace {

json::Value file_json(const FileState& file) {
  json::Value entry = json::Value::object();
  entry.set("path", path_value(file.path));
  entry.set("status", file.status);
  if (!file.previous_path.empty()) {
    entry.set("previousPath", path_value(file.previous_path));
  }
  for (const auto& [name, value] :
       {std::pair("indexBlobHash", &file.index_blob), std::pair("worktreeMode", &file.worktree_mode),
        std::pair("worktreeSha256", &file.worktree_sha256)}) {
    if (!value->empty()) {
      entry.set(name, *value);
    }
  }
  return entry;
}

Result<FileState> file_from_json(const json::Value& entry) {
  FileState file;
  HR_TRY(path, path_text(entry.get("path")));
  file.path = std::move(path);
  if (file.path.empty()) {
    return bad_baseline("files.path");
  }
  if (const json::Value* previous = entry.find("previousPath")) {
    HR_TRY(text, path_text(*previous));
    file.previous_path = std::move(text);
  }
  file.status = entry.get("status").as_string();
  file.index_blob = entry.get("indexBlobHash").as_string();
  file.worktree_mode = entry.get("worktreeMode").as_string();
  file.worktree_sha256 = entry.get("worktreeSha256").as_string();
  file.stamp = entry.get("stamp").as_string();
  return file;
}

std::string digest_of(const json::Value& files) {
  auto text = canonicalize(files);  // strings only: nothing in it can be refused
  return text.has_value() ? sha256_prefixed(text.value()) : std::string();
}

json::Value all_files(const Baseline& baseline) {
  std::vector<json::Value> files;
  files.reserve(baseline.files.size());
  for (const FileState& file : baseline.files) {
    files.push_back(file_json(file));
  }
  return json::Value::array(std::move(files));
}

// Members that the envelope and the document have in common, but for the files.
void set_common(json::Value& out, const Baseline& baseline, const std::string& digest) {
  out.set("capturedAt", iso8601(baseline.captured_at_ms));
  out.set("headSha", baseline.head.oid.empty() ? json::Value() : json::Value(baseline.head.oid));
  if (!baseline.head.ref.empty()) {
    out.set("ref", path_value(baseline.head.ref));
  }
  out.set("dirty", baseline.dirty);
  out.set("fileCount", static_cast<std::uint64_t>(baseline.files.size()));
  out.set("filesDigest", digest);
  const Preexisting& before = baseline.preexisting;
  json::Value commits = json::Value::object();
  commits.set("count", before.known ? json::Value(before.count) : json::Value());
  commits.set("digest", before.known ? json::Value(before.digest) : json::Value());
  out.set("preexistingCommits", std::move(commits));
  if (before.known && before.commits.size() == before.count) {
    out.set("preexistingCommitShas",
            json::Value::array(std::vector<json::Value>(before.commits.begin(), before.commits.end())));
  }
}

Error other_baseline(const char* detail) {
  return Error{ErrorClass::failed, "baseline-invalid", "read baseline", baseline_document_name, detail, ""};
}

}  // namespace

json::Value baseline_json(const Baseline& baseline) {
  json::Value files = all_files(baseline);
  json::Value out = json::Value::object();
  set_common(out, baseline, digest_of(files));
  out.set("files", baseline.files.size() <= max_listed_files ? std::move(files) : json::Value::array());
  return out;
}

Result<json::Value> baseline_document(const Baseline& baseline) {
  json::Value files = all_files(baseline);
  json::Value out = json::Value::object();
  out.set("schemaVersion", "launch-baseline/v1");
  set_common(out, baseline, digest_of(files));
  out.set("capturedUnixMs", baseline.captured_at_ms);
  std::vector<json::Value> stamped;
  stamped.reserve(baseline.files.size());
  for (const FileState& file : baseline.files) {
    json::Value entry = file_json(file);
    if (!file.stamp.empty()) {
      entry.set("stamp", file.stamp);
    }
    stamped.push_back(std::move(entry));
  }
  out.set("files", json::Value::array(std::move(stamped)));
  HR_TRY(digest, seal_document(out));
  (void)digest;
  return out;
}

Result<Baseline> baseline_from_json(const json::Value& value, const std::string& document) {
  if (!value.is_object() || !value.get("files").is_array() || !value.get("dirty").is_bool()) {
    return bad_baseline("files");
  }
  json::Value whole;
  if (!document.empty()) {
    const json::ParseLimits limits{256u << 20, 16'000'000};
    HR_TRY(parsed, json::parse(document, json::Duplicates::refuse, baseline_document_name, limits));
    HR_CHECK(verify_document(parsed));
    whole = std::move(parsed);
  }
  const json::Value& from = document.empty() ? value : whole;
  Baseline out;
  out.dirty = value.get("dirty").as_bool();
  out.head.oid = value.get("headSha").as_string();
  out.captured_at_ms = from.get("capturedUnixMs").as_int().value_or(0);
  if (const json::Value* ref = value.find("ref")) {
    HR_TRY(text, path_text(*ref));
    out.head.ref = std::move(text);
    constexpr std::string_view kHeads = "refs/heads/";
    out.branch = out.head.ref.starts_with(kHeads) ? out.head.ref.substr(kHeads.size()) : out.head.ref;
  }
  for (const json::Value& entry : from.get("files").items()) {
    HR_TRY(file, file_from_json(entry));
    out.files.push_back(std::move(file));
  }
  if (const json::Value* digest = value.find("filesDigest");
      digest != nullptr && digest->as_string() != digest_of(all_files(out))) {
    return other_baseline("its files are not those of the task envelope");
  }
  const json::Value& before = value.get("preexistingCommits");
  out.preexisting.known = before.get("digest").is_string();
  out.preexisting.count = static_cast<std::uint64_t>(before.get("count").as_int().value_or(0));
  out.preexisting.digest = before.get("digest").as_string();
  for (const json::Value& commit : value.get("preexistingCommitShas").items()) {
    out.preexisting.commits.push_back(commit.as_string());
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

bool Scopes::whole() const {
  return std::find(paths.begin(), paths.end(), "") != paths.end();
}

bool Scopes::allow(std::string_view path) const {
  const std::string_view name = path.ends_with('/') ? path.substr(0, path.size() - 1) : path;
  return std::any_of(paths.begin(), paths.end(), [&](const std::string& scope) {
    return scope.empty() || name == scope ||
           (name.size() > scope.size() && name.starts_with(scope) && name[scope.size()] == '/');
  });
}

Scopes allowed_scopes(const json::Value& effects, std::string_view kind, std::string_view root) {
  Scopes out;
  const Scopes below{{std::string(root)}};
  for (const json::Value& effect : effects.items()) {
    auto scope = path_text(effect.get("scope"));
    if (effect.get("kind").as_string() != kind || scope.has_error() || scope.value().empty()) {
      continue;
    }
    const std::string& path = scope.value();
    if (path == "/" || Scopes{{path}}.allow(root)) {
      out.paths.emplace_back();
    } else if (root == "/" || below.allow(path)) {
      out.paths.push_back(path.substr(root == "/" ? 1 : root.size() + 1));
    }
  }
  return out;
}

json::Value changed_files_json(const Evidence& evidence, std::size_t limit) {
  std::vector<json::Value> out;
  for (const ChangedFile& file : evidence.changed) {
    if (out.size() == limit) {
      break;
    }
    json::Value entry = json::Value::object();
    entry.set("path", path_value(file.path));
    entry.set("status", file.status);
    entry.set("previousPath", file.previous_path.empty() ? json::Value() : path_value(file.previous_path));
    entry.set("verified", file.verified);
    out.push_back(std::move(entry));
  }
  return json::Value::array(std::move(out));
}

json::Value commits_json(const Evidence& evidence, std::size_t limit) {
  std::vector<json::Value> out;
  for (const Commit& commit : evidence.commits) {
    if (out.size() == limit) {
      break;
    }
    json::Value entry = json::Value::object();
    entry.set("oid", commit.oid);
    entry.set("subject", commit.subject);
    out.push_back(std::move(entry));
  }
  return json::Value::array(std::move(out));
}

namespace {

constexpr std::size_t kNamedOutside = 10;

// What lies outside the scopes, with the first of it by name.
struct Outside {
  std::size_t count = 0;
  std::string first, names;

  void add(const std::string& path) {
    if (count == 0) {
      first = path;
    }
    if (count < kNamedOutside) {
      names += (count == 0 ? "" : ", ") + escape_cut(path, 200);
    } else if (count == kNamedOutside) {
      names += ", and more";
    }
    ++count;
  }
};

}  // namespace

json::Value side_effects_json(const Evidence& evidence, const Scopes& writes, const Scopes& commits,
                              const std::vector<std::string>& committed) {
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
  Outside written;
  for (const ChangedFile& file : evidence.changed) {
    if (!writes.allow(file.path)) {
      written.add(file.path);
    } else if (!file.previous_path.empty() && !writes.allow(file.previous_path)) {
      written.add(file.previous_path);
    }
  }
  if (evidence.changed.size() > written.count) {
    add("filesystem-write", std::to_string(evidence.changed.size() - written.count) + " changed files",
        nullptr, true);
  }
  if (written.count > 0) {
    add("filesystem-write",
        std::to_string(written.count) + " changed files outside every allowed scope: " + written.names,
        path_value(written.first), false);
  }
  Outside touched;
  for (const std::string& path : committed) {
    if (!commits.allow(path)) {
      touched.add(path);
    }
  }
  if (!evidence.commits.empty()) {
    add("git-commit", std::to_string(evidence.commits.size()) + " commits", evidence.commits.front().oid,
        !commits.paths.empty());
  }
  if (touched.count > 0 && !commits.paths.empty()) {
    add("git-commit",
        "the commits change " + std::to_string(touched.count) +
            " files outside every allowed scope: " + touched.names,
        path_value(touched.first), false);
  }
  if (!evidence.head_attributable) {
    const char* what = evidence.why_not == "preexisting-history"
                           ? "HEAD of the run moved to commits that other refs had at launch"
                       : evidence.why_not == "private-damaged"
                           ? "HEAD of the run, or its commits, cannot be read"
                           : "HEAD of the run does not descend from the launch's on the same branch";
    add("git-commit", what, evidence.head.oid.empty() ? json::Value() : json::Value(evidence.head.oid),
        false);
  }
  return json::Value::array(std::move(out));
}

}  // namespace hitchrail::workspace
