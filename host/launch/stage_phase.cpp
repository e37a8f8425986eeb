#include <fcntl.h>

#include <algorithm>

#include "attempt/attempt.hpp"
#include "core/canonical.hpp"
#include "core/file.hpp"
#include "launch/phase.hpp"
#include "launch/stages.hpp"

namespace hitchrail::launch {

namespace {

using manifest::Dimension;
using manifest::Holding;
using manifest::PhaseSource;
using manifest::Scopes;

constexpr std::size_t max_manifest_bytes = 4u << 20;

Error parent_error(const std::string& attempt, const std::string& detail) {
  return Error{ErrorClass::refused,
               "phase-parent-unreadable",
               "read the parent's authority",
               attempt,
               detail,
               "start a new run, or name a parent whose launch manifest is whole"};
}

// What the parent was allowed. Fails closed: authority that cannot be read is no authority.
Result<PhaseParent> read_parent(const Ground& ground, const std::string& id) {
  if (!ground.home) {
    return Error{ErrorClass::refused,     "attempt-not-found",  "read the parent's authority", id,
                 "there are no runs yet", "hitchrail runs list"};
  }
  HR_TRY(directory, attempt::Directory::open(ground.home->fd(), id));
  auto folder = open_at(directory.fd(), "manifests", O_RDONLY | O_DIRECTORY);
  if (folder.has_error()) {
    return parent_error(directory.id(), folder.error().detail);
  }
  auto text = read_file_at(folder.value().get(), "launch-manifest.json", max_manifest_bytes);
  if (text.has_error()) {
    return parent_error(directory.id(), text.error().detail);
  }
  auto document = json::parse(text.value(), json::Duplicates::refuse, "launch-manifest.json");
  if (document.has_error()) {
    return parent_error(directory.id(), document.error().detail);
  }
  const json::Value& manifest = document.value();
  if (const Status whole = verify_document(manifest); whole.has_error()) {
    return parent_error(directory.id(), whole.error().detail);
  }
  PhaseParent parent;
  parent.attempt_id = directory.id();
  parent.manifest_digest = manifest.get("digest").as_string();
  parent.authority = PhaseSource().authority;
  if (const json::Value* phase = manifest.find("phase")) {
    HR_CHECK(manifest::check_phase(*phase));
    HR_TRY(authority, manifest::phase_authority(phase->get("evidence")));
    parent.authority = std::move(authority);
    parent.evidence_digest = phase->get("evidence").get("digest").as_string();
  }
  return parent;
}

Result<std::string> phase_of_parent(const Ground& ground, const PhaseParent& parent) {
  HR_TRY(directory, attempt::Directory::open(ground.home->fd(), parent.attempt_id));
  HR_TRY(folder, open_at(directory.fd(), "manifests", O_RDONLY | O_DIRECTORY));
  HR_TRY(text, read_file_at(folder.get(), "launch-manifest.json", max_manifest_bytes));
  HR_TRY(document, json::parse(text, json::Duplicates::refuse, "launch-manifest.json"));
  return document.get("phase").get("evidence").get("identity").get("phase").as_string();
}

bool among(const std::vector<std::string>& list, const std::string& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

Scopes granted_paths(const boundary::Preset& preset, bool write) {
  Scopes scopes = preset.write_paths;
  if (!write) {
    scopes.insert(scopes.end(), preset.read_paths.begin(), preset.read_paths.end());
  }
  std::sort(scopes.begin(), scopes.end());
  scopes.erase(std::unique(scopes.begin(), scopes.end()), scopes.end());
  return scopes;
}

// Where a run gets out by itself; the provider's own hosts are the harness's, not the task's.
Scopes egress_scopes(const boundary::Preset& preset, const std::vector<std::string>& relays) {
  if (preset.network == boundary::Network::host) {
    return manifest::everything;
  }
  Scopes scopes;
  if (preset.network == boundary::Network::gate) {
    scopes = preset.allowed_hosts;
    for (const std::string& relay : relays) {
      scopes.push_back("relay:" + relay);
    }
  }
  std::sort(scopes.begin(), scopes.end());
  return scopes;
}

// Of the operator's variables that a preset hands over, those that hold a credential; the profile's own boot
// credentials are the harness's way to its provider and no authority of the task.
bool names_credential(const std::string& variable) {
  static constexpr const char* words[] = {
      "API_KEY",     "API_KEYS",    "AUTHORIZATION", "AUTH_TOKEN", "BEARER",   "COOKIE",
      "CREDENTIAL",  "CREDENTIALS", "DATABASE_URL",  "DB_URL",     "PASSWORD", "PASS",
      "PRIVATE_KEY", "SECRET",      "SESSION",       "TOKEN",      "WEBHOOK"};
  const std::string framed = "_" + variable + "_";
  return std::any_of(std::begin(words), std::end(words), [&](const char* word) {
    return framed.find("_" + std::string(word) + "_") != std::string::npos;
  });
}

bool task_credential(const profiles::SupportProfile& profile, const std::string& name) {
  return names_credential(name) && !among(profile.credential_allowlist, name);
}

Scopes credential_scopes(const profiles::SupportProfile& profile, const boundary::Preset& preset) {
  Scopes scopes;
  for (const std::string& name : preset.environment) {
    if (task_credential(profile, name)) {
      scopes.push_back("env:" + name);
    }
  }
  std::sort(scopes.begin(), scopes.end());
  return scopes;
}

manifest::Authority authority_of(const profiles::SupportProfile& profile, const boundary::Preset& preset,
                                 const std::vector<std::string>& relays) {
  manifest::Authority authority = PhaseSource().authority;
  authority[Dimension::filesystem_read] = granted_paths(preset, false);
  authority[Dimension::filesystem_write] = granted_paths(preset, true);
  authority[Dimension::network_egress] = egress_scopes(preset, relays);
  authority[Dimension::credential_access] = credential_scopes(profile, preset);
  return authority;
}

manifest::Authority allowed(const PhaseStage& phase) {
  manifest::Authority out = manifest::phase_profile(phase.phase)->authority;
  for (std::size_t i = 0; i < manifest::dimension_count; ++i) {
    if (phase.parent) {
      out.scopes[i] = manifest::intersect(out.scopes[i], phase.parent->authority.scopes[i]);
    }
  }
  return out;
}

bool proved(const boundary::Compiled& compiled, const std::vector<boundary::ProvenBackend>& proven,
            const char* capability) {
  return std::any_of(proven.begin(), proven.end(), [&](const boundary::ProvenBackend& each) {
    return each.backend == compiled.backend && among(each.capabilities, capability);
  });
}

PhaseSource source(const char* kind, std::string id, const char* scope) {
  PhaseSource out;
  out.kind = kind;
  out.id = std::move(id);
  out.origin_scope = scope;
  return out;
}

PhaseSource parent_source(const PhaseStage& phase) {
  if (!phase.parent) {
    return source("parent", "no-parent", "system-default");
  }
  PhaseSource out = source("parent", phase.parent->attempt_id, "parent");
  out.authority = phase.parent->authority;
  out.digest = phase.parent->evidence_digest;
  out.parent_attempt_id = phase.parent->attempt_id;
  out.parent_manifest_digest = phase.parent->manifest_digest;
  out.parent_evidence_digest = phase.parent->evidence_digest;
  return out;
}

// The boundary's word counts as far as it was proved on this machine for the backend that is used.
PhaseSource sandbox_source(const PhaseStage& phase, const boundary::Preset& preset,
                           const boundary::Compiled& compiled,
                           const std::vector<boundary::ProvenBackend>& proven) {
  PhaseSource out = source("sandbox", "preset:" + preset.id, "run");
  out.authority = phase.preset_authority;
  const bool required = preset.enforcement == boundary::Enforcement::required;
  const auto holding = [&](const char* capability) {
    return !required                              ? Holding::unenforceable
           : proved(compiled, proven, capability) ? Holding::enforced
                                                  : Holding::unsupported;
  };
  const auto set = [&](Dimension dimension, Holding value) {
    out.holding[static_cast<std::size_t>(dimension)] = value;
  };
  set(Dimension::filesystem_read, holding("filesystem.read"));
  set(Dimension::filesystem_write, holding("filesystem.write"));
  if (preset.network != boundary::Network::host) {
    set(Dimension::network_egress,
        holding(preset.network == boundary::Network::gate ? "network.gate" : "network.none"));
  }
  // The environment is built from empty by the host itself: nothing has to hold the harness off it.
  set(Dimension::plan_artifact_write, Holding::unsupported);
  return out;
}

// Which command is run and what is done elsewhere is between the harness and the world: no boundary sees the
// difference between a build and a deployment. Where nothing gets out but to the provider, nothing is done.
PhaseSource policy_source(const PhaseStage& phase, const PhaseSource& sandbox) {
  PhaseSource out = source("launch-policy", "hitchrail", "system-default");
  out.holding[static_cast<std::size_t>(Dimension::command_execute)] = Holding::unenforceable;
  const manifest::Authority authority = allowed(phase);
  const bool closed =
      authority[Dimension::network_egress].empty() &&
      sandbox.holding[static_cast<std::size_t>(Dimension::network_egress)] == Holding::enforced;
  const bool narrows = authority[Dimension::external_action] != Scopes{"mutate", "read"};
  if (narrows && !closed) {
    out.holding[static_cast<std::size_t>(Dimension::external_action)] = Holding::unenforceable;
  }
  return out;
}

}  // namespace

bool PhaseStage::read_only() const {
  return !phase.empty() && allowed(*this)[Dimension::filesystem_write].empty();
}

Result<PhaseStage> stage_phase(const Ground& ground, const Request& request) {
  PhaseStage stage;
  stage.phase = !request.phase.empty() ? request.phase : request.task.phase;
  stage.origin = !request.phase.empty() ? "run" : "task-envelope";
  if (!request.plan_artifact.empty()) {
    stage.plan_artifact = request.plan_artifact;
  }
  stage.commit_required =
      manifest::effective_commit_policy(request.commit_policy, request.task) == "required";
  const std::string& parent_id = !request.resume.empty() ? request.resume : request.parent;
  if (!parent_id.empty()) {
    HR_TRY(parent, read_parent(ground, parent_id));
    if (stage.phase.empty() && !parent.evidence_digest.empty()) {
      HR_TRY(inherited, phase_of_parent(ground, parent));
      stage.phase = std::move(inherited);
      stage.origin = "parent";
    }
    stage.parent = std::move(parent);
  }
  if (stage.phase.empty() && stage.plan_artifact) {
    return Error{ErrorClass::usage,
                 "phase-unknown",
                 "choose the phase",
                 "--plan-artifact",
                 "only a phase has a plan artifact",
                 "--phase plan"};
  }
  if (!stage.phase.empty() && manifest::phase_profile(stage.phase) == nullptr) {
    return Error{ErrorClass::usage, "phase-unknown",          "choose the phase",
                 stage.phase,       "there is no such phase", "explore, plan, implement, verify or publish"};
  }
  return stage;
}

void narrow(PhaseStage& phase, const profiles::SupportProfile& profile, boundary::Preset& preset,
            std::vector<std::string>& relays) {
  if (phase.phase.empty()) {
    return;
  }
  phase.preset_authority = authority_of(profile, preset, relays);
  const manifest::Authority limit = allowed(phase);
  const auto keep = [&](std::vector<std::string>& list, const Scopes& scopes, const char* prefix,
                        const char* what) {
    std::erase_if(list, [&](const std::string& item) {
      const bool out = scopes != manifest::everything && !among(scopes, prefix + item);
      if (out) {
        phase.dropped.push_back(what + item);
      }
      return out;
    });
  };
  const Scopes& reads = limit[Dimension::filesystem_read];
  const Scopes& writes = limit[Dimension::filesystem_write];
  const std::vector<std::string> written = preset.write_paths;
  keep(preset.write_paths, writes, "", "write access to ");
  // What was writable was readable too.
  preset.read_paths.insert(preset.read_paths.end(), written.begin(), written.end());
  std::sort(preset.read_paths.begin(), preset.read_paths.end());
  preset.read_paths.erase(std::unique(preset.read_paths.begin(), preset.read_paths.end()),
                          preset.read_paths.end());
  keep(preset.read_paths, reads, "", "read access to ");
  const Scopes& egress = limit[Dimension::network_egress];
  if (egress != manifest::everything) {
    if (preset.network == boundary::Network::host) {
      preset.network = boundary::Network::gate;
      preset.allowed_hosts.clear();
      phase.dropped.emplace_back("the host's network");
    }
    keep(preset.allowed_hosts, egress, "", "host ");
    keep(relays, egress, "relay:", "relay ");
    // It must be proved, like what the preset asks for itself.
    std::vector<std::string>& needed = preset.required_capabilities;
    if (preset.network == boundary::Network::gate && !among(needed, "network.gate")) {
      needed.insert(std::upper_bound(needed.begin(), needed.end(), "network.gate"), "network.gate");
    }
  }
  const Scopes& credentials = limit[Dimension::credential_access];
  std::erase_if(preset.environment, [&](const std::string& name) {
    const bool out = credentials != manifest::everything && task_credential(profile, name) &&
                     !among(credentials, "env:" + name);
    if (out) {
      phase.dropped.push_back("variable " + name);
    }
    return out;
  });
}

Status judge_phase(PhaseStage& phase, const profiles::SupportProfile& profile, const boundary::Preset& preset,
                   const boundary::Compiled& compiled, const std::vector<boundary::ProvenBackend>& proven) {
  if (phase.phase.empty()) {
    return {};
  }
  manifest::PhaseInput input;
  input.phase = phase.phase;
  input.plan_artifact = phase.plan_artifact;
  input.sources.push_back(parent_source(phase));
  PhaseSource agent = source("agent-profile", "profile:" + profile.id, "agent-profile");
  agent.digest = profile.configuration_digest;
  input.sources.push_back(std::move(agent));
  PhaseSource sandbox = sandbox_source(phase, preset, compiled, proven);
  input.sources.push_back(sandbox);
  input.sources.push_back(source("tool-catalog", "no-catalog", "system-default"));
  input.sources.push_back(policy_source(phase, sandbox));
  HR_TRY(outcome, manifest::compile_phase(input));
  phase.evidence = std::move(outcome.section);
  phase.sources = std::move(outcome.sources);
  phase.blockers = std::move(outcome.blockers);
  phase.warnings = std::move(outcome.warnings);
  if (phase.commit_required && phase.read_only()) {
    phase.blockers.push_back(
        {"phase-required-authority-denied", "phase.filesystem.write",
         "the task requires a commit, and the phase " + phase.phase + " writes nothing to the repository",
         "use --phase implement, or a commit policy of forbidden"});
  }
  if (!phase.dropped.empty()) {
    std::string list;
    for (const std::string& each : phase.dropped) {
      list += (list.empty() ? "" : ", ") + each;
    }
    phase.warnings.push_back(
        {"phase-narrowed", "phase", "the phase " + phase.phase + " goes without " + list, ""});
  }
  return {};
}

}  // namespace hitchrail::launch
