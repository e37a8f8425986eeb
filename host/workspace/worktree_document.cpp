// worktree-manifest/v1 as JSON and back. A document is read by taking its members and building it again: what
// does not come out the same, unknown members included, is refused.

#include <algorithm>
#include <array>

#include "core/canonical.hpp"
#include "core/ids.hpp"
#include "core/secret_shapes.hpp"
#include "core/text.hpp"
#include "workspace/refs.hpp"
#include "workspace/worktree_manifest.hpp"

namespace hitchrail::workspace {
namespace {

constexpr std::string_view kSchema = "worktree-manifest/v1";
constexpr std::size_t kId = 240;
constexpr std::size_t kPath = 4096;
constexpr std::size_t kReason = 1000;
constexpr std::size_t kMessage = 2000;
constexpr std::size_t kMaxOverrides = 100;

Error damaged(const std::string& field, const std::string& detail) {
  return Error{ErrorClass::environment,
               "worktree-manifest-damaged",
               "read worktree manifest",
               field,
               detail,
               "look at worktrees/ of the state directory; git knows the worktree still: git worktree list"};
}

// Members are added when they say something: an absent one and an empty one are the same.
class Builder {
 public:
  void text(json::Value& to, const char* field, const std::string& value, std::size_t max) {
    if (value.empty()) {
      return;
    }
    if (value.size() > max || !is_valid_utf8(value) || value.find('\x7f') != std::string::npos ||
        value.find('\0') != std::string::npos) {
      fail(field, "it has more than " + std::to_string(max) + " bytes, or bytes no document may hold");
    }
    if (holds_secret_shape(value)) {
      fail(field, "it looks like a secret");
    }
    to.set(field, value);
  }
  void path(json::Value& to, const char* field, const std::string& value) {
    if (value.size() > kPath || value.find('\0') != std::string::npos) {
      fail(field, "it has more than 4096 bytes");
    }
    if (!value.empty()) {
      to.set(field, path_value(value));
    }
  }
  void oid(json::Value& to, const char* field, const std::string& value) {
    if (!value.empty() && !valid_oid(value, "sha1") && !valid_oid(value, "sha256")) {
      fail(field, "it is no object id");
    }
    text(to, field, value, 64);
  }
  void time(json::Value& to, const char* field, const std::string& value) {
    constexpr std::string_view form = "0000-00-00T00:00:00.000Z";
    bool fits = value.size() == form.size();
    for (std::size_t i = 0; fits && i < form.size(); ++i) {
      fits = form[i] == '0' ? value[i] >= '0' && value[i] <= '9' : value[i] == form[i];
    }
    if (!value.empty() && !fits) {
      fail(field, "it is no time of the form " + std::string(form));
    }
    text(to, field, value, form.size());
  }
  template <std::size_t N>
  void one_of(json::Value& to, const char* field, const std::string& value,
              const std::array<std::string_view, N>& choices) {
    if (std::find(choices.begin(), choices.end(), value) == choices.end()) {
      fail(field, "it is \"" + escape_cut(value, 40) + "\"");
    }
    to.set(field, value);
  }
  void identity(json::Value& to, const char* field, const std::string& value) {
    const bool fits = value.find(':') != std::string::npos && value.find(':') == value.rfind(':') &&
                      value.find_first_not_of("0123456789:") == std::string::npos;
    if (!value.empty() && !fits) {
      fail(field, "it is no DEVICE:INODE");
    }
    text(to, field, value, 64);
  }
  void fail(const char* field, const std::string& detail) {
    if (!error_) {
      error_ = damaged(field, detail);
    }
  }
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  std::optional<Error> error_;
};

constexpr std::array<std::string_view, 4> kSources = {"remote", "local", "local-stale", "legacy-adopted"};
constexpr std::array<std::string_view, 4> kCreation = {"planned", "creating", "ready", "failed"};
constexpr std::array<std::string_view, 6> kIntegration = {"idle",    "preparing",  "merging",
                                                          "pushing", "integrated", "failed"};
constexpr std::array<std::string_view, 5> kCleanup = {"active", "blocked", "removing", "removed", "failed"};
constexpr std::array<std::string_view, 3> kRebase = {"idle", "rebasing", "failed"};
constexpr std::array<std::string_view, 7> kOperations = {
    "create",           "task-update", "rebase", "integration-prepare", "integration-merge",
    "integration-push", "cleanup"};
constexpr std::array<std::string_view, 11> kReasons = {
    "active-run",      "active-lease",      "dirty",
    "untracked",       "unpushed",          "unmerged",
    "external-hold",   "manifest-mismatch", "worktree-missing",
    "branch-mismatch", "inspection-failed"};

json::Value base_json(const WorktreeManifest::Base& base, Builder& make) {
  json::Value out = json::Value::object();
  make.path(out, "branch", base.branch);
  make.oid(out, "commit", base.commit);
  if (!base.source.empty()) {
    make.one_of(out, "source", base.source, kSources);
  }
  make.time(out, "resolvedAt", base.resolved_at);
  make.time(out, "fetchedAt", base.fetched_at);
  make.text(out, "fetchError", base.fetch_error, kMessage);
  if (base.stale_base) {
    json::Value stale = json::Value::object();
    make.text(stale, "reason", base.stale_base->reason, kReason);
    make.time(stale, "acknowledgedAt", base.stale_base->acknowledged_at);
    make.text(stale, "actor", base.stale_base->actor, kId);
    out.set("staleBaseAcknowledgement", std::move(stale));
  }
  return out;
}

json::Value lease_json(const WorktreeManifest::Lease& lease, Builder& make) {
  json::Value out = json::Value::object();
  make.text(out, "id", lease.id, kId);
  make.text(out, "ownerTaskId", lease.owner_task_id, kId);
  make.text(out, "ownerAttemptId", lease.owner_attempt_id, kId);
  make.time(out, "acquiredAt", lease.acquired_at);
  make.time(out, "expiresAt", lease.expires_at);
  if (lease.duration_s < min_lease_s || lease.duration_s > max_lease_s) {
    make.fail("lease.durationSeconds", "it is not within 60 seconds and 365 days");
  }
  out.set("durationSeconds", lease.duration_s);
  return out;
}

json::Value work_json(const WorktreeManifest& m, json::Value& out, Builder& make) {
  json::Value lifecycle = json::Value::object();
  make.one_of(lifecycle, "creation", m.creation, kCreation);
  make.one_of(lifecycle, "integration", m.integration_state, kIntegration);
  make.one_of(lifecycle, "cleanup", m.cleanup, kCleanup);
  out.set("lifecycle", std::move(lifecycle));
  json::Value rebase = json::Value::object();
  make.one_of(rebase, "state", m.rebase.state, kRebase);
  make.path(rebase, "targetBase", m.rebase.target_base);
  make.time(rebase, "startedAt", m.rebase.started_at);
  make.time(rebase, "completedAt", m.rebase.completed_at);
  out.set("rebase", std::move(rebase));
  json::Value integration = json::Value::object();
  make.path(integration, "worktreePath", m.integration.worktree_path);
  make.oid(integration, "baseCommit", m.integration.base_commit);
  make.oid(integration, "integrationHead", m.integration.integration_head);
  make.oid(integration, "targetCommit", m.integration.target_commit);
  make.time(integration, "startedAt", m.integration.started_at);
  make.time(integration, "completedAt", m.integration.completed_at);
  return integration;
}

json::Value error_json(const WorktreeManifest::LastError& error, Builder& make) {
  json::Value out = json::Value::object();
  make.one_of(out, "operation", error.operation, kOperations);
  make.text(out, "code", error.code, kId);
  make.text(out, "message", error.message, kMessage);
  make.time(out, "at", error.at);
  out.set("recoverable", error.recoverable);
  return out;
}

json::Value overrides_json(const WorktreeManifest& m, Builder& make) {
  json::Value out = json::Value::array();
  if (m.overrides.size() > kMaxOverrides) {
    make.fail("overrides", "more than 100");
  }
  for (const auto& each : m.overrides) {
    json::Value one = json::Value::object();
    one.set("operation", "cleanup");
    make.text(one, "reason", each.reason, kReason);
    make.text(one, "actor", each.actor, kId);
    make.time(one, "recordedAt", each.recorded_at);
    json::Value bypassed = json::Value::array();
    for (const std::string& reason : each.bypassed) {
      if (std::find(kReasons.begin(), kReasons.end(), reason) == kReasons.end()) {
        make.fail("overrides.bypassedReasons", "\"" + escape_cut(reason, 40) + "\" is no reason");
      }
      bypassed.push(reason);
    }
    one.set("bypassedReasons", std::move(bypassed));
    out.push(std::move(one));
  }
  return out;
}

json::Value document_of(const WorktreeManifest& m, Builder& make) {
  json::Value out = json::Value::object();
  out.set("schemaVersion", std::string(kSchema));
  make.text(out, "id", m.id, kId);
  if (m.id.empty() || m.revision < 0) {
    make.fail("id", "the id or the revision is missing");
  }
  out.set("revision", m.revision);
  make.text(out, "taskId", m.task_id, kId);
  json::Value repository = json::Value::object();
  make.path(repository, "name", m.repository.name);
  make.path(repository, "rootPath", m.repository.root_path);
  make.path(repository, "commonGitDir", m.repository.common_git_dir);
  make.text(repository, "originFingerprint", m.repository.origin_fingerprint, 71);
  out.set("repository", std::move(repository));
  json::Value identity = json::Value::object();
  make.text(identity, "bootId", m.identity.boot_id, 64);
  make.identity(identity, "root", m.identity.root);
  make.identity(identity, "gitDir", m.identity.git_dir);
  make.identity(identity, "commonGitDir", m.identity.common_git_dir);
  out.set("identity", std::move(identity));
  make.path(out, "path", m.path);
  make.path(out, "branch", m.branch);
  out.set("branchMade", m.branch_made);
  make.text(out, "registration", m.registration, kId);
  out.set("base", base_json(m.base, make));
  out.set("lease", lease_json(m.lease, make));
  json::Value integration = work_json(m, out, make);
  out.set("integration", std::move(integration));
  make.time(out, "createdAt", m.created_at);
  make.time(out, "updatedAt", m.updated_at);
  make.time(out, "removedAt", m.removed_at);
  if (m.last_error) {
    out.set("lastError", error_json(*m.last_error, make));
  }
  out.set("overrides", overrides_json(m, make));
  return out;
}

// ---- and back

std::string text_of(const json::Value& from, const char* field) {
  return from.get(field).as_string();
}

std::string path_of(const json::Value& from, const char* field) {
  const json::Value* value = from.find(field);
  if (value == nullptr) {
    return {};
  }
  auto text = path_text(*value);
  return text.has_value() ? std::move(text).value() : std::string();
}

void read_work(const json::Value& d, WorktreeManifest& m) {
  const json::Value& lifecycle = d.get("lifecycle");
  m.creation = text_of(lifecycle, "creation");
  m.integration_state = text_of(lifecycle, "integration");
  m.cleanup = text_of(lifecycle, "cleanup");
  const json::Value& rebase = d.get("rebase");
  m.rebase = {text_of(rebase, "state"), path_of(rebase, "targetBase"), text_of(rebase, "startedAt"),
              text_of(rebase, "completedAt")};
  const json::Value& integration = d.get("integration");
  m.integration = {path_of(integration, "worktreePath"),    text_of(integration, "baseCommit"),
                   text_of(integration, "integrationHead"), text_of(integration, "targetCommit"),
                   text_of(integration, "startedAt"),       text_of(integration, "completedAt")};
  if (const json::Value* error = d.find("lastError")) {
    m.last_error = WorktreeManifest::LastError{text_of(*error, "operation"), text_of(*error, "code"),
                                               text_of(*error, "message"), text_of(*error, "at"),
                                               error->get("recoverable").as_bool()};
  }
  for (const json::Value& each : d.get("overrides").items()) {
    WorktreeManifest::Override one{
        text_of(each, "reason"), text_of(each, "actor"), text_of(each, "recordedAt"), {}};
    for (const json::Value& reason : each.get("bypassedReasons").items()) {
      one.bypassed.push_back(reason.as_string());
    }
    m.overrides.push_back(std::move(one));
  }
}

void read_base(const json::Value& base, WorktreeManifest& m) {
  m.base = {path_of(base, "branch"),
            text_of(base, "commit"),
            text_of(base, "source"),
            text_of(base, "resolvedAt"),
            text_of(base, "fetchedAt"),
            text_of(base, "fetchError"),
            std::nullopt};
  if (const json::Value* stale = base.find("staleBaseAcknowledgement")) {
    m.base.stale_base = WorktreeManifest::Acknowledgement{
        text_of(*stale, "reason"), text_of(*stale, "acknowledgedAt"), text_of(*stale, "actor")};
  }
}

}  // namespace

Result<json::Value> worktree_manifest_json(const WorktreeManifest& manifest) {
  Builder make;
  json::Value document = document_of(manifest, make);
  if (make.error()) {
    return *make.error();
  }
  HR_TRY(digest, seal_document(document));
  (void)digest;
  return document;
}

Result<WorktreeManifest> parse_worktree_manifest(const json::Value& d) {
  if (d.get("schemaVersion").as_string() != kSchema) {
    return damaged("schemaVersion", "it is not " + std::string(kSchema));
  }
  if (verify_document(d).has_error()) {
    return damaged("digest", "it is not the digest of this document");
  }
  WorktreeManifest m;
  m.id = text_of(d, "id");
  m.revision = d.get("revision").as_int().value_or(-1);
  m.task_id = text_of(d, "taskId");
  const json::Value& repository = d.get("repository");
  m.repository = {path_of(repository, "name"), path_of(repository, "rootPath"),
                  path_of(repository, "commonGitDir"), text_of(repository, "originFingerprint")};
  const json::Value& identity = d.get("identity");
  m.identity = {text_of(identity, "bootId"), text_of(identity, "root"), text_of(identity, "gitDir"),
                text_of(identity, "commonGitDir")};
  m.path = path_of(d, "path");
  m.branch = path_of(d, "branch");
  m.branch_made = d.get("branchMade").as_bool();
  m.registration = text_of(d, "registration");
  read_base(d.get("base"), m);
  const json::Value& lease = d.get("lease");
  m.lease = {text_of(lease, "id"),
             text_of(lease, "ownerTaskId"),
             text_of(lease, "ownerAttemptId"),
             text_of(lease, "acquiredAt"),
             text_of(lease, "expiresAt"),
             lease.get("durationSeconds").as_int().value_or(0)};
  read_work(d, m);
  m.created_at = text_of(d, "createdAt");
  m.updated_at = text_of(d, "updatedAt");
  m.removed_at = text_of(d, "removedAt");
  HR_TRY(again, worktree_manifest_json(m));
  if (!(again == d)) {
    return damaged(m.id.empty() ? "document" : m.id, "a member is unknown, missing or out of its bounds");
  }
  return m;
}

json::Value manifest_reference(const WorktreeManifest& manifest) {
  json::Value out = json::Value::object();
  out.set("worktreeManifestId", manifest.id);
  out.set("ownershipLeaseId", manifest.lease.id);
  if (!manifest.base.branch.empty()) {
    out.set("baseBranch", path_value(manifest.base.branch));
  }
  out.set("resolvedBaseCommit", manifest.base.commit);
  out.set("baseResolutionSource", manifest.base.source);
  return out;
}

}  // namespace hitchrail::workspace
