#include "launch/origins.hpp"

#include <cstdlib>

namespace hitchrail::launch {

namespace {

class Origins {
 public:
  void system(const char* field, const char* source) { add(field, "system-default", source, 0); }
  void workspace(const char* field, std::string source) { add(field, "workspace", std::move(source), 150); }
  void provider(const char* field, std::string source) { add(field, "provider", std::move(source), 100); }
  void task(const char* field, bool given) {
    if (given) {
      add(field, "task-envelope", "task file", 100);
    }
  }
  void profile(const char* field, std::string source) { add(field, "agent-profile", std::move(source), 200); }
  void option(const char* field, const char* name, bool given) {
    if (given) {
      add(field, "run", name, 300);
    }
  }
  void compiler(const char* field, const char* source) { add(field, "system-default", source, 1000); }
  std::vector<manifest::Origin> take() { return std::move(list_); }

 private:
  void add(const char* field, const char* scope, std::string source, std::int64_t precedence) {
    list_.push_back({field, scope, std::move(source), precedence});
  }
  std::vector<manifest::Origin> list_;
};

void boundary_origins(const Request& request, const Prepared& prepared, const std::string& profile,
                      Origins& origins) {
  const std::string preset = "preset " + prepared.boundary.preset.id;
  origins.system("sandbox.presetId", "workspace");
  origins.option("sandbox.presetId", "--sandbox", request.sandbox_given);
  origins.system("sandbox.backend", "the first that proves what the preset requires");
  if (std::getenv("HITCHRAIL_BOUNDARY_BACKEND") != nullptr) {
    origins.workspace("sandbox.backend", "HITCHRAIL_BOUNDARY_BACKEND");
  }
  origins.option("sandbox.backend", "--backend", !request.backend.empty());
  origins.workspace("sandbox.egress", preset);
  if (prepared.boundary.compiled.gate) {
    origins.profile("sandbox.egress", profile + ": providerHosts");
    origins.option("sandbox.egress", "--relay", !request.relays.empty());
    origins.option("sandbox.egress", "--provider-option", !request.provider_options.empty());
  }
  origins.compiler("sandbox.filesystem", "boundary compiler");
  origins.workspace("credentials", preset + ": credentials");
  origins.profile("credentials", profile + ": credentialAllowlist and login file");
  origins.system("runtime.environmentKeys", "boundary");
  origins.workspace("runtime.environmentKeys", preset + ": environment");
  origins.profile("runtime.environmentKeys", profile + ": allow-lists");
}

void limit_origins(const Request& request, const Prepared& prepared, Origins& origins) {
  origins.system("budget", "disabled");
  origins.task("budget", !request.task.budget.is_null());
  origins.option("budget", "--budget", !request.budget.empty());
  if (prepared.limits.time_limit_s != 0) {
    origins.option("runtime.timeLimitSeconds", "--time-limit", request.time_limit_s != 0);
    origins.compiler("runtime.timeLimitSeconds",
                     "the smallest of --time-limit and budget.limits.runtimeSeconds");
  }
  origins.provider("runtime.model", "the provider's own choice");
  origins.option("runtime.model", "--model", !request.model.empty());
  origins.option("runtime.model", "budget downgrade", prepared.limits.model != request.model);
}

}  // namespace

std::vector<manifest::Origin> origins_of(const Request& request, const Prepared& prepared) {
  const std::string profile = "profile " + prepared.profile.profile.id;
  const std::string adapter = "adapter " + prepared.profile.plugin.elf.note.provider_id;
  Origins origins;
  origins.option("routing.selectedAgent", "--agent", true);
  origins.profile("runtime.command", profile);
  origins.option("runtime.command", "--executable", !request.executable.empty());
  origins.provider("runtime.args", adapter);
  origins.provider("runtime.plan", adapter);
  origins.option("runtime.plan", "--provider-option", !request.provider_options.empty());
  origins.profile("runtime.workingDirectory", profile + ": task-worktree");
  origins.option("runtime.workingDirectory", "--worktree", true);
  origins.system("taskEnvelope.commitPolicy", "allowed");
  origins.task("taskEnvelope.commitPolicy", !request.task.commit_policy.empty());
  origins.option("taskEnvelope.commitPolicy", "--commits", !request.commit_policy.empty());
  origins.task("readiness.missingRequired", !request.task.readiness_required.empty());
  origins.option("readiness.overridden", "--override-readiness", !request.override_reason.empty());
  origins.option("conversation", "--resume", prepared.worktree.resumed.has_value());
  origins.option("workspace.foreignOwnerTrusted", "--trust-owner", request.trust_owner);
  origins.workspace("workspace.resolvedBaseCommit",
                    prepared.worktree.manifest.is_null() ? "HEAD at launch" : "worktree manifest");
  boundary_origins(request, prepared, profile, origins);
  limit_origins(request, prepared, origins);
  origins.compiler("enforcement", "launch compiler");
  return origins.take();
}

}  // namespace hitchrail::launch
