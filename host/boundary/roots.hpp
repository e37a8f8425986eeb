#pragma once
// What a boundary is built of, looked at once and carried as values: canonical paths with the identity of
// what was found there. Refuses at the look: paths that are not absolute, canonical or pass through a link
// (code root-alias).

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/result.hpp"

namespace hitchrail::boundary {

struct Scan;  // scan.hpp

struct Identity {
  std::uint64_t dev = 0;
  std::uint64_t ino = 0;
  bool operator==(const Identity&) const = default;
};
struct FileIdentity {
  std::uint64_t dev = 0, ino = 0, size = 0;
  std::int64_t mtime_ns = 0, ctime_ns = 0;
  bool operator==(const FileIdentity&) const = default;
};
enum class EntryKind { absent, directory, file, symlink, other };

struct Root {
  std::string path;  // absolute, canonical
  Identity identity;
  bool directory = true;
  std::uint32_t uid = 0;  // owner on disk
  std::uint32_t gid = 0;
  bool remote = false;  // on a file system that another machine serves
};
struct Entry {
  std::string name;
  EntryKind kind = EntryKind::file;
  Identity identity;
};
struct WritableRoot {
  Root root;
  std::vector<Entry> entries;  // top level, sorted; only filled up to max_entries
  bool too_many_entries = false;
  // Filled in by look_at_mounts(); false: placeholders hold the protected names that do not exist.
  bool overlay = false;
};

// No component may be a link; "." and ".." are refused. Codes root-alias, root-missing, root-not-directory
// (want_directory).
Result<Root> resolve_root(const std::string& path, bool want_directory = true);
// For trusted system paths and executables: links are resolved first (realpath), then as above.
Result<Root> resolve_trusted(const std::string& path);
Result<WritableRoot> inspect_writable_root(const std::string& path);

// The package a program belongs to: the last node_modules/NAME (or @SCOPE/NAME) of its path, else the nearest
// of six folders above it with pyvenv.cfg, else the program alone. `program` is canonical.
Result<Root> package_root(const std::string& program);
// The directories of a PATH, canonical, each once: absolute ones that exist, are no root of the system and
// hold nothing that no run may see. What is left out is named with its reason.
struct PathDirectories {
  std::vector<Root> roots;
  std::vector<std::pair<std::string, std::string>> left_out;
};
struct Machine;
struct Roots;
PathDirectories path_directories(const std::string& path_variable, const Roots& roots,
                                 const Machine& machine);

struct CredentialFile {
  Root source;
  std::string
      home_path;  // below the run's home, e.g. ".codex/auth.json"; the file must exist there as a mount point
};

// Input of compile(). Paths of the run's own directories are not here: they do not exist yet at preview
// (RunDirectories).
struct Roots {
  std::optional<WritableRoot> worktree;
  bool worktree_read_only = false;
  // The real common object directory, granted read-only, when the run gets a private git directory over
  // <worktree>/.git.
  std::optional<Root> git_objects;
  std::vector<WritableRoot> write;  // further writable roots (preset's write paths, resolved)
  std::vector<Root> read;      // further read-only roots: packages, PATH directories outside the system roots
  std::vector<Root> packages;  // the executable and its package
  std::vector<Root> path;      // canonical PATH directories outside the system roots, in their order
  std::vector<CredentialFile> credentials;
  std::vector<Root> denied;  // preset's denied paths that exist
  std::vector<Root> stores;  // preset's package stores: granted read-only, not masked
  std::shared_ptr<const Scan>
      scan;  // of these very roots (scan.hpp); compile() takes refusals and masks from it
  std::vector<std::string> denied_absent;  // denied paths that do not exist, as they would be called
  // Started by root: the worktree's file system takes an idmapped mount (look_at_mounts()), so that the run
  // gets a global uid of its own and what it makes belongs to the worktree's owner.
  bool idmapped = false;
  // That uid and gid: of no account, subordinate range or service, another each time.
  std::uint32_t run_id = 0;
  std::string operator_home;  // the operator's $HOME: never a writable root itself
  std::vector<std::string>
      host_private;  // state, config, credential files: no granted root contains or lies in one
  std::vector<std::string>
      host_installed;  // plugins, profiles, our programs: no writable root contains or lies in one
};
struct Machine;
// For each writable root: can an overlay be made over it (its kernel and file system known to do it, the
// state directory on the same mount), and, for a run that root starts, can its trees be idmapped. Tried in a
// child with mounts of its own; writes nothing. A state directory that does not exist yet is judged by the
// nearest directory above it. HITCHRAIL_PROTECTED_NAMES=placeholders asks for placeholders,
// HITCHRAIL_OWN_UID=off for no uid of its own.
void look_at_mounts(const Machine& machine, const std::string& state_directory, Roots& roots);

// What holds protected names that do not exist in a worktree on the state directory's mount, and why. A
// worktree elsewhere gets placeholders; look_at_mounts() judges each.
struct AbsentNames {
  bool overlay = false;
  std::string why;
};
AbsentNames absent_names(const Machine& machine, const std::string& state_directory);

// A policy path as a canonical one. `<workspace>/x` and `~/x` must stay below their base whatever links lie
// in them; below an absolute path only links are followed that root owns and that lie in no place a run or
// another user could have made them. Missing leaves are kept behind the nearest existing ancestor. Codes:
// preset-path-form, root-alias, home-unknown.
struct PolicyPath {
  std::string path;
  bool exists = true;
};
Result<PolicyPath> resolve_policy_path(const std::string& path, const Roots& roots);
// Resolves the preset's paths into `roots`. Absent read and write paths, and absent stores, are left out and
// named in *absent; absent denied ones are Roots::denied_absent. Codes as above, root-missing for a writable
// root outside the worktree, root-not-directory.
struct Preset;
Status add_preset_paths(const Preset& preset, Roots& roots, std::vector<std::string>* absent = nullptr);

}  // namespace hitchrail::boundary
