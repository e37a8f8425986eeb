// Behind `hitchrail trust`: looking, and writing a decision down.

#include <algorithm>

#include "core/ids.hpp"
#include "core/secret_shapes.hpp"
#include "core/text.hpp"
#include "launch/presets.hpp"
#include "launch/stages.hpp"
#include "launch/trust.hpp"
#include "launch/trust_store.hpp"

namespace hitchrail::launch {

namespace {

constexpr std::size_t max_reason = 1000;
constexpr std::int64_t max_expiry_ms = std::int64_t{366} * 10 * 86'400'000;

Error trust_error(ErrorClass kind, const char* code, std::string object, std::string detail,
                  std::string remedy) {
  return Error{kind, code, "decide on trust", std::move(object), std::move(detail), std::move(remedy)};
}

Status check_answer(const TrustAnswer& answer) {
  const std::string& reason = answer.reason;
  const bool control = std::any_of(reason.begin(), reason.end(),
                                   [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  if (reason.size() > max_reason || control || !is_valid_utf8(reason) || holds_secret_shape(reason)) {
    return trust_error(ErrorClass::usage, "trust-reason", escape_cut(reason, 60),
                       "A reason is one line of at most 1000 bytes of UTF-8, and holds no secret.",
                       "Say it in other words.");
  }
  if (answer.expires_after_ms < 0 || answer.expires_after_ms > max_expiry_ms) {
    return trust_error(ErrorClass::usage, "trust-expires", std::to_string(answer.expires_after_ms) + " ms",
                       "A decision expires after a time between one second and ten years.",
                       "For example --expires 30d");
  }
  const bool grants =
      answer.mode == workspace::TrustMode::trusted || answer.mode == workspace::TrustMode::restricted;
  if (grants && answer.inventory_digest.empty()) {
    return trust_error(ErrorClass::usage, "trust-inventory-missing", "--inventory",
                       "Trust is given to what was looked at, and that is named by its digest.",
                       "hitchrail trust show");
  }
  return {};
}

bool plain_word(const std::string& word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("/._-+:@%,=").find(c) != std::string_view::npos;
  });
}

// One word of a shell's line that survives every printer: nothing but printable ASCII, no space.
std::string shell_word(const std::string& word) {
  if (plain_word(word)) {
    return word;
  }
  constexpr const char* hex = "0123456789abcdef";
  std::string out = "$'";
  for (const char c : word) {
    if (plain_word(std::string(1, c))) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += {'\\', 'x', hex[byte >> 4], hex[byte & 15]};
    }
  }
  return out + "'";
}

// The repository as a run would find it, with the same refusals.
struct Looked {
  Ground ground;
  WorktreeStage worktree;
  TrustView view;
};
Result<Looked> look(const TrustQuestion& question) {
  Request request;
  request.dirs = {question.plugin_dirs, question.profile_dirs};
  request.agent = question.agent;
  request.worktree = question.worktree;
  request.trust_owner = question.trust_owner;
  Looked out;
  HR_TRY(ground, survey(request, false));
  out.ground = std::move(ground);
  workspace::TrustFiles files{true, {}, {}};
  if (!question.agent.empty()) {
    std::vector<std::string> folders;
    for (const auto& dir : out.ground.installation.profile_dirs) {
      folders.push_back(dir + "/harness");
    }
    HR_TRY(found, profiles::find_profiles(folders));
    HR_TRY(profile, profiles::select_profile(found, question.agent));
    out.view.agent = profile.id;
    files = trust_files(profile);
  }
  HR_TRY(worktree, stage_worktree(out.ground, request, ProfileStage{}));
  out.worktree = std::move(worktree);
  const workspace::Worktree& tree = out.worktree.worktree;
  out.view.root = tree.root;
  HR_TRY(identity, workspace::trust_identity(tree));
  out.view.identity = std::move(identity);
  HR_TRY(inventory, workspace::scan_trust(tree, files));
  out.view.inventory = std::move(inventory);
  HR_TRY(decisions, trust_decisions(out.ground.home ? &*out.ground.home : nullptr, out.view.identity.digest));
  out.view.standing =
      workspace::trust_standing(decisions, out.view.inventory.digest, out.view.agent, unix_millis_now());
  out.view.decisions = std::move(decisions);
  return out;
}

workspace::TrustDecision decision_of(const store::TrustRecord& record) {
  workspace::TrustDecision out;
  out.id = record.id;
  out.identity_digest = record.identity;
  out.inventory_digest = record.inventory;
  // A mode of a newer build denies: this one cannot know what it means.
  out.mode = workspace::trust_mode(record.mode).value_or(workspace::TrustMode::denied);
  out.agent = record.agent;
  out.uid = record.uid;
  out.user = record.user;
  out.reason = record.reason;
  out.at_unix_ms = record.at_unix_ms;
  out.expires_unix_ms = record.expires_unix_ms;
  out.supersedes = record.supersedes;
  out.workspace = record.workspace;
  return out;
}

}  // namespace

workspace::TrustFiles trust_files(const profiles::SupportProfile& profile) {
  return {profile.workspace_files_stated, profile.workspace_instructions, profile.workspace_executable};
}

Result<std::vector<workspace::TrustDecision>> trust_decisions(const store::StateHome* home,
                                                              const std::string& identity_digest) {
  std::vector<workspace::TrustDecision> out;
  if (home == nullptr) {
    return out;
  }
  HR_TRY(database, store::Store::open(*home, store::Access::read));
  HR_TRY(records, database.trust_decisions(identity_digest));
  for (const store::TrustRecord& record : records) {
    out.push_back(decision_of(record));
  }
  return out;
}

Result<TrustView> look_at_trust(const TrustQuestion& question) {
  HR_TRY(looked, look(question));
  return std::move(looked.view);
}

Result<workspace::TrustDecision> decide_trust(const TrustQuestion& question, const TrustAnswer& answer) {
  HR_CHECK(check_answer(answer));
  HR_TRY(looked, look(question));
  const TrustView& view = looked.view;
  const bool grants =
      answer.mode == workspace::TrustMode::trusted || answer.mode == workspace::TrustMode::restricted;
  if (grants && answer.inventory_digest != view.inventory.digest) {
    return trust_error(ErrorClass::refused, "trust-inventory-changed", view.root,
                       "What the repository holds now is " + view.inventory.digest + ", not what was named.",
                       "hitchrail trust show" + (view.agent.empty() ? "" : " --agent " + view.agent));
  }
  const Person person = current_person();
  store::TrustRecord record;
  record.id = random_id("decision_", 12);
  record.identity = view.identity.digest;
  record.inventory = grants ? view.inventory.digest : "";
  record.mode = to_string(answer.mode);
  record.agent = view.agent;
  record.uid = person.uid;
  record.user = person.user;
  record.reason = answer.reason;
  record.at_unix_ms = unix_millis_now();
  record.expires_unix_ms = answer.expires_after_ms == 0 ? 0 : record.at_unix_ms + answer.expires_after_ms;
  record.workspace = view.root;
  HR_TRY(home, store::StateHome::open(store::Access::write));
  HR_TRY(database, store::Store::open(home));
  HR_TRY(written, database.add_trust_decision(std::move(record)));
  return decision_of(written);
}

std::string allow_line(const TrustQuestion& question, const std::string& digest) {
  std::string out = "hitchrail trust allow --worktree " + shell_word(question.worktree);
  if (!question.agent.empty()) {
    out += " --agent " + shell_word(question.agent);
  }
  for (const std::string& dir : question.profile_dirs) {
    out += " --profile-dir " + shell_word(dir);
  }
  return out + (question.trust_owner ? " --trust-owner" : "") + " --inventory " + digest;
}

}  // namespace hitchrail::launch
