// worktrees create, list, remove, prune: prints what launch/worktrees gives.

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "cli/options.hpp"
#include "cli/print.hpp"
#include "core/canonical.hpp"
#include "core/ids.hpp"
#include "core/text.hpp"
#include "launch/worktrees.hpp"

namespace hitchrail::cli {

namespace {

json::Value reasons_json(const std::vector<workspace::CleanupReason>& reasons) {
  json::Value out = json::Value::array();
  for (const auto& reason : reasons) {
    json::Value one = json::Value::object();
    one.set("code", reason.code);
    one.set("detail", reason.detail);
    out.push(std::move(one));
  }
  return out;
}

json::Value listed_json(const launch::Listed& listed) {
  json::Value out = json::Value::object();
  const workspace::WorktreeManifest& m = listed.manifest;
  out.set("id", m.id);
  out.set("state", listed.state);
  if (listed.error) {
    out.set("problem", error_json(*listed.error).get("error"));
    return out;
  }
  out.set("path", path_value(m.path));
  out.set("branch", path_value(m.branch));
  out.set("ownerAttemptId", m.lease.owner_attempt_id.empty() ? json::Value() : m.lease.owner_attempt_id);
  out.set("createdAt", m.created_at);
  json::Value size = json::Value::object();
  size.set("bytes", listed.size.bytes);
  size.set("entries", listed.size.entries);
  size.set("complete", listed.size.complete);
  out.set("size", std::move(size));
  auto manifest = workspace::worktree_manifest_json(m);
  if (manifest.has_value()) {
    out.set("manifest", std::move(manifest).value());
  }
  return out;
}

std::string size_text(const workspace::Size& size) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(size.bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit < 4; ++unit) {
    value /= 1024;
  }
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
  return (size.complete ? "" : "over ") + std::string(text);
}

// Whole days, hours or minutes since a time of iso8601().
std::string age_text(const std::string& since) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
  if (std::sscanf(since.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d", &year, &month, &day, &hour, &minute, &second) !=
      6) {
    return "";
  }
  std::tm utc{};
  utc.tm_year = year - 1900;
  utc.tm_mon = month - 1;
  utc.tm_mday = day;
  utc.tm_hour = hour;
  utc.tm_min = minute;
  utc.tm_sec = second;
  const std::int64_t seconds = std::max<std::int64_t>(0, unix_millis_now() / 1000 - ::timegm(&utc));
  return seconds >= 172'800 ? std::to_string(seconds / 86'400) + " d"
         : seconds >= 7'200 ? std::to_string(seconds / 3'600) + " h"
         : seconds >= 120   ? std::to_string(seconds / 60) + " min"
                            : std::to_string(seconds) + " s";
}

std::string base_text(const workspace::WorktreeManifest& m) {
  return (m.base.branch.empty() ? "" : m.base.branch + " ") + m.base.commit.substr(0, 12) + " (" +
         m.base.source + ")";
}

Result<int> create(const WorktreesOptions& options) {
  launch::CreateRequest request;
  request.dirs = {options.common.plugin_dirs, options.common.profile_dirs};
  request.trust_owner = options.trust_owner;
  request.what.repository = options.repository;
  request.what.path = options.name;
  request.what.base = options.base;
  request.what.branch = options.branch;
  request.what.fetch = options.fetch;
  request.what.accept_stale = options.has_stale_reason;
  request.what.stale_reason = options.stale_reason;
  if (options.lease_s != 0) {
    request.what.lease_s = options.lease_s;
  }
  HR_TRY(made, launch::create_managed(std::move(request)));
  if (options.common.json) {
    HR_TRY(document, workspace::worktree_manifest_json(made));
    out_json(document);
    return 0;
  }
  line(made.path);
  talk("made " + made.id + " on " + made.branch + ", from " + base_text(made));
  if (!made.base.fetch_error.empty()) {
    talk("the remote could not be asked: " + made.base.fetch_error);
  }
  return 0;
}

Result<int> list(const WorktreesOptions& options) {
  HR_TRY(all, launch::list_managed({options.common.plugin_dirs, options.common.profile_dirs}, options.all));
  if (options.common.json) {
    json::Value worktrees = json::Value::array();
    for (const auto& listed : all) {
      worktrees.push(listed_json(listed));
    }
    json::Value out = json::Value::object();
    out.set("worktrees", std::move(worktrees));
    out_json(out);
    return 0;
  }
  if (all.empty()) {
    talk("no worktrees made by hitchrail");
    return 0;
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& listed : all) {
    const workspace::WorktreeManifest& m = listed.manifest;
    if (listed.error) {
      rows.push_back({m.id, listed.state, "", "", "", "", "", listed.error->detail});
      continue;
    }
    rows.push_back({m.id, listed.state, m.branch, base_text(m), m.lease.owner_attempt_id,
                    age_text(m.created_at), size_text(listed.size), m.path});
  }
  table({"WORKTREE", "STATE", "BRANCH", "BASE", "OWNER", "AGE", "SIZE", "PATH"}, rows);
  return 0;
}

// A refusal with every reason: the first one's code would hide the others.
int refused(const workspace::Removal& removal, bool json) {
  bool overridable = true;
  std::string text;
  for (const auto& reason : removal.reasons) {
    overridable = overridable && workspace::may_override(reason.code);
    text += (text.empty() ? "" : "; ") + reason.code + ": " + reason.detail;
  }
  const Error error{ErrorClass::refused,
                    "worktree-cleanup-refused",
                    "remove worktree",
                    removal.id,
                    text,
                    overridable ? "mend it, or: hitchrail worktrees remove " + removal.id + " --force REASON"
                                : "this is never overridden: end the run, or look at the directory"};
  if (!json) {
    return report(error, false);
  }
  json::Value out = error_json(error);
  out.set("reasons", reasons_json(removal.reasons));
  out_json(out);
  return exit_code(error.kind);
}

Result<int> remove_one(const WorktreesOptions& options) {
  if (options.has_force && options.force.find_first_not_of(" \t\r\n") == std::string::npos) {
    return Error{ErrorClass::usage,
                 "force-reason-missing",
                 "remove worktree",
                 "--force",
                 "a reason is needed; it is recorded with your name",
                 "say why"};
  }
  HR_TRY(removal, launch::remove_managed({options.common.plugin_dirs, options.common.profile_dirs},
                                         options.name, options.force));
  if (!removal.reasons.empty()) {
    return refused(removal, options.common.json);
  }
  if (options.common.json) {
    json::Value out = json::Value::object();
    out.set("id", removal.id);
    out.set("removed", true);
    out.set("branchKept", removal.branch_kept);
    out.set("bypassed", reasons_json(removal.bypassed));
    out_json(out);
    return 0;
  }
  line("removed " + removal.id);
  for (const auto& reason : removal.bypassed) {
    talk("although " + reason.code + ": " + reason.detail);
  }
  if (removal.branch_kept) {
    talk("its branch stays");
  }
  return 0;
}

Result<int> prune(const WorktreesOptions& options) {
  HR_TRY(all,
         launch::prune_managed({options.common.plugin_dirs, options.common.profile_dirs}, options.dry_run));
  int code = 0;
  json::Value pruned = json::Value::array();
  for (const auto& each : all) {
    code = each.error ? std::max(code, exit_code(each.error->kind)) : code;
    json::Value one = each.error ? error_json(*each.error) : json::Value::object();
    one.set("id", each.id);
    one.set("path", path_value(each.path));
    one.set("what", each.what);
    pruned.push(std::move(one));
    if (!options.common.json) {
      line(std::string(each.error        ? "left "
                       : options.dry_run ? "would prune "
                                         : "pruned ") +
           each.id + "  " + each.what + "  " + each.path +
           (each.error ? "  " + each.error->code + ": " + each.error->detail : ""));
    }
  }
  if (options.common.json) {
    json::Value out = json::Value::object();
    out.set("dryRun", options.dry_run);
    out.set("worktrees", std::move(pruned));
    out_json(out);
  } else if (all.empty()) {
    talk("nothing to prune");
  }
  return code;
}

int done(const Result<int>& result, bool json) {
  std::fflush(stdout);
  return result.has_error() ? report(result.error(), json) : result.value();
}

}  // namespace

int worktrees_create(const WorktreesOptions& options) {
  return done(create(options), options.common.json);
}
int worktrees_list(const WorktreesOptions& options) {
  return done(list(options), options.common.json);
}
int worktrees_remove(const WorktreesOptions& options) {
  return done(remove_one(options), options.common.json);
}
int worktrees_prune(const WorktreesOptions& options) {
  return done(prune(options), options.common.json);
}

}  // namespace hitchrail::cli
