// Which backend a policy gets: what each holds by its design, what was proved here, and what stands in the
// way.
#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "boundary/internal.hpp"

namespace hitchrail::boundary {

void block(Compiled& out, ErrorClass kind, std::string code, std::string object, std::string detail,
           std::string remedy) {
  out.blockers.push_back({Error{kind, std::move(code), "compile boundary", std::move(object),
                                std::move(detail), std::move(remedy)}});
}
void refuse(Compiled& out, std::string code, std::string object, std::string detail, std::string remedy) {
  block(out, ErrorClass::refused, std::move(code), std::move(object), std::move(detail), std::move(remedy));
}

std::vector<std::string> without(const std::vector<std::string>& all, const std::vector<std::string>& less) {
  std::vector<std::string> rest;
  std::set_difference(all.begin(), all.end(), less.begin(), less.end(), std::back_inserter(rest));
  return rest;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : ", ") + word;
  }
  return text;
}

namespace {

std::vector<std::string> proven_by(Backend backend, const Machine& machine, Network network) {
  std::vector<std::string> proven;
  const bool native = backend == Backend::native;
  if (native) {
    proven = {
        "filesystem.denied", "filesystem.metadata", "filesystem.private-tmp", "filesystem.protected-names",
        "filesystem.read",   "filesystem.set-id",   "filesystem.write",       "ipc.isolation",
        "kernel.surface",    "process.isolation",   "process.settings",       "process.tree",
        "sockets.outside",   "workspace.usable"};
    // Abstract names belong to the network namespace: only a scope, or a namespace of its own, closes them.
    if (rights::scoped(machine.landlock_abi) != 0 || network != Network::host) {
      proven.emplace_back("sockets.abstract");
    }
  } else {
    proven = {"filesystem.denied", "filesystem.protected-names",
              "filesystem.read",   "filesystem.set-id",
              "filesystem.write",  "kernel.surface",
              "sockets.abstract",  "sockets.outside",
              "workspace.usable"};
    if (rights::scoped(machine.landlock_abi) != 0) {
      proven.emplace_back("process.isolation");
    }
  }
  if (network == Network::none) {
    proven.emplace_back("network.none");
  }
  if (network == Network::gate && native) {
    proven.emplace_back("network.gate");
  }
  std::sort(proven.begin(), proven.end());
  return proven;
}

// Why this backend cannot be had here; empty when it can.
std::vector<Finding> obstacles(Backend backend, const Machine& machine) {
  std::vector<Finding> found;
  const bool native = backend == Backend::native;
  for (const Finding& finding : machine.missing) {
    const bool landlock_only = finding.code == "landlock-abi-old" || finding.code == "landlock-missing";
    const bool both = finding.code == "seccomp-missing" || finding.code == "init-missing";
    if (both || (native ? !landlock_only : landlock_only)) {
      found.push_back(finding);
    }
  }
  return found;
}

bool usable(Backend backend, const Machine& machine, const Compiled& out) {
  if (!machine.seccomp) {
    return false;
  }
  if (backend == Backend::native) {
    const bool net = out.network == Network::host || !out.run_directories || machine.net_namespace;
    return machine.user_namespaces && machine.mount_api && machine.pid_namespace && net;
  }
  return machine.landlock_abi >= 3;  // before, a file outside could be truncated
}

// What of `required` this backend does not hold by its design, or, with proofs, was not proved to hold here.
std::vector<std::string> unproven_of(const std::vector<std::string>& required, Backend backend,
                                     const Machine& machine, const Options& options, Network network) {
  std::vector<std::string> missing = without(required, proven_by(backend, machine, network));
  if (!options.proven) {
    return missing;
  }
  const auto& all = *options.proven;
  const auto proof = std::find_if(all.begin(), all.end(),
                                  [&](const ProvenBackend& each) { return each.backend == backend; });
  const std::vector<std::string> found =
      without(required, proof == all.end() ? std::vector<std::string>{} : proof->capabilities);
  missing.insert(missing.end(), found.begin(), found.end());
  std::sort(missing.begin(), missing.end());
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  return missing;
}

// The probes that decided against a backend, for the refusal's text.
std::string failed_probes(Backend backend, const Options& options) {
  if (options.proven) {
    for (const ProvenBackend& each : *options.proven) {
      if (each.backend == backend && !each.failed.empty()) {
        return " Probes: " + joined(each.failed) + ".";
      }
    }
  }
  return "";
}

// What an advisory preset goes without is said, in preview and evidence. Its own sandbox below Landlock alone
// could not mount anything, would run nothing and still succeed: that is no run.
void take_advisory(const std::vector<std::string>& unproven, Compiled& out) {
  out.unheld = unproven;
  for (const std::string& capability : unproven) {
    out.warnings.push_back(
        {"capability-unheld", "Not held here, and the preset only advises it: " + capability + "."});
  }
  if (out.backend == Backend::landlock) {
    block(out, ErrorClass::environment, "nested-unavailable", "backend landlock",
          "The provider's own sandbox could start nothing below this backend.",
          "Use a required preset, or a machine where the native backend works.");
    return;
  }
  out.nested_allowed = true;
  out.warnings.push_back(
      {"advisory-preset",
       "User namespaces and mounts are allowed inside, and Landlock holds no files: a tool command can "
       "change the harness's memory. The provider's own sandbox stays on."});
}

}  // namespace

void choose_backend(const Preset& preset, const Machine& machine, const Options& options, Compiled& out) {
  std::vector<std::string> required = preset.required_capabilities;
  if (options.proven && preset.enforcement == Enforcement::required) {
    required.insert(required.end(), {"kernel.surface", "workspace.usable"});
  }
  if (out.network == Network::gate &&
      std::find(required.begin(), required.end(), "network.gate") == required.end()) {
    required.emplace_back("network.gate");
  }
  std::sort(required.begin(), required.end());
  required.erase(std::unique(required.begin(), required.end()), required.end());
  const auto unproven = [&](Backend backend) {
    return unproven_of(required, backend, machine, options, out.network);
  };
  const auto fits = [&](Backend backend) {
    return usable(backend, machine, out) && unproven(backend).empty();
  };
  std::vector<Backend> candidates{Backend::native, Backend::landlock};
  if (options.backend != Backend::automatic) {
    candidates = {options.backend};
  }
  out.backend = candidates.front();
  for (const Backend candidate : candidates) {
    if (fits(candidate) || (out.enforcement == Enforcement::advisory && usable(candidate, machine, out))) {
      out.backend = candidate;
      if (out.enforcement == Enforcement::advisory && out.run_directories) {
        take_advisory(unproven(candidate), out);
      }
      return;
    }
  }
  for (const Backend candidate : candidates) {
    const std::string name = candidate == Backend::native ? "native" : "landlock";
    for (const Finding& finding : obstacles(candidate, machine)) {
      const bool listed = std::any_of(out.blockers.begin(), out.blockers.end(), [&](const Blocker& blocker) {
        return blocker.error.code == finding.code;
      });
      if (!listed) {
        block(out, ErrorClass::environment, finding.code, "backend " + name, finding.detail, finding.remedy);
      }
    }
    if (usable(candidate, machine, out) && !unproven(candidate).empty()) {
      refuse(out, "capability-unproven", "backend " + name,
             "The preset requires what this backend does not prove: " + joined(unproven(candidate)) + "." +
                 failed_probes(candidate, options),
             "See: hitchrail sandbox probe. Run on a machine with user namespaces and mount rights "
             "(hitchrail doctor), or choose another "
             "preset.");
    }
  }
  if (out.blockers.empty()) {
    block(out, ErrorClass::environment, "boundary-unavailable", "backend",
          "No backend works on this machine.", "Run: hitchrail doctor");
  }
}

const std::vector<std::string>& capability_names() {
  static const std::vector<std::string> names{
      "filesystem.denied", "filesystem.metadata", "filesystem.private-tmp", "filesystem.protected-names",
      "filesystem.read",   "filesystem.set-id",   "filesystem.write",       "ipc.isolation",
      "kernel.surface",    "network.gate",        "network.none",           "process.isolation",
      "process.settings",  "process.tree",        "sockets.abstract",       "sockets.outside",
      "workspace.usable"};
  return names;
}

bool backend_usable(Backend backend, const Machine& machine) {
  return usable(backend, machine, Compiled{});  // with the host's network
}

const char* backend_name(Backend backend) {
  return backend == Backend::native ? "native" : "landlock";
}

std::vector<std::string> proven_capabilities(const Compiled& compiled, const Machine& machine) {
  return proven_by(compiled.backend, machine, compiled.network);
}

Result<Backend> backend_from_environment() {
  const char* value = std::getenv("HITCHRAIL_BOUNDARY_BACKEND");
  const std::string_view name = value == nullptr ? "" : value;
  if (name.empty() || name == "auto") {
    return Backend::automatic;
  }
  if (name == "native") {
    return Backend::native;
  }
  if (name == "landlock") {
    return Backend::landlock;
  }
  return Error{ErrorClass::usage,
               "backend-unknown",
               "read environment",
               "HITCHRAIL_BOUNDARY_BACKEND",
               "Known backends: native, landlock, auto.",
               ""};
}

}  // namespace hitchrail::boundary
