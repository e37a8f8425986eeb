#pragma once
// The boundary: what a program started by Hitchrail can see and change. One policy compiler, two backends
// (`native`: namespaces, mounts by descriptor, Landlock, seccomp; `landlock`: Landlock and seccomp only), one
// flat plan for hitchrail-init.
//
// Promises: compile() is pure (everything about the machine and the roots is looked at before, by the probing
// functions); a preset whose required capabilities no backend proves is refused with a code and a remedy,
// never weakened; protected names
// (.git .agents .codex .claude .hitchrail) below a writable root are never writable; the policy hash depends
// on roles and roots, not on the names of run directories. Nothing is mounted, made or started before
// flat_plan()/run(). Refuses: see docs/operators/boundary.md for every code. Does not do yet: masks for
// names that appear later.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "boundary/preset.hpp"
#include "boundary/roots.hpp"
#include "core/fd.hpp"
#include "core/json.hpp"
#include "core/result.hpp"
#include "gate/policy.hpp"

namespace hitchrail::boundary {

// ---- the machine
// ------------------------------------------------------------------------------------------------------
struct Finding {
  std::string code;    // "userns-denied", "landlock-missing", "landlock-abi-old", "mount-denied", ...
  std::string detail;  // what is missing and what it costs
  std::string remedy;
};
struct SystemPath {  // a system tree or file granted read-only to every run
  Root source;
  std::string target;  // where it appears (differs for a resolved resolver file)
};
struct SystemLink {  // /bin -> usr/bin
  std::string target;
  std::string text;
};
// Control groups this process may make groups in, "" = none: its own of the two old hierarchies, or the
// nearest delegated one of the unified hierarchy.
struct ControlGroups {
  std::string memory;
  std::string processes;
  bool unified = false;
};
struct Machine {
  std::string kernel;
  std::uint32_t uid = 0;  // effective ids of this process
  std::uint32_t gid = 0;
  bool user_namespaces = false;  // a user namespace with mount rights can be made here
  bool mount_api = false;        // open_tree, mount_setattr, move_mount work in it
  bool overlay = false;          // an overlay can be mounted in a user namespace
  bool pid_namespace = false;    // with a fresh /proc, subset=pid
  bool net_namespace = false;    // with loopback up
  bool seccomp = false;
  int landlock_abi = 0;  // 0: none
  ControlGroups control_groups;
  std::vector<SystemPath> system;
  std::vector<SystemLink> links;
  std::optional<Root> terminal;           // /dev/tty: bubblewrap inside insists on it
  std::vector<Root> devices;              // of null zero full random urandom that exist
  std::optional<Root> proc;               // of the host: read by the landlock backend
  std::string shell;                      // /bin/bash, or /bin/sh where there is none
  std::vector<std::string> mount_points;  // of this mount namespace, for nested mounts in roots
  std::vector<Finding> missing;           // in the order of the list above
};
// Tries each thing in a child that is gone afterwards (a few ms; keep the value for the process's life).
Machine probe_machine();

// ---- compile
// -----------------------------------------------------------------------------------------------------------
enum class Backend { automatic, native, landlock };

// What was proved of a backend on this machine (prove.hpp).
struct ProvenBackend {
  Backend backend = Backend::native;
  std::vector<std::string> capabilities;   // sorted
  std::vector<std::string> failed;         // "filesystem.read: read_outside", for the refusal
  FileIdentity init;                       // hitchrail-init as it was proved: what is executed must be it
  std::string cache_name, cache_document;  // made now and not remembered yet (remember_proofs), else ""
};

struct Options {
  Backend backend = Backend::automatic;  // HITCHRAIL_BOUNDARY_BACKEND=native|landlock for tests and operators
  std::uint64_t max_processes = 0;       // 0 = the preset's
  std::uint64_t max_memory = 0;          // bytes; 0 = the preset's
  std::string proof = {};                // digest of the probe result that is relied on, "" = none
  // Under network `gate`: the profile's providerHosts, and upstreams that the operator named; the preset's
  // own hosts are added.
  gate::Policy egress{};
  // With it a backend counts only as far as it was proved here: what is required, and under a `required`
  // preset kernel.surface and workspace.usable too. Without, as far as its design goes (git and version
  // probes).
  std::optional<std::vector<ProvenBackend>> proven{};
};
Result<Backend> backend_from_environment();

struct Blocker {
  Error error;  // kind refused or environment
};
struct Warning {
  std::string code;
  std::string detail;
};
// The compiled boundary. `blockers` empty means it may be used; preview shows all of them. Value type, no
// descriptors.
struct Grant {
  std::string role;  // "system", "package", "path", "store", "write-root", "worktree", "entry", "home",
                     // "temp", "git", "objects", "credential", "read", "write", "device"
  Root source;
  std::string target;  // path inside
  bool writable = false;
  bool executable = true;
};
struct Protected {
  std::string root;  // target of the writable root
  std::string name;
  EntryKind state = EntryKind::absent;
  Identity identity;
  bool overlay = false;  // absent, and held by an overlay over its root
};
struct OverlayDirectory {  // of one writable root, in the attempt directory; made by make_placeholders()
  std::string root;        // target of the writable root
  std::string path;
  Identity identity;
};
// Of a verification gate's boundary (verification.hpp): the writable roots and the private git directory lie
// below layers that are thrown away, or can only be read; home and temporary directory are the boundary's own
// (native).
struct Verification {
  bool on = false;
  bool layered = false;
  std::uint64_t scratch_bytes = 0;  // of each layer, and of the temporary directory
};
struct Compiled {
  Backend backend = Backend::native;
  Network network = Network::host;
  std::string preset_id;
  std::string policy_hash;  // sha256:…, of `policy`
  json::Value policy;       // what was decided, roles of run directories instead of their names
  std::vector<Grant> grants;
  std::vector<Protected> protected_names;
  std::vector<Root> denied;  // masked (native) or not granted (landlock)
  std::vector<Root> masks;   // dotfiles: an empty mode-000 file or directory is mounted over each (native)
  bool dotfile_masking = false;
  std::vector<Root> nested_git;      // `.git` entries below the top level: held read-only (native)
  std::shared_ptr<const Scan> scan;  // what recheck() compares with; absent for the fixed boundaries
  // Absent protected names: true = by an overlay (upper layer the worktree), false = by placeholders.
  bool overlay = false;
  bool idmapped = false;  // a global uid of its own; worktree and run directories through idmapped mounts
  // The run may make user namespaces and mounts of its own (an advisory preset, so that the provider's own
  // sandbox works): no Landlock file rights, another uid than 0 inside, a filter that lets these calls
  // through.
  bool nested_allowed = false;
  // Bound over an (empty) file that exists in the home, except with copy_credentials (no mounts, or another
  // uid that could not read the original): then the caller puts a copy there, and the finisher removes it.
  std::vector<CredentialFile> credentials;
  bool copy_credentials = false;
  std::vector<SystemLink> links;
  std::vector<Root> devices;
  std::optional<Root> proc;
  std::string shell = "/bin/sh";
  // Whose the run's files are on disk; the caller chowns run directories when they are not its own.
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  // Global ids the program runs as: the same, or with `idmapped` ids of this run alone, which see every tree
  // of the run through an idmapped mount.
  std::uint32_t run_uid = 0;
  std::uint32_t run_gid = 0;
  std::uint32_t inside_uid = 0;  // what it sees itself as
  std::uint32_t inside_gid = 0;
  bool switch_user = false;
  std::vector<OverlayDirectory> overlay_directories;
  ControlGroups control_groups;
  std::vector<std::string> joined_groups;  // made by make_placeholders()
  bool net_namespace = false;              // its own, only loopback in it
  bool inet_sockets = true;                // INET, INET6 and NETLINK route may be made
  bool unix_sockets = true;                // false: only socketpair (landlock backend, probes)
  bool fixed_inside = true;     // run directories appear at inside_*; false: at their own paths (landlock)
  bool run_directories = true;  // the boundary wants RunDirectories
  bool git_file = false;        // the worktree's .git is a file (linked worktree)
  bool has_git = false;
  bool git_has_denied = false;  // something inside the worktree is denied or masked, and git may have it
  std::string worktree;         // path inside
  std::uint64_t max_processes = 0;
  std::uint64_t max_memory = 0;  // bytes, 0 = none
  Enforcement enforcement = Enforcement::required;
  bool local_only_handles = false;
  std::string proof;                          // digest of the proof that is relied on, "" = none
  std::vector<std::string> path_directories;  // of the operator's PATH, granted read-only, in its order
  Credentials credential_mode = Credentials::login;
  std::vector<std::string> allowed_hosts;  // network gate
  std::optional<gate::Compiled> gate;      // network gate: its listeners are made by init
  std::vector<std::string> unheld;  // required capabilities that an advisory preset goes without, sorted
  int landlock_abi = 0;
  Verification verification;
  json::Value evidence;  // filesystem-sandbox-evidence/v1 without run directory names
  std::vector<Warning> warnings;
  std::vector<Blocker> blockers;
};
// Only a fault of the input (a preset that names an unknown path form) is an Error; policy refusals are
// blockers.
Result<Compiled> compile(const Preset& preset, const Roots& roots, const Machine& machine,
                         const Options& options = {});
// The texts that stand in the evidence as their SHA-256 only: paths of roots, names of the preset's own.
std::vector<std::string> digested_texts(const Compiled& compiled);
// The first blocker as an Error, success when there is none.
Status admit(const Compiled& compiled);

// Git state of a hostile repository: everything readable, nothing writable, no home, no network, no UNIX
// sockets; git itself comes from the system roots. With `import_git_dir` that real git directory is writable
// except config*, hooks, info, objects/info and modules (import boundary).
struct Inspector {
  Root worktree;
  std::vector<Root>
      git_directories;  // git dir and common dir where they lie outside the worktree, private git directory
  std::optional<WritableRoot> import_git_dir;
  std::vector<Root> writable;  // further directories that git may write: no protected names in them
  bool network = false;        // the host's, on purpose: for a fetch, whose repository is one of our making
};
Result<Compiled> inspector_boundary(const Inspector& what, const Machine& machine,
                                    const Options& options = {});
// A provider's `--version` and the like: the program and the system, an empty HOME and cwd, no credentials,
// no network.
Result<Compiled> probe_boundary(const std::vector<Root>& package_roots, const Machine& machine,
                                const Options& options = {});

// ---- run directories and the view from inside
// ------------------------------------------------------------------------------
struct RunDirectories {  // of one attempt, all existing, owned by Compiled::uid
  std::optional<Root> home;
  std::optional<Root> temp;
  std::optional<Root> git;  // run-private git directory
  // Further grants of this attempt, in mount order (a later one may lie below an earlier one): what the
  // workspace service wants seen in and around the private git directory. Source and target may differ
  // (native only).
  std::vector<Grant> views;
};
struct Inside {
  std::string home, temp, worktree;
  std::string git_dir;  // where the private git directory is seen, "" without one
  std::string
      objects;  // where the real object directory is seen: for objects/info/alternates of the private one
  std::vector<std::pair<std::string, std::string>>
      environment;  // HOME TMPDIR TMP TEMP XDG_CACHE_HOME GIT_* USER LOGNAME SHELL PATH
};
inline constexpr const char* inside_home = "/hitchrail/home";
inline constexpr const char* inside_git = "/hitchrail/git";
inline constexpr const char* inside_objects = "/hitchrail/objects";
Inside inside(const Compiled& compiled, const RunDirectories& run);

// ---- protected names that do not exist
// ------------------------------------------------------------ Under an overlay: makes its work directory and
// the directory with the names it shows, `overlay` in the attempt directory; nothing is made in the worktree.
// Otherwise makes an empty directory for each absent protected name; recorded durably in `placeholders` of
// the attempt directory before each is made. Control groups for max_memory and
// max_processes, where they can be had, are named in `cgroups` before they are made. remove_placeholders()
// finds everything after a crash at any point. Fills in identities and overlay directories in `compiled`.
Status make_placeholders(Compiled& compiled, int attempt_dirfd);
// Removes each placeholder only while it is that very, empty directory, then the record; removes overlay
// directories and the marks (user.overlay.*) that kernels before 5.14 leave on directories the run made.
// Idempotent; nothing there is success. For the finisher and recovery, when no process of the run is left.
// Opens up a root of ours that the run closed, and closes it again. Writes what it left alone to *kept, and
// to *away whether all that is left lies in roots that are no longer at their paths (they are tried again
// each time, and nobody needs to wait for them). Code placeholders-left.
Status remove_placeholders(int attempt_dirfd, std::vector<std::string>* kept = nullptr, bool* away = nullptr);

// ---- commands
// ------------------------------------------------------------------------------------------------------------
struct Executable {  // resolved and hashed by the caller; compared again by init right before the exec
  std::string path;  // as seen inside (= on the host)
  FileIdentity identity;
  bool script = false;
};
Result<Executable> resolve_executable(const std::string& canonical_path);
// The same in two halves: the first reads no byte of it, the second only what `script` needs.
Result<Executable> identify_executable(const std::string& canonical_path);
Status read_script_mark(Executable& executable);

struct Command {
  Executable executable;
  std::vector<std::string> argv;
  std::vector<std::pair<std::string, std::string>> env;  // complete; built from empty
  std::vector<std::string> secret_env;                   // names whose values come by the secrets pipe
  std::string cwd;                                       // inside; "" = worktree, else HOME
  unsigned umask = 022;
  bool end_with_leader = false;  // run() sets it
};
// Bytes of the flat plan for hitchrail-init (host/init/plan.hpp).
Result<std::string> flat_plan(const Compiled& compiled, const RunDirectories& run, const Command& command);

struct RunLimits {
  std::size_t max_stdout = 1u << 20;
  std::size_t max_stderr = 64u << 10;
  std::int64_t wall_ms = 10'000;
  bool merge = false;            // stderr goes where stdout goes, in the order written
  std::function<bool()> stop{};  // asked four times a second, and after each signal: true ends the program
};
struct RunOutput {
  enum class End { exited, signaled, timed_out, output_limit, stopped } end = End::exited;
  int value = 0;  // exit code or signal
  std::string out;
  std::string err;
  bool out_truncated = false;
  bool err_truncated = false;
  [[nodiscard]] bool ok() const { return end == End::exited && value == 0; }
};
// Starts hitchrail-init for one short program and waits for it (probes, git inspection; no shim). Exceeding
// max_stdout ends the program (output_limit); the whole tree is gone when it returns. Errors: boundary-failed
// with init's step, executable-changed. `init_path` "" = hitchrail-init beside this program or below libexec
// (HITCHRAIL_LIBEXEC overrides).
Result<RunOutput> run(const Compiled& compiled, const Command& command, const RunLimits& limits,
                      std::string_view stdin_bytes = {}, const RunDirectories& run_directories = {});
// The same with a plan that is already written (its end_with_leader must be set).
Result<RunOutput> run_plan(const std::string& plan, const RunLimits& limits,
                           std::string_view stdin_bytes = {});
Result<std::string> init_path();

// The seccomp filter as bytes (struct sock_filter list), compiled once per process and variant. Code
// seccomp-compile-failed.
struct FilterOptions {
  bool inet = true;          // INET, INET6, NETLINK route
  bool unix_sockets = true;  // socket(AF_UNIX); socketpair always works
  // `permissive`: user and other namespaces, the mount family and NETLINK route for a provider's own sandbox.
  bool nested = false;
  // Modes, owners, times and attributes cannot be changed: of trees that are only read, where no mount says
  // so.
  bool metadata_held = false;
};
Result<std::string> seccomp_filter(const FilterOptions& options);

}  // namespace hitchrail::boundary
