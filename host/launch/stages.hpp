#pragma once
// The stages of the road, and what each hands to the next. Internal to launch/ (doctor uses profile, program
// and probe).

#include <future>
#include <optional>
#include <string>
#include <vector>

#include "attempt/spawn.hpp"
#include "boundary/prove.hpp"
#include "launch/installation.hpp"
#include "launch/launch.hpp"
#include "launch/phase.hpp"
#include "launch/presets.hpp"
#include "launch/trust.hpp"
#include "manifest/budget.hpp"
#include "manifest/drift.hpp"
#include "manifest/manifest.hpp"
#include "plugins/planner.hpp"
#include "plugins/plugins.hpp"
#include "profiles/profiles.hpp"
#include "store/cache.hpp"
#include "store/state_home.hpp"
#include "store/store.hpp"
#include "workspace/workspace.hpp"

namespace hitchrail::launch {

// What every stage may look at: the installation, the machine, and the state home when there is one. The
// state home is opened for reading only; `attempt` makes it or opens it for writing, so that a refusal leaves
// nothing behind.
struct Ground {
  Installation installation;
  // The machine is tried in a child of its own while profile and planner are made ready; machine() waits for
  // it.
  std::shared_future<boundary::Machine> machine_probe;
  [[nodiscard]] const boundary::Machine& machine() const { return machine_probe.get(); }
  std::optional<store::StateHome> home;  // absent in a preview before the first run
  std::string state_path;                // where it is or would be
  store::Cache cache;                    // what any command may write; keeps nothing when it cannot be used
  std::optional<Error> cache_error;      // why; costs time only
  bool may_write = false;                // start(), not preview()
};
// Made when it is absent, but never inside `worktree`: nothing may appear in a repository that is only looked
// at.
void open_cache(Ground& ground, const std::string& worktree);
Result<Ground> survey(const Request& request, bool may_write);

struct ProfileStage {
  profiles::SupportProfile profile;
  plugins::SealedPlugin plugin;
};
Result<ProfileStage> stage_profile(const Ground& ground, const Request& request);

struct ProgramStage {
  boundary::Executable executable;
  std::string found_as;                  // what the profile's command led to, before the launcher rule
  std::string sha256;                    // hex, of the content
  std::vector<boundary::Root> packages;  // the executable and its package
};
Result<ProgramStage> stage_program(const Ground& ground, const Request& request, const ProfileStage& profile);

struct ProbeStage {
  json::Value runtime_manifest;
  bool from_cache = false;
  // The probe failed: the manifest says so (all capabilities unknown) and nothing may start; the typed
  // reason.
  std::optional<Error> failure;
};
Result<ProbeStage> stage_probe(const Ground& ground, const ProfileStage& profile, const ProgramStage& program,
                               plugins::Planner& planner);
// Spawned here, ready when probe or task ask for it: loading the adapter goes on beside the other stages.
Result<plugins::Planner> spawn_planner(const Ground& ground, const ProfileStage& profile);

// What this launch needs of the probed provider, of its one manifest: requirements, and the findings that
// build_launch_manifest() does not make of them itself.
void judge_runtime(const ProbeStage& probe, const ProfileStage& profile, const std::string& model,
                   bool required_preset, const manifest::LaunchNeeds& needs,
                   manifest::LaunchManifestInput& input);

void add_host_capabilities(manifest::RuntimeManifestInput& input);

struct Resumed {  // of `--resume`
  std::string attempt_id;
  std::string conversation_id;
  Fd home;  // the earlier conversation's home
};
struct WorktreeStage {
  workspace::Worktree worktree;
  workspace::Baseline baseline;
  std::optional<Resumed> resumed;
  // Of a worktree that Hitchrail made: {worktreeManifestId, ownershipLeaseId,
  // baseBranch, resolvedBaseCommit, baseResolutionSource}; null for every other one, whose base is the head
  // at launch (baseResolutionSource `legacy-launch-head`).
  json::Value manifest;
};
// Everything but the baseline, which git is asked for beside the boundary stage: the two wait for different
// things.
Result<WorktreeStage> stage_worktree(const Ground& ground, const Request& request,
                                     const ProfileStage& profile);
std::future<Result<workspace::Baseline>> read_baseline(const Ground& ground,
                                                       const workspace::Worktree& worktree);

struct BoundaryStage {
  PresetInfo chosen;
  boundary::Preset preset;
  boundary::Compiled compiled;
  std::optional<std::string> login_file;  // host path of the provider's login file, when it is there
  std::vector<std::string> absent_paths;
  std::vector<boundary::ProvenBackend> proven;  // under a `required` preset: what the backend's proof says
  PhaseStage phase;                             // judged; its evidence, blockers and warnings
};
// Proofs of the backends, from the cache or made now and kept there, for Options::proven. Nothing for an
// advisory preset.
using Proofs = std::optional<std::vector<boundary::ProvenBackend>>;
Result<Proofs> prove_backends(const Ground& ground, const boundary::Preset& preset,
                              boundary::Backend backend);
// The program that init will be is the one that was proved.
Status check_proved_init(const BoundaryStage& boundary, int init_fd);
// "" = HITCHRAIL_BOUNDARY_BACKEND; code backend-unknown.
Result<boundary::Backend> chosen_backend(const std::string& name);
// The real object directory and its alternates, read-only.
Status add_repository(const workspace::Worktree& worktree, boundary::Roots& roots);
// The one way from a preset and what was looked at to a compiled boundary, for runs, `sandbox exec` and
// `explain`: adds the host's own paths, the preset's, and the operator's PATH directories.
Result<boundary::Compiled> compile_boundary(const Ground& ground, const boundary::Preset& preset,
                                            boundary::Roots roots, const boundary::Options& options,
                                            std::vector<std::string>* absent);
Result<BoundaryStage> stage_boundary(const Ground& ground, const Request& request,
                                     const ProfileStage& profile, const ProgramStage& program,
                                     const WorktreeStage& worktree, const TrustStage& trust,
                                     PhaseStage phase);

struct TaskStage {
  std::string attempt_id;
  std::string task_id;
  std::int64_t created_unix_ms = 0;
  json::Value envelope;
  std::string request_text;
  json::Value transport;  // provider-task-envelope-transport/v1 around request_text
  // What the harness is told, for the launch manifest: `instructions.effective-task-request` (kind task,
  // precedence 100) and the profile instructions (kind profile, precedence 200).
  std::vector<manifest::Instruction> instructions;
  std::vector<manifest::Finding> warnings;  // what the launch took away from the task
};
Result<TaskStage> stage_task(const Ground& ground, const Request& request, const ProfileStage& profile,
                             const ProbeStage& probe, const WorktreeStage& worktree,
                             const BoundaryStage& boundary, plugins::Planner& planner);

// GIT_AUTHOR_* and GIT_COMMITTER_*: the caller's variables, else the repository's configuration, else
// ~/.gitconfig.
std::vector<std::pair<std::string, std::string>> git_identity(const workspace::Worktree& worktree);

// Run directories as they will be called; they do not exist yet, identities are empty.
boundary::RunDirectories planned_directories(const Ground& ground, const std::string& attempt_id);

// What the run may use up: the budget, and what follows from it for time and model.
struct LimitsStage {
  manifest::Budget budget;
  std::uint64_t time_limit_s = 0;  // the smaller of --time-limit and the budget's; 0 = none
  std::string model;               // as asked for, or of a downgrade
};
Result<LimitsStage> stage_limits(const Request& request);

struct PlanStage {
  plugins::PlannedLaunch planned;
  std::vector<std::pair<std::string, std::string>> environment;  // without secrets
  std::vector<std::string> secret_names;                         // environment names whose values are secret
  std::vector<attempt::Secret> secrets;                          // values; never in a document
  boundary::Command command;
};
Result<PlanStage> stage_plan(const Ground& ground, const Request& request, const ProfileStage& profile,
                             const ProgramStage& program, const ProbeStage& probe,
                             const WorktreeStage& worktree, const BoundaryStage& boundary,
                             const TaskStage& task, const LimitsStage& limits, plugins::Planner& planner);

struct ManifestStage {
  json::Value manifest;
  json::Value values;  // manifest::launch_values()
  // Against --manifest: what the operator saw, and how the launch differs from it now.
  std::string planned_digest;  // "" without one
  std::vector<manifest::SectionChange> drift;
};
// The verification gates' plan (gate_plans.hpp), null when the task has none; what stands in their way is
// added to the boundary's blockers and warnings.
struct GateStage {
  json::Value document;
  std::uint64_t total_ms = 0;
};
Result<GateStage> stage_gates(const Ground& ground, const Request& request, const TaskStage& task,
                              BoundaryStage& boundary);

// What a launch is compared with, read before anything is looked at.
struct Comparison {
  std::optional<json::Value> planned;  // of --manifest
  std::optional<json::Value> parent;   // of --parent, else of --resume
};
// Codes: manifest-file-*, manifest-digest-mismatch, manifest-file-invalid, parent-manifest-unreadable, and
// those of finding an attempt.
Result<Comparison> read_comparison(const Ground& ground, const Request& request);
// Everything before the first change, in order; each stage adds its own.
struct Prepared {
  LimitsStage limits;
  ProfileStage profile;
  ProgramStage program;
  ProbeStage probe;
  WorktreeStage worktree;
  TrustStage trust;
  BoundaryStage boundary;
  TaskStage task;
  GateStage gates;
  PlanStage plan;
  ManifestStage manifest;
};
// From all that was prepared before.
Result<ManifestStage> stage_manifest(const Ground& ground, const Request& request, const Prepared& prepared,
                                     const Comparison& comparison);
Result<Prepared> prepare(const Ground& ground, const Request& request, Timings& timings);

// Lease and attempt row, or the refusal that names the run in the way.
Status stage_admission(const Ground& ground, const store::StateHome& home, store::Store& store,
                       const store::WorktreeLease& lease, const store::AttemptRow& row);
// A worktree that Hitchrail made is claimed for the attempt that holds its live lease already; the claim of
// an attempt that is over, or whose time is up, is taken over.
Status claim_ownership(const Ground& ground, const store::StateHome& home, store::Store& store,
                       const WorktreeStage& worktree, const std::string& task_id,
                       const std::string& attempt_id);
// Of an attempt that did not come to life; what somebody else owns by now stays theirs.
void release_ownership(const store::StateHome& home, const WorktreeStage& worktree,
                       const std::string& attempt_id);
// The lease alone, for a command without an attempt.
Status admit_worktree(const Ground& ground, const store::StateHome& home, store::Store& store,
                      const store::WorktreeLease& lease);
// The run-private git directory below the attempt directory.
Status fill_git(const Ground& ground, const Prepared& prepared, int attempt_dirfd);
// What the boundary masks is absent without a difference for git inside; `git` and `git-base` are made
// already.
Status hide_masks(const Ground& ground, const workspace::Worktree& worktree,
                  const boundary::Compiled& compiled, int attempt_dirfd);
Result<Started> stage_attempt(const Ground& ground, const Request& request, Prepared& prepared,
                              Timings& timings);

}  // namespace hitchrail::launch
