#include <unistd.h>

#include <cstdio>

#include "cli/options.hpp"
#include "cli/print.hpp"
#include "cli/trust_ask.hpp"
#include "core/canonical.hpp"
#include "core/ids.hpp"
#include "launch/trust.hpp"

namespace hitchrail::cli {

namespace {

using workspace::TrustMode;

launch::TrustQuestion question_of(const TrustOptions& options) {
  return {options.common.plugin_dirs, options.common.profile_dirs, options.worktree, options.agent,
          options.trust_owner};
}

std::vector<std::string> cells(const workspace::TrustEntry& entry) {
  std::string note = entry.problem;
  note += entry.scope == "git-common-directory" ? (note.empty() ? "git" : ", git") : "";
  return {entry.loaded ? "reads" : "listed",
          std::string(to_string(entry.loaded ? entry.effect : entry.posture)),
          entry.kind,
          entry.path.empty() ? "(the whole worktree)" : entry.path,
          std::to_string(entry.byte_length),
          note};
}

const std::vector<std::string> heads = {"HARNESS", "POSTURE", "KIND", "PATH", "BYTES", "NOTE"};

std::vector<std::vector<std::string>> rows_of(const launch::TrustView& view) {
  std::vector<std::vector<std::string>> rows;
  for (const bool loaded : {true, false}) {
    for (const auto& entry : view.inventory.entries) {
      if (entry.loaded == loaded) {
        rows.push_back(cells(entry));
      }
    }
  }
  return rows;
}

std::string who(const workspace::TrustDecision& decision) {
  return decision.user.empty() ? "uid " + std::to_string(decision.uid)
                               : decision.user + " (uid " + std::to_string(decision.uid) + ")";
}

std::string told(const workspace::TrustDecision& decision) {
  return iso8601(decision.at_unix_ms) + "  " + std::string(to_string(decision.mode)) + " by " +
         who(decision) + (decision.agent.empty() ? "" : " for " + decision.agent) +
         (decision.expires_unix_ms == 0 ? "" : " until " + iso8601(decision.expires_unix_ms)) +
         (decision.reason.empty() ? "" : ": " + decision.reason) + "  " + decision.id;
}

json::Value view_json(const launch::TrustView& view) {
  json::Value entries = json::Value::array();
  const auto& sealed = view.inventory.document.get("entries").items();
  for (std::size_t i = 0; i < view.inventory.entries.size(); ++i) {
    json::Value one = sealed[i];
    one.set("loaded", view.inventory.entries[i].loaded);
    if (view.inventory.entries[i].loaded) {
      one.set("effect", to_string(view.inventory.entries[i].effect));
    }
    entries.push(std::move(one));
  }
  json::Value decisions = json::Value::array();
  for (const auto& decision : view.decisions) {
    decisions.push(trust_decision_json(decision));
  }
  json::Value out = json::Value::object({{"worktree", path_value(view.root)}});
  if (!view.agent.empty()) {
    out.set("agent", view.agent);
  }
  out.set("identity", view.identity.document);
  out.set("inventory", view.inventory.document);
  out.set("inventoryDigest", view.inventory.digest);
  out.set("entries", std::move(entries));
  out.set("projectMaximum", to_string(view.inventory.maximum));
  out.set("current", view.standing.current ? trust_decision_json(*view.standing.current) : json::Value());
  out.set("decisions", std::move(decisions));
  return out;
}

Result<int> show(const TrustOptions& options) {
  HR_TRY(view, launch::look_at_trust(question_of(options)));
  if (options.common.json) {
    out_json(view_json(view));
    return 0;
  }
  line("work tree  " + view.root);
  line("inventory  " + view.inventory.digest);
  line("identity   " + view.identity.digest);
  if (!view.inventory.maximum_reason.empty()) {
    line("policy     " + std::string(workspace::policy_place) + " " + view.inventory.maximum_reason);
  }
  line(view.standing.current ? "decision   " + told(*view.standing.current)
       : view.standing.other ? "decision   void, it was for another inventory: " + told(*view.standing.other)
                             : "decision   none");
  if (view.inventory.entries.empty()) {
    line("nothing in this repository is known to be read by a harness or to run on its own");
  } else {
    table(heads, rows_of(view));
  }
  for (const auto& decision : view.decisions) {
    line(told(decision));
  }
  return 0;
}

// "90s", "45m", "12h", "30d".
Result<std::int64_t> duration_ms(const std::string& text) {
  if (text.empty()) {
    return std::int64_t{0};
  }
  std::int64_t unit = 0;
  switch (text.back()) {
    case 's':
      unit = 1000;
      break;
    case 'm':
      unit = 60'000;
      break;
    case 'h':
      unit = 3'600'000;
      break;
    case 'd':
      unit = 86'400'000;
      break;
    default:
      break;
  }
  const std::string digits = text.substr(0, text.size() - 1);
  if (unit == 0 || digits.empty() || digits.size() > 9 ||
      digits.find_first_not_of("0123456789") != std::string::npos || std::stoll(digits) == 0) {
    return Error{ErrorClass::usage,    "trust-expires",
                 "read the options",   text,
                 "It is no duration.", "For example --expires 30d, 12h, 45m or 90s"};
  }
  return std::stoll(digits) * unit;
}

Result<int> decide(const TrustOptions& options, TrustMode mode) {
  launch::TrustAnswer answer;
  answer.mode = mode;
  answer.inventory_digest = options.inventory;
  answer.reason = options.reason;
  HR_TRY(expires, duration_ms(options.expires));
  answer.expires_after_ms = expires;
  HR_TRY(decision, launch::decide_trust(question_of(options), answer));
  if (options.common.json) {
    out_json(trust_decision_json(decision));
  } else {
    line(told(decision));
  }
  return 0;
}

int done(const Result<int>& result, bool json) {
  std::fflush(stdout);
  return result.has_error() ? report(result.error(), json) : result.value();
}

std::string answered() {
  char buffer[64];
  std::string text;
  if (std::fgets(buffer, sizeof buffer, stdin) != nullptr) {
    text = buffer;
  }
  // Only a whole line is an answer.
  if (text.empty() || text.back() != '\n') {
    return "";
  }
  text.pop_back();
  return text;
}

}  // namespace

int trust_show(const TrustOptions& options) {
  return done(show(options), options.common.json);
}
int trust_allow(const TrustOptions& options) {
  return done(decide(options, TrustMode::trusted), options.common.json);
}
int trust_restrict(const TrustOptions& options) {
  return done(decide(options, TrustMode::restricted), options.common.json);
}
int trust_deny(const TrustOptions& options) {
  return done(decide(options, TrustMode::denied), options.common.json);
}
int trust_revoke(const TrustOptions& options) {
  return done(decide(options, TrustMode::revoked), options.common.json);
}

Result<bool> ask_for_trust(const RunOptions& options, const Error& refusal) {
  if (refusal.code != "workspace-untrusted" || options.common.json || ::isatty(STDIN_FILENO) != 1 ||
      ::isatty(STDERR_FILENO) != 1) {
    return false;
  }
  const launch::TrustQuestion question{options.common.plugin_dirs, options.common.profile_dirs,
                                       options.worktree, options.agent, options.trust_owner};
  HR_TRY(view, launch::look_at_trust(question));
  // What is shown is what was refused, and a decision would help.
  launch::TrustQuestion exact = question;
  exact.worktree = view.root;
  exact.agent = view.agent;
  if (refusal.remedy != launch::allow_line(exact, view.inventory.digest)) {
    return false;
  }
  talk(refusal.detail);
  talk("What " + view.root + " holds for " + view.agent + ", inventory " + view.inventory.digest + ":");
  for (const auto& row : rows_of(view)) {
    std::string text = " ";
    for (const std::string& cell : row) {
      text += cell.empty() ? "" : " " + cell;
    }
    talk(text);
  }
  talk(
      "Allow it, as it is now? Type yes, or deny to have it refused from now on; anything else refuses this "
      "run.");
  const std::string text = answered();
  launch::TrustAnswer answer;
  answer.inventory_digest = view.inventory.digest;
  answer.reason = "answered on the terminal";
  if (text == "yes") {
    HR_TRY(decision, launch::decide_trust(question, answer));
    talk(told(decision));
    return true;
  }
  if (text == "deny") {
    answer.mode = TrustMode::denied;
    HR_TRY(decision, launch::decide_trust(question, answer));
    talk(told(decision));
  }
  return false;
}

}  // namespace hitchrail::cli
