#pragma once
// What a command line means, as plain values. main.cpp fills these with CLI11; the commands never see the
// parser.

#include <cstdint>
#include <string>
#include <vector>

namespace hitchrail::cli {

struct Common {
  bool json = false;
  std::vector<std::string> plugin_dirs;   // before the configured ones
  std::vector<std::string> profile_dirs;  // before the configured ones
};

struct RunOptions {
  Common common;
  std::string agent;
  std::string worktree = ".";
  std::string message;
  bool has_message = false;
  std::string task_file;
  std::string task_form;                  // of the task file; "" = by its name
  std::vector<std::string> instructions;  // files
  std::string commits;                    // forbidden, allowed, required; "" = the task's
  std::string sandbox = "workspace";
  std::string backend;  // empty = the best that proves what the preset requires
  std::string model;
  bool has_resume = false;
  std::string resume;                         // attempt id or unique prefix
  std::vector<std::string> provider_options;  // KEY=VALUE
  std::vector<std::string> relays;            // ADDRESS:PORT
  std::string executable;
  bool trust_owner = false;
  bool detach = false;
  bool timings = false;
  std::uint64_t time_limit_s = 0;
  std::string parent;         // attempt id or unique prefix
  std::string phase;          // empty = the task file's, or none
  std::string plan_artifact;  // of phase plan
  bool sandbox_given = false;
  bool has_override = false;
  std::string override_reason;
  std::vector<std::string> budget;  // KEY=VALUE
  std::string manifest_file;
  bool refuse_drift = false;
  std::string output;  // preview: keep the manifest here
};

struct RunsOptions {
  Common common;
  std::string attempt;
  std::uint64_t after = 0;
  bool follow = false;
  bool kill = false;
  bool all = false;
};

struct PluginsOptions {
  Common common;
  std::string name;  // provider id or file
};

struct DoctorOptions {
  Common common;
  std::string agent;
};

struct SandboxOptions {
  Common common;
  std::string preset = "workspace";
  std::string worktree = ".";
  std::string backend;
  std::vector<std::string> read;         // policy paths
  std::vector<std::string> relays;       // ADDRESS:PORT
  std::vector<std::string> hosts;        // NAME or *.NAME, with :PORT
  std::vector<std::string> environment;  // NAME or NAME=VALUE
  bool trust_owner = false;
  bool import_commits = false;
  std::vector<std::string> command;  // what stood behind --
};

struct SandboxProbeOptions {
  Common common;
  std::string backend;  // empty = every backend
  bool fresh = false;
};

struct WorktreesOptions {
  Common common;
  std::string name;  // create: path; remove: id, prefix of one, or path
  std::string repository = ".";
  std::string base, branch;
  bool fetch = false;
  bool has_stale_reason = false;
  std::string stale_reason;
  std::int64_t lease_s = 0;  // 0 = 30 days
  bool trust_owner = false;
  bool has_force = false;
  std::string force;
  bool dry_run = false;
  bool all = false;
};

struct PresetOptions {
  Common common;
  std::string name;  // id, or a file
};

struct TrustOptions {
  Common common;
  std::string worktree = ".";
  std::string agent;      // empty = no harness in particular
  std::string inventory;  // digest of what was looked at
  std::string reason;
  std::string expires;  // "30d"
  bool trust_owner = false;
};

int run_command(const RunOptions& options);
int preview_command(const RunOptions& options);
int runs_list(const RunsOptions& options);
int runs_show(const RunsOptions& options);
int runs_events(const RunsOptions& options);
int runs_stop(const RunsOptions& options);
int runs_recover(const RunsOptions& options);
int plugins_list(const PluginsOptions& options);
int plugins_show(const PluginsOptions& options);
int plugins_enable(const PluginsOptions& options);
int plugins_disable(const PluginsOptions& options);
int plugins_check(const PluginsOptions& options);
int cache_show(const Common& options);
int cache_clear(const Common& options);
int doctor_command(const DoctorOptions& options);
int sandbox_explain(const SandboxOptions& options);
int sandbox_exec(const SandboxOptions& options);  // the program's own code; 125 for ours
int sandbox_probe_command(const SandboxProbeOptions& options);
int trust_show(const TrustOptions& options);
int trust_allow(const TrustOptions& options);
int trust_restrict(const TrustOptions& options);
int trust_deny(const TrustOptions& options);
int trust_revoke(const TrustOptions& options);
int worktrees_create(const WorktreesOptions& options);
int worktrees_list(const WorktreesOptions& options);
int worktrees_remove(const WorktreesOptions& options);
int worktrees_prune(const WorktreesOptions& options);
int presets_list(const PresetOptions& options);
int presets_show(const PresetOptions& options);
int presets_add(const PresetOptions& options);
int presets_disable(const PresetOptions& options);
int presets_enable(const PresetOptions& options);

}  // namespace hitchrail::cli
