#pragma once
// One command in the boundary of a preset, without harness, adapter or journal: `sandbox exec`, and what it
// would see: `sandbox explain`. The same compiler, placeholders and cleanup as a run.
//
// Promises: nothing is made before the policy is compiled and admitted; the command gets the caller's
// streams, an environment built from empty, a private git directory where the worktree is a repository, and
// new run directories, which are removed when it ends: by the caller, by its janitor when the caller was
// killed, or at the next start. One command or run at a time holds a worktree. Commits are imported only when
// asked. Refuses: as a run does, and environment-unset, environment-reserved, command-missing, gate-missing,
// relay-without-gate.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "boundary/attach.hpp"
#include "launch/installation.hpp"
#include "launch/presets.hpp"
#include "store/state_home.hpp"

namespace hitchrail::launch {

struct SandboxRequest {
  ExtraDirs dirs;
  std::string preset = "workspace";
  std::string worktree = ".";
  std::string backend;              // "", "native", "landlock"
  std::vector<std::string> read;    // further policy paths, read-only
  std::vector<std::string> relays;  // ADDRESS:PORT under network gate
  std::vector<std::string> hosts;   // names the gate lets through, beside the preset's
  bool trust_owner = false;
};
struct ExecRequest {
  SandboxRequest sandbox;
  std::vector<std::string> command;
  std::vector<std::string> environment;  // NAME (taken over) or NAME=VALUE
  bool import_commits = false;
};
struct ExecEnd {
  boundary::AttachedEnd end;
  std::vector<std::string> notes;  // for the operator: commits, kept directories
};
Result<ExecEnd> exec_in_sandbox(const ExecRequest& request);

struct ExplainedPath {
  std::string path;
  std::string access;  // read, write, deny, none
  std::string role;
  std::string why;
};
struct Explanation {
  PresetInfo chosen;
  boundary::Compiled compiled;
  std::string cwd;
  std::vector<ExplainedPath> paths;  // by path; run directories last
};
// With a command its program's package is among the paths. Blockers are data here.
Result<Explanation> explain_sandbox(const SandboxRequest& request,
                                    const std::vector<std::string>& command = {});

// Removes what commands left whose caller is gone; gives how many. Also for the next run and `runs recover`.
Result<int> sweep_commands(const store::StateHome& home);
inline constexpr const char* exec_prefix = "exec_";
// Whether the command of this lease is alive; one that is not is swept.
Result<bool> command_holds(const store::StateHome& home, const std::string& id);

}  // namespace hitchrail::launch
