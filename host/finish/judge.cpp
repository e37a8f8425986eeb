#include "finish/judge.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>

#include "attempt/completion_check.hpp"
#include "attempt/exit_slot.hpp"
#include "core/canonical.hpp"
#include "core/ids.hpp"
#include "finish/blocker.hpp"

namespace hitchrail::finish {
namespace {

constexpr std::size_t max_blockers = 64;
constexpr std::size_t max_provider_evidence = 128;
constexpr std::size_t max_provider_artifacts = 64;
constexpr std::size_t max_claimed_blockers = 16;

const json::Value* find_by(const json::Value& list, const char* member, std::string_view value) {
  for (const json::Value& item : list.items()) {
    if (item.get(member).as_string() == value) {
      return &item;
    }
  }
  return nullptr;
}

bool required(const json::Value& item) {
  return item.find("required") == nullptr || item.get("required").as_bool();
}

// An id that the provider chose.
std::string identifier(const json::Value& value, std::size_t number) {
  std::string out = attempt::document_text(value.as_string(), 120);
  for (char& c : out) {
    c = c == ' ' || c == '\t' || c == '\n' || c == '\r' ? '-' : c;
  }
  return "provider-" + (out.empty() ? std::to_string(number) : out);
}

std::string one_of(const json::Value& value, std::span<const std::string_view> known, const char* otherwise) {
  return std::find(known.begin(), known.end(), value.as_string()) == known.end() ? otherwise
                                                                                 : value.as_string();
}

json::Value text_or_null(const json::Value& value, std::size_t limit) {
  return value.is_string() ? json::Value(attempt::document_text(value.as_string(), limit)) : json::Value();
}

class Judge {
 public:
  Judge(const JudgeInput& in, Workspace& found)
      : in_(in),
        found_(found),
        evidence_(found.members.get("evidence")),
        artifacts_(found.members.get("artifacts")),
        verification_(found.members.get("verification")) {}

  json::Value run() {
    complete_verification();
    add_evidence();
    json::Value terminal = meet_requirements();
    const bool success = in_.claimed.status == "success";
    if (success) {
      check_gates();
      check_outputs();
      check_requirements();
    }
    take_claims(success);
    bound_blockers();
    found_.members.set("evidence", list(std::move(evidence_)));
    found_.members.set("artifacts", list(std::move(artifacts_)));
    found_.members.set("verification", list(std::move(verification_)));
    return terminal;
  }

 private:
  static json::Value list(json::Value value) {
    return value.is_array() ? std::move(value) : json::Value::array();
  }

  [[nodiscard]] const json::Value& gates() const { return in_.envelope.get("verificationGates"); }
  [[nodiscard]] const json::Value& requirements() const {
    return in_.envelope.get("completionContract").get("evidenceRequirements");
  }

  // A gate that nobody spoke of was not run; a result from before the last change says nothing about the
  // work.
  void complete_verification() {
    json::Value out = json::Value::array();
    const std::string changed = found_.last_change_ms > 0 ? iso8601(found_.last_change_ms) : std::string();
    for (json::Value item : verification_.items()) {
      const std::string& started = item.get("startedAt").as_string();
      if (item.get("status").as_string() == "passed" && !started.empty() && started < changed) {
        item.set("status", "unknown");
        item.set("reason", "older-than-last-change");
        item.set("summary",
                 "it passed at " + started + ", and a file of the workspace changed at " + changed);
      }
      out.push(std::move(item));
    }
    for (const json::Value& gate : gates().items()) {
      const std::string& id = gate.get("id").as_string();
      if (find_by(out, "gateId", id) == nullptr) {
        out.push(json::Value::object({{"gateId", id},
                                      {"status", "skipped"},
                                      {"summary", "nobody ran it"},
                                      {"evidenceIds", json::Value::array()},
                                      {"required", required(gate)}}));
      }
    }
    verification_ = std::move(out);
  }

  [[nodiscard]] bool passed(std::string_view gate) const {
    const json::Value* item = find_by(verification_, "gateId", gate);
    return item != nullptr && item->get("status").as_string() == "passed";
  }

  void add(const std::string& id, const char* kind, std::string summary, json::Value reference,
           bool verified) {
    evidence_.push(json::Value::object({{"id", id},
                                        {"kind", kind},
                                        {"source", "harness"},
                                        {"summary", std::move(summary)},
                                        {"reference", std::move(reference)},
                                        {"requirementIds", json::Value::array()},
                                        {"verified", verified}}));
  }

  void add_evidence() {
    for (const json::Value& artifact : artifacts_.items()) {
      const bool verified = artifact.get("verified").as_bool();
      add("artifact-" + artifact.get("id").as_string(), "artifact",
          verified ? "a file that this run made or changed" : artifact.get("reason").as_string(),
          artifact.get("reference"), verified);
    }
    if (find_by(requirements(), "kind", "process-exit") != nullptr) {
      const bool seen = in_.slot.kind == wire::kind_code || in_.slot.kind == wire::kind_signal;
      add("process-exit", "process-exit",
          "the exit as the supervisor saw it: " + attempt::exit_kind_name(in_.slot.kind), "exit", seen);
    }
    if (find_by(requirements(), "kind", "stream-event") != nullptr) {
      add("journal", "stream-event", std::to_string(in_.events) + " journaled events", "journal.jsonl",
          in_.events > 0);
    }
  }

  // Does this item of ours stand for what its kind asks?
  [[nodiscard]] bool speaks(const json::Value& item) const {
    const std::string& kind = item.get("kind").as_string();
    if (!item.get("verified").as_bool() || item.get("source").as_string() != "harness") {
      return false;
    }
    if (kind == "file-change") {
      const auto& files = found_.members.get("changedFiles").items();
      return std::any_of(files.begin(), files.end(),
                         [](const json::Value& file) { return file.get("verified").as_bool(); });
    }
    constexpr std::string_view prefix = "verification-";
    const std::string& id = item.get("id").as_string();
    return kind != "verification" || (id.starts_with(prefix) && passed(id.substr(prefix.size())));
  }

  json::Value meet_requirements() {
    json::Value out = json::Value::array();
    for (json::Value item : evidence_.items()) {
      const bool silent = item.get("kind").as_string() == "verification" && !speaks(item);
      json::Value ids = silent ? json::Value::array() : list(item.get("requirementIds"));
      for (const json::Value& requirement : requirements().items()) {
        const auto& named = ids.items();
        if (requirement.get("kind") == item.get("kind") && speaks(item) &&
            std::find(named.begin(), named.end(), requirement.get("id")) == named.end()) {
          ids.push(requirement.get("id"));
        }
      }
      item.set("requirementIds", std::move(ids));
      out.push(std::move(item));
    }
    evidence_ = std::move(out);
    json::Value terminal = json::Value::array({json::Value("terminal-state")});
    const char* kind = in_.verdict ? "provider-output" : "process-exit";
    for (const json::Value& requirement : requirements().items()) {
      if (requirement.get("kind").as_string() == kind &&
          requirement.get("id").as_string() != "terminal-state") {
        terminal.push(requirement.get("id"));
      }
    }
    met_ = terminal;
    for (const json::Value& item : evidence_.items()) {
      for (const json::Value& id : item.get("requirementIds").items()) {
        met_.push(id);
      }
    }
    return terminal;
  }

  void check_gates() {
    for (const json::Value& gate : gates().items()) {
      const std::string& id = gate.get("id").as_string();
      if (!required(gate)) {
        continue;
      }
      const json::Value& result = *find_by(verification_, "gateId", id);
      const json::Value* proof = find_by(evidence_, "id", "verification-" + id);
      const bool proved =
          !gate.get("evidenceRequired").as_bool() || (proof != nullptr && proof->get("verified").as_bool());
      if (!passed(id) || !proved) {
        block(found_.blockers, "verification-missing-" + id, "a required check has not passed: " + id,
              result.get("status").as_string() + ": " + result.get("summary").as_string(), true);
      }
    }
  }

  void check_outputs() {
    for (const json::Value& output : in_.envelope.get("expectedOutputs").items()) {
      const std::string& id = output.get("id").as_string();
      if (!required(output) || id == "completion-summary") {
        continue;
      }
      std::string why;
      if (!met(output, id, why)) {
        block(found_.blockers, "expected-output-missing-" + id, "a required output is missing: " + id,
              why + (output.get("description").as_string().empty() ? "" : ": ") +
                  output.get("description").as_string(),
              true);
      }
    }
  }

  [[nodiscard]] bool met(const json::Value& output, const std::string& id, std::string& why) const {
    const std::string& kind = output.get("kind").as_string();
    if (kind == "commit") {
      why = "no commit is this run's";
      return !found_.members.get("commits").items().empty() ||
             in_.envelope.get("commitPolicy").as_string() == "required";
    }
    const json::Value* artifact = find_by(artifacts_, "id", id);
    if (artifact != nullptr) {
      why = artifact->get("reason").as_string();
      return artifact->get("verified").as_bool();
    }
    if (passed(id)) {
      return true;
    }
    if (kind == "text") {
      why = "the final message is empty";
      return in_.verdict && !in_.verdict->summary.empty();
    }
    why = "it has no path that could be looked at, and no gate of the same id has passed";
    return false;
  }

  void check_requirements() {
    for (const json::Value& requirement : requirements().items()) {
      const std::string& id = requirement.get("id").as_string();
      const auto& met = met_.items();
      const bool there = std::any_of(met.begin(), met.end(),
                                     [&](const json::Value& each) { return each.as_string() == id; });
      const bool said =
          find_by(found_.blockers, "code", "required-commit-missing") != nullptr && id == "commit";
      if (required(requirement) && !there && !said) {
        block(found_.blockers, "evidence-missing-" + id,
              "no verified evidence of kind " + requirement.get("kind").as_string() + " meets " + id,
              requirement.get("description").as_string(), true);
      }
    }
  }

  // ---- what the provider says of itself
  void take_claims(bool success) {
    if (!in_.verdict) {
      return;
    }
    const json::Value& claims = in_.verdict->details;
    std::size_t number = 0;
    for (const json::Value& claim : claims.get("evidence").items()) {
      if (claim.is_object() && ++number <= max_provider_evidence) {
        push_claim(identifier(claim.get("id"), number),
                   one_of(claim.get("kind"), attempt::evidence_kinds, "other"), claim.get("summary"),
                   claim.get("reference"));
      }
    }
    for (const json::Value& claim : claims.get("verification").items()) {
      if (claim.is_object() && ++number <= max_provider_evidence) {
        push_claim("provider-verification-" + attempt::document_text(claim.get("gateId").as_string(), 100),
                   "verification", claim.get("status"), json::Value());
      }
    }
    number = 0;
    for (const json::Value& claim : claims.get("artifacts").items()) {
      if (claim.is_object() && ++number <= max_provider_artifacts) {
        push_artifact(claim, number);
      }
    }
    number = 0;
    for (const json::Value& claim : claims.get("blockers").items()) {
      if (success && claim.is_object() && ++number <= max_claimed_blockers) {
        block(found_.blockers, identifier(claim.get("code"), number),
              "the provider says so: " + claim.get("summary").as_string(), claim.get("detail").as_string(),
              claim.get("retryable").as_bool());
      }
    }
  }

  void push_claim(const std::string& id, const std::string& kind, const json::Value& summary,
                  const json::Value& reference) {
    evidence_.push(json::Value::object({{"id", id},
                                        {"kind", kind},
                                        {"source", "provider"},
                                        {"summary", attempt::document_text(summary.as_string(), 4096)},
                                        {"reference", text_or_null(reference, 4096)},
                                        {"requirementIds", json::Value::array()},
                                        {"verified", false}}));
  }

  void push_artifact(const json::Value& claim, std::size_t number) {
    constexpr std::array<std::string_view, 5> kinds{"file", "log", "report", "url", "other"};
    const std::string& hex = claim.get("sha256").as_string();
    const bool is_hash = hex.size() == 64 && hex.find_first_not_of("0123456789abcdef") == std::string::npos;
    artifacts_.push(
        json::Value::object({{"id", identifier(claim.get("id"), number)},
                             {"kind", one_of(claim.get("kind"), kinds, "other")},
                             {"name", attempt::document_text(claim.get("name").as_string(), 500)},
                             {"reference", attempt::document_text(claim.get("reference").as_string(), 4096)},
                             {"mediaType", text_or_null(claim.get("mediaType"), 200)},
                             {"sha256", is_hash ? json::Value(hex) : json::Value()},
                             {"verified", false}}));
  }

  void bound_blockers() {
    const auto& all = found_.blockers.items();
    if (all.size() <= max_blockers) {
      return;
    }
    json::Value kept =
        json::Value::array(std::vector<json::Value>(all.begin(), all.begin() + max_blockers - 1));
    block(kept, "more-blockers", std::to_string(all.size() - max_blockers + 1) + " more", "", false);
    found_.blockers = std::move(kept);
  }

  const JudgeInput& in_;
  Workspace& found_;
  json::Value evidence_, artifacts_, verification_;
  json::Value met_ = json::Value::array();
};

}  // namespace

void block(json::Value& blockers, std::string code, std::string summary, std::string detail, bool retryable) {
  json::Value blocker = json::Value::object();
  blocker.set("code", std::move(code));
  blocker.set("summary", attempt::document_text(summary, 500));
  blocker.set("detail", attempt::document_text(detail, 4096));
  blocker.set("retryable", retryable);
  blockers.push(std::move(blocker));
}

json::Value judge(const JudgeInput& in, Workspace& found) {
  return Judge(in, found).run();
}

}  // namespace hitchrail::finish
