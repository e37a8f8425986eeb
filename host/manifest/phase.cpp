#include "manifest/phase.hpp"

#include <algorithm>

#include "core/canonical.hpp"
#include "core/text.hpp"
#include "manifest/fields.hpp"

namespace hitchrail::manifest {
namespace {

constexpr std::string_view kSchema = "phase-capability-evidence/v1";
constexpr std::array<std::string_view, dimension_count> kDimensions = {
    "filesystem.read",   "filesystem.write", "command.execute",    "network.egress",
    "credential.access", "external.action",  "artifact.plan.write"};
constexpr std::array<std::string_view, 3> kHoldings = {"enforced", "unenforceable", "unsupported"};
constexpr std::array<std::string_view, 5> kKinds = {"parent", "agent-profile", "sandbox", "tool-catalog",
                                                    "launch-policy"};
constexpr std::string_view kExactPath = "harness-exact-path";
constexpr std::size_t kMaxPath = 1000;

using D = Dimension;

Dimension dimension_at(std::size_t index) {
  return static_cast<Dimension>(index);
}

PhaseProfile make_profile(std::string_view phase, std::string_view id, bool writes, Scopes commands,
                          bool reaches_out, bool credentials, Scopes external) {
  PhaseProfile profile{phase, id, {}, {}, {}};
  profile.authority[D::filesystem_read] = {"<workspace>"};
  profile.authority[D::filesystem_write] = writes ? Scopes{"<workspace>"} : Scopes{};
  profile.authority[D::command_execute] = std::move(commands);
  profile.authority[D::network_egress] = reaches_out ? everything : Scopes{};
  profile.authority[D::credential_access] = credentials ? everything : Scopes{};
  profile.authority[D::external_action] = std::move(external);
  // What the phase forbids altogether must be held; what it allows as it is needs no holding.
  profile.required = {D::filesystem_read, D::filesystem_write};
  if (!reaches_out) {
    profile.required.push_back(D::network_egress);
  }
  if (!credentials) {
    profile.required.push_back(D::credential_access);
  }
  return profile;
}

const std::array<PhaseProfile, 5>& profiles() {
  static const std::array<PhaseProfile, 5> all = [] {
    std::array<PhaseProfile, 5> out = {
        make_profile("explore", "builtin-explore", false, {"inspect"}, false, false, {"read"}),
        make_profile("plan", "builtin-plan", false, {"inspect"}, false, false, {"read"}),
        make_profile("implement", "builtin-implement", true, {"build", "format", "inspect", "mutate", "test"},
                     true, true, {"read"}),
        make_profile("verify", "builtin-verify", true, {"build", "inspect", "test"}, true, false, {"read"}),
        make_profile("publish", "builtin-publish", true, {"build", "inspect", "publish", "test"}, true, true,
                     {"mutate", "read"})};
    out[1].authority[D::plan_artifact_write] = {std::string(kExactPath)};
    out[4].approval = {D::credential_access, D::external_action};
    return out;
  }();
  return all;
}

bool holds(const std::vector<Dimension>& list, Dimension dimension) {
  return std::find(list.begin(), list.end(), dimension) != list.end();
}

json::Value dimension_array(const std::vector<Dimension>& list) {
  json::Value out = json::Value::array();
  for (const Dimension dimension : list) {
    out.push(to_string(dimension));
  }
  return out;
}

json::Value authority_json(const Authority& authority) {
  json::Value out = json::Value::object();
  for (std::size_t i = 0; i < dimension_count; ++i) {
    out.set(std::string(kDimensions[i]), string_array(authority.scopes[i]));
  }
  return out;
}

json::Value source_json(const PhaseSource& source) {
  json::Value holding = json::Value::object();
  for (std::size_t i = 0; i < dimension_count; ++i) {
    holding.set(std::string(kDimensions[i]), kHoldings[static_cast<std::size_t>(source.holding[i])]);
  }
  return json::Value::object({{"kind", source.kind},
                              {"sourceId", source.id},
                              {"authority", authority_json(source.authority)},
                              {"enforcement", std::move(holding)}});
}

// A path in the repository, as it is written in git: no way out, nothing a shell or a terminal would read.
bool plan_path_ok(const std::string& path) {
  if (path.empty() || path.size() > kMaxPath || path.front() == '/' || path.front() == '-' ||
      path.front() == '~' || escape_visible(path) != path ||
      path.find_first_of("\\\"'`$;&|<>(){}[]*?!#\n\t ") != std::string::npos) {
    return false;
  }
  for (std::size_t start = 0; start <= path.size();) {
    const std::size_t end = std::min(path.find('/', start), path.size());
    const std::string_view part = std::string_view(path).substr(start, end - start);
    if (part.empty() || part == "." || part == ".." || part == ".git") {
      return false;
    }
    start = end + 1;
  }
  return true;
}

class Compiler {
 public:
  Compiler(const PhaseInput& input, const PhaseProfile& profile) : input_(input), profile_(profile) {
    requested_ = profile.authority;
  }

  PhaseOutcome run() {
    plan_artifact();
    for (std::size_t i = 0; i < dimension_count; ++i) {
      dimension(dimension_at(i));
    }
    PhaseOutcome outcome;
    outcome.effective = effective_;
    outcome.section = section();
    outcome.sources = json::Value::array();
    for (const PhaseSource& source : input_.sources) {
      outcome.sources.push(source_json(source));
    }
    outcome.blockers = std::move(blockers_);
    outcome.warnings = std::move(warnings_);
    return outcome;
  }

 private:
  void block(std::string code, std::string_view field, std::string detail, std::string remedy) {
    blockers_.push_back(
        {"phase-" + std::move(code), "phase." + std::string(field), std::move(detail), std::move(remedy)});
  }

  void plan_artifact() {
    Scopes& scopes = requested_[D::plan_artifact_write];
    if (!input_.plan_artifact) {
      scopes.clear();
      return;
    }
    if (scopes.empty()) {
      block("plan-artifact-not-allowed", "planArtifact",
            "the phase " + input_.phase + " writes no plan artifact",
            "leave the plan artifact out, or use --phase plan");
      return;
    }
    if (!plan_path_ok(*input_.plan_artifact)) {
      scopes.clear();
      block("plan-artifact-path-invalid", "planArtifact",
            "a plan artifact is one path below the repository without .., blanks and shell syntax",
            "for example --plan-artifact docs/plan.md");
      return;
    }
    artifact_path_ = *input_.plan_artifact;
  }

  void dimension(Dimension d) {
    const std::string name(to_string(d));
    const bool required = holds(profile_.required, d);
    Scopes scopes = requested_[d];
    std::vector<std::string> limiting;
    Holding worst = Holding::enforced;
    for (const PhaseSource& source : input_.sources) {
      const Holding holding = source.holding[static_cast<std::size_t>(d)];
      if (holding != Holding::enforced && scopes != everything && asked(d)) {
        worst = worst == Holding::enforced ? holding : worst;
        limiting.push_back(source.id);
        scopes.clear();
        continue;
      }
      Scopes next = intersect(scopes, source.authority[d]);
      if (next != scopes) {
        limiting.push_back(source.id);
        scopes = std::move(next);
      }
    }
    judge(d, required, scopes, worst, limiting);
    if (d == D::plan_artifact_write && !scopes.empty()) {
      scopes = {artifact_path_};  // no narrowing: what was meant by the placeholder
    }
    narrowed_ = narrowed_ || !limiting.empty();
    effective_[d] = scopes;
    json::Value evaluation = json::Value::object();
    evaluation.set("dimension", name);
    evaluation.set("requestedScopes", string_array(requested_[d]));
    evaluation.set("effectiveScopes", string_array(scopes));
    evaluation.set("required", required);
    evaluation.set("enforcement", kHoldings[static_cast<std::size_t>(worst)]);
    evaluation.set("limitingSourceIds", string_array(as_set(limiting)));
    evaluations_.push(std::move(evaluation));
  }

  // A dimension that the launch does not use at all needs nobody to hold it.
  [[nodiscard]] bool asked(Dimension d) const {
    return d != D::plan_artifact_write || !artifact_path_.empty();
  }

  void judge(Dimension d, bool required, const Scopes& scopes, Holding worst,
             const std::vector<std::string>& limiting) {
    const std::string name(to_string(d));
    const std::string wanted = requested_[d].empty() ? "nothing" : joined(requested_[d]);
    if (worst != Holding::enforced) {
      const std::string who = limiting.empty() ? "" : limiting.back();
      const std::string how(kHoldings[static_cast<std::size_t>(worst)]);
      if (required) {
        block("required-authority-" + how, name,
              "the phase " + input_.phase + " allows " + wanted + " of " + name + ", and " + who +
                  (worst == Holding::unsupported ? " cannot hold it here" : " does not enforce it"),
              worst == Holding::unsupported
                  ? "use a machine and backend that prove it (hitchrail sandbox probe)"
                  : "use a sandbox preset whose enforcement is required");
      } else {
        warnings_.push_back({"phase-authority-not-held", "phase." + name,
                             "the phase allows " + wanted + " of " + name +
                                 "; nothing holds the harness to it (" + who + ": " + how + ")",
                             ""});
      }
    } else if (scopes.empty() && !requested_[d].empty()) {
      if (required) {
        block("required-authority-denied", name,
              "the phase " + input_.phase + " needs " + wanted + " of " + name + ", and " + joined(limiting) +
                  " leaves nothing of it",
              "use a phase that needs less, or a parent and a preset that allow it");
      } else {
        warnings_.push_back({"phase-authority-empty", "phase." + name,
                             joined(limiting) + " leaves nothing of " + name + " in this phase", ""});
      }
    }
  }

  static std::string joined(const std::vector<std::string>& words) {
    std::string out;
    for (const std::string& word : words) {
      out += (out.empty() ? "" : ", ") + word;
    }
    return out;
  }

  static json::Value findings(const std::vector<Finding>& list) {
    json::Value out = json::Value::array();
    for (const Finding& finding : list) {
      out.push(json::Value::object({{"code", finding.code.substr(std::string_view("phase-").size())},
                                    {"field", finding.field},
                                    {"detail", sanitize_diagnostic(finding.detail)},
                                    {"remediation", sanitize_diagnostic(finding.remediation)}}));
    }
    return out;
  }

  json::Value section() {
    json::Value evidence = json::Value::object();
    evidence.set("schemaVersion", kSchema);
    evidence.set("status", !blockers_.empty() ? "blocked" : narrowed_ ? "narrowed" : "allowed");
    evidence.set("identity", json::Value::object(
                                 {{"mode", "phase"}, {"phase", profile_.phase}, {"profileId", profile_.id}}));
    evidence.set("requestedAuthority", authority_json(requested_));
    evidence.set("effectiveAuthority", authority_json(effective_));
    evidence.set("requiredDimensions", dimension_array(profile_.required));
    evidence.set("approvalDimensions", dimension_array(profile_.approval));
    evidence.set("evaluations", std::move(evaluations_));
    if (!artifact_path_.empty()) {
      evidence.set("planArtifact", json::Value::object({{"path", artifact_path_},
                                                        {"owner", "hitchrail"},
                                                        {"transport", "harness-api"},
                                                        {"maximumPaths", 1}}));
    }
    evidence.set("blockers", findings(blockers_));
    evidence.set("warnings", findings(warnings_));
    (void)seal_document(evidence);
    json::Value references = json::Value::array();
    for (const PhaseSource& source : input_.sources) {
      references.push(reference(source));
    }
    return json::Value::object(
        {{"evidence", std::move(evidence)}, {"sourceReferences", std::move(references)}});
  }

  static json::Value reference(const PhaseSource& source) {
    std::string digest = source.digest;
    if (digest.empty()) {
      auto own = document_digest(source_json(source));
      digest = own.has_value() ? std::move(own).value() : "";
    }
    json::Value out = json::Value::object({{"sourceId", source.id},
                                           {"kind", source.kind},
                                           {"originScope", source.origin_scope},
                                           {"sourceDigest", std::move(digest)}});
    if (!source.parent_attempt_id.empty()) {
      out.set("parentAttemptId", source.parent_attempt_id);
      out.set("parentManifestDigest", source.parent_manifest_digest);
      if (!source.parent_evidence_digest.empty()) {
        out.set("parentEvidenceDigest", source.parent_evidence_digest);
      }
    }
    return out;
  }

  const PhaseInput& input_;
  const PhaseProfile& profile_;
  Authority requested_, effective_;
  std::string artifact_path_;
  bool narrowed_ = false;
  json::Value evaluations_ = json::Value::array();
  std::vector<Finding> blockers_, warnings_;
};

Error invalid(std::string detail) {
  return Error{ErrorClass::refused,   "phase-evidence-invalid",
               "read phase evidence", "phase",
               std::move(detail),     "it was changed after it was made: start without that parent"};
}

bool prefixed_digest(const std::string& text) {
  return text.size() == 71 && text.rfind("sha256:", 0) == 0 &&
         text.find_first_not_of("0123456789abcdef", 7) == std::string::npos;
}

}  // namespace

std::string_view to_string(Dimension dimension) {
  return kDimensions[static_cast<std::size_t>(dimension)];
}

Scopes intersect(const Scopes& a, const Scopes& b) {
  if (a == everything) {
    return as_set(b);
  }
  if (b == everything) {
    return as_set(a);
  }
  Scopes out;
  for (const std::string& scope : a) {
    if (std::find(b.begin(), b.end(), scope) != b.end()) {
      out.push_back(scope);
    }
  }
  return as_set(std::move(out));
}

PhaseSource::PhaseSource() {
  authority.scopes.fill(everything);
}

const PhaseProfile* phase_profile(std::string_view phase) {
  for (const PhaseProfile& profile : profiles()) {
    if (profile.phase == phase) {
      return &profile;
    }
  }
  return nullptr;
}

Result<PhaseOutcome> compile_phase(const PhaseInput& input) {
  const PhaseProfile* profile = phase_profile(input.phase);
  if (profile == nullptr) {
    return Error{ErrorClass::usage, "phase-unknown",          "choose the phase",
                 input.phase,       "there is no such phase", "explore, plan, implement, verify or publish"};
  }
  if (input.sources.size() != kKinds.size()) {
    return Error{ErrorClass::internal, "phase-evidence-invalid",   "compile phase",
                 input.phase,          "a phase has five sources", ""};
  }
  for (std::size_t i = 0; i < kKinds.size(); ++i) {
    if (input.sources[i].kind != kKinds[i]) {
      return Error{ErrorClass::internal,
                   "phase-evidence-invalid",
                   "compile phase",
                   input.sources[i].kind,
                   "the sources of a phase stand in another order",
                   ""};
    }
  }
  PhaseOutcome outcome = Compiler(input, *profile).run();
  HR_CHECK(check_phase(outcome.section));
  return outcome;
}

Result<Authority> phase_authority(const json::Value& evidence) {
  if (evidence.get("schemaVersion").as_string() != kSchema || verify_document(evidence).has_error()) {
    return invalid("the parent's phase evidence does not have its own digest");
  }
  const json::Value& effective = evidence.get("effectiveAuthority");
  Authority out;
  for (std::size_t i = 0; i < dimension_count; ++i) {
    const json::Value* scopes = effective.find(kDimensions[i]);
    if (scopes == nullptr || !scopes->is_array()) {
      return invalid("the parent's phase evidence does not name " + std::string(kDimensions[i]));
    }
    for (const json::Value& scope : scopes->items()) {
      out.scopes[i].push_back(scope.as_string());
    }
    out.scopes[i] = as_set(std::move(out.scopes[i]));
  }
  return out;
}

Status check_phase(const json::Value& section) {
  HR_TRY(authority, phase_authority(section.get("evidence")));
  (void)authority;
  const auto& references = section.get("sourceReferences").items();
  if (references.size() != kKinds.size() || section.members().size() != 2) {
    return invalid("a phase has evidence and five source references");
  }
  for (std::size_t i = 0; i < kKinds.size(); ++i) {
    const json::Value& reference = references[i];
    if (reference.get("kind").as_string() != kKinds[i] || reference.get("sourceId").as_string().empty() ||
        !prefixed_digest(reference.get("sourceDigest").as_string())) {
      return invalid("a source reference of the phase is of another kind, or has no digest");
    }
    const bool linked = reference.find("parentAttemptId") != nullptr;
    const bool parent = i == 0 && reference.get("originScope").as_string() == "parent";
    const bool manifest = prefixed_digest(reference.get("parentManifestDigest").as_string());
    if (linked != parent || linked != manifest ||
        (!linked && reference.find("parentEvidenceDigest") != nullptr)) {
      return invalid("parent links stand exactly in a reference of kind and scope parent");
    }
  }
  return {};
}

}  // namespace hitchrail::manifest
