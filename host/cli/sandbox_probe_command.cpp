// `sandbox probe`: what each backend was proved to hold here, by which probes, stopped by which layers.

#include <algorithm>
#include <cstdio>

#include "boundary/prove.hpp"
#include "cli/options.hpp"
#include "cli/print.hpp"
#include "launch/proofs.hpp"
#include "store/state_home.hpp"

namespace hitchrail::cli {

namespace {

using boundary::Backend;
using boundary::CapabilityProof;
using boundary::ProbeOutcome;
using boundary::Proof;

struct Found {
  const char* name;
  Backend backend;
  std::optional<Proof> proof;
  std::optional<Error> error;
};

const char* backend_word(Backend backend) {
  return backend == Backend::native ? "native" : "landlock";
}

// The layers named by the capability's probes, in the order in which they are met.
std::string stopped_by(const Proof& proof, const std::string& capability) {
  std::string all;
  for (const char* layer : {"namespaces", "landlock", "seccomp", "capabilities"}) {
    const bool named =
        std::any_of(proof.outcomes.begin(), proof.outcomes.end(), [&](const ProbeOutcome& each) {
          return each.capability == capability && each.judged && each.layers.find(layer) != std::string::npos;
        });
    if (named) {
      all += (all.empty() ? "" : ", ") + std::string(layer);
    }
  }
  return all;
}

// The first two probes and how many there are.
std::string proved_by(const Proof& proof, const CapabilityProof& one) {
  std::string text;
  unsigned named = 0;
  for (const ProbeOutcome& each : proof.outcomes) {
    if (each.capability == one.capability && each.judged && named < 2) {
      text += (named++ == 0 ? "" : ", ") + each.id;
    }
  }
  return one.probes > named ? text + " and " + std::to_string(one.probes - named) + " more" : text;
}

void print_proof(const Proof& proof) {
  std::size_t judged = 0;
  for (const ProbeOutcome& each : proof.outcomes) {
    judged += each.judged ? 1 : 0;
  }
  line(std::string("backend ") + backend_word(proof.backend) + ": " + std::to_string(judged) +
       " probes judged, " + (proof.from_cache ? "remembered, proved in " : "proved in ") +
       duration(proof.took_ms));
  std::vector<std::vector<std::string>> rows;
  for (const CapabilityProof& each : proof.capabilities) {
    rows.push_back({each.capability, each.proved ? "yes" : (each.declared ? "NO" : "-"),
                    proved_by(proof, each), stopped_by(proof, each.capability)});
  }
  table({"CAPABILITY", "PROVED", "BY", "STOPPED BY"}, rows);
  for (const ProbeOutcome& each : proof.outcomes) {
    if (each.judged && !each.good) {
      line("  " + each.capability + ": " + each.id + ": control " + each.control + ", inside " + each.inside);
    }
  }
}

bool holds(const Proof& proof, const std::vector<std::string>& required) {
  return std::all_of(required.begin(), required.end(),
                     [&](const std::string& name) { return proof.proves(name); });
}

Result<std::vector<Backend>> asked_for(const std::string& name) {
  if (name.empty()) {
    return std::vector<Backend>{Backend::native, Backend::landlock};
  }
  if (name == "native" || name == "landlock") {
    return std::vector<Backend>{name == "native" ? Backend::native : Backend::landlock};
  }
  return Error{ErrorClass::usage,
               "backend-unknown",
               "choose the boundary backend",
               name,
               "the backends are native and landlock",
               "leave --backend out"};
}

json::Value found_json(const Found& found) {
  if (found.proof) {
    json::Value value = boundary::proof_document(*found.proof);
    value.set("fromCache", found.proof->from_cache);
    return value;
  }
  json::Value value = json::Value::object();
  value.set("backend", backend_word(found.backend));
  value.set("error", error_json(*found.error));
  return value;
}

}  // namespace

int sandbox_probe_command(const SandboxProbeOptions& options) {
  auto backends = asked_for(options.backend);
  if (backends.has_error()) {
    return report(backends.error(), options.common.json);
  }
  auto preset = boundary::load_preset("workspace");
  if (preset.has_error()) {
    return report(preset.error(), options.common.json);
  }
  std::vector<std::string> required = preset.value().required_capabilities;
  required.insert(required.end(), {"kernel.surface", "workspace.usable"});
  store::Cache kept;
  auto opened = store::Cache::open();
  if (opened.has_value()) {
    kept = std::move(opened).value();
  } else {
    talk("warning[" + opened.error().code + "]: " + opened.error().detail + ". " + opened.error().remedy);
  }
  const Fd cache = launch::proof_directory(kept);
  const boundary::Machine machine = boundary::probe_machine();
  bool enforceable = false;
  json::Value all = json::Value::array();
  for (const Backend backend : backends.value()) {
    Found found{backend_word(backend), backend, std::nullopt, std::nullopt};
    auto proof = boundary::prove(machine, backend, cache.get(), options.fresh);
    if (proof.has_value()) {
      boundary::remember_proof(cache.get(), proof.value().cache_name, proof.value().cache_document);
      enforceable = enforceable || holds(proof.value(), required);
      found.proof = std::move(proof).value();
    } else {
      found.error = proof.error();
    }
    if (options.common.json) {
      all.push(found_json(found));
    } else if (found.proof) {
      print_proof(*found.proof);
    } else {
      line(std::string("backend ") + found.name + ": " + found.error->code + ": " + found.error->detail);
      line("  fix: " + found.error->remedy);
    }
  }
  if (options.common.json) {
    json::Value value = json::Value::object();
    value.set("kernel", machine.kernel);
    value.set("landlockAbi", machine.landlock_abi);
    value.set("workspaceEnforceable", enforceable);
    value.set("backends", std::move(all));
    out_json(value);
  } else {
    line(enforceable ? "the preset workspace can be enforced here"
                     : "the preset workspace cannot be enforced here");
  }
  std::fflush(stdout);
  return enforceable ? 0 : exit_code(ErrorClass::environment);
}

}  // namespace hitchrail::cli
