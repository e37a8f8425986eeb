#pragma once
// The flat plan: everything hitchrail-init needs to build one boundary and start one program in it. Written
// by the host (boundary service) into a sealed memfd, read by the static init, which trusts none of it:
// plan::check() is run first and refuses what is out of bounds. Fixed structs, host byte order, then one
// string table; every string in it is followed by a NUL. No JSON, no pointers. Both ends come from one build;
// another version is refused.
//
// Rules of the file system part: a source on the host is opened by its absolute path without following any
// link and must have the expected device and inode. A target is one name below the object of an earlier step,
// reached by that step's descriptor: no path inside the new root is ever resolved. Step 0 is the fresh root
// itself.

#include <cstddef>
#include <cstdint>

namespace hitchrail::plan {

inline constexpr std::uint32_t magic = 0x4c505248;  // "HRPL"
inline constexpr std::uint32_t version = 2;
inline constexpr std::uint32_t max_size = 4u << 20;
inline constexpr std::uint32_t max_steps = 8192;
inline constexpr std::uint32_t max_strings = 65536;  // argv, env
inline constexpr std::uint32_t max_listeners = 16;
inline constexpr std::uint32_t max_overlays = 16;
inline constexpr std::uint32_t max_layers = 18;
inline constexpr std::uint32_t max_cgroups = 8;
inline constexpr std::uint32_t no_step = 0xffffffffu;
inline constexpr std::uint32_t no_id = 0xffffffffu;

enum Flag : std::uint32_t {
  user_namespace = 1u << 0,   // with one uid and one gid mapped
  mount_namespace = 1u << 1,  // fresh root; without it only step_source is allowed
  pid_namespace = 1u << 2,
  ipc_namespace = 1u << 3,
  uts_namespace = 1u << 4,
  net_namespace = 1u << 5,  // loopback is brought up
  cgroup_namespace = 1u << 6,
  switch_user =
      1u << 7,  // started by root: become outside_uid/gid before the user namespace; trees are cloned before
  end_with_leader =
      1u << 8,  // init ends the tree and exits when the leader has exited (probes; a shim leaves it 0)
  exec_by_path = 1u << 9,  // the program is a script: its interpreter must be able to open it by name
};

struct String {
  std::uint32_t offset;  // into the string table
  std::uint32_t size;    // without the NUL
};
struct Array {
  std::uint32_t offset;  // from the plan's start, 8-aligned
  std::uint32_t count;
};
struct Identity {
  std::uint64_t dev;
  std::uint64_t ino;
};
struct FileIdentity {
  std::uint64_t dev;
  std::uint64_t ino;
  std::uint64_t size;
  std::int64_t mtime_ns;
  std::int64_t ctime_ns;
};

enum StepKind : std::uint32_t {
  step_directory = 1,  // make `name` below parent (an existing real directory is taken)
  step_file = 2,       // make `name` below parent with the bytes of `text`
  step_symlink = 3,    // make `name` below parent, target `text`; its object cannot be a parent
  step_open = 4,  // open the existing `name` below parent, no link followed, identity compared when dev or
                  // ino is not 0, with dev 0 (below an overlay) only the inode
  step_source =
      5,           // open host path `text`, identity compared; attaches nothing (Landlock rules, executables)
  step_mount = 6,  // clone host path `text` (identity compared) and attach it onto the object of `parent`
  step_clone = 7,  // clone the object of step `other` and attach it onto the object of `parent` (protected
                   // names, masks)
  step_proc = 8,   // fresh /proc, subset=pid, onto parent
  step_devpts = 9,  // fresh devpts onto parent
  step_tmpfs = 10,  // fresh tmpfs of `mode`, at most `size` bytes, onto parent
  // Overlay onto parent: upper layer the host directory `text` (identity compared); `name` is a host
  // directory (second identity compared) with `work` and, as lower layer, `absent`. All three must lie on one
  // mount. With switch_user they are found below a clone of the directory whose path is the first `size`
  // bytes of both, made before the switch.
  step_overlay = 11,
  // Clone the object of `other` (no_step: of the target itself) onto the existing `name` below parent: here a
  // path of several components, no link and no ".." on it, identity compared (with dev 0 only the inode).
  // Keeps no descriptor; cannot be a parent. Below a step_layer the identity is that in the lower layer.
  step_cover = 12,
  // Throw-away layer onto parent: an overlay whose lower layer is a clone of the host path `text` (identity
  // compared) and whose upper layer is a fresh tmpfs of at most `size` bytes. Nothing below `text` is ever
  // written, and what was written is gone with the namespace.
  step_layer = 13,
};
enum StepFlag : std::uint32_t {
  read_only = 1u << 0,
  no_dev = 1u << 1,
  no_exec = 1u << 2,
  recursive = 1u << 3,  // submounts come along and get the same attributes
  optional = 1u << 4,   // step_open, step_source: absence is no error; steps and rules on it are left out
  idmapped = 1u << 5,   // step_mount, step_overlay, step_layer, with switch_user: the owner idmap_uid/gid on
                        // disk appears as outside_uid/gid, everybody else as himself
  idmap_optional = 1u << 6,  // where the file system does not allow that, as it is
  whole = 1u << 7,           // step_proc: not subset=pid
};                           // nosuid is always set
struct Step {
  std::uint32_t kind;
  std::uint32_t flags;
  std::uint32_t parent;  // earlier step
  std::uint32_t other;   // step_clone: earlier step
  std::uint32_t mode;    // permission bits of what is made
  std::uint32_t reserved;
  String name;  // one component
  String text;  // host path, file content or link target
  Identity identity;
  Identity second;  // step_overlay
  std::uint64_t size;
};

struct LandlockRule {
  std::uint32_t step;
  std::uint32_t reserved;
  std::uint64_t access;
};
struct Rlimit {
  std::uint32_t resource;
  std::uint32_t reserved;
  std::uint64_t soft;
  std::uint64_t hard;
};
struct Filter {  // struct sock_filter
  std::uint16_t code;
  std::uint8_t jt;
  std::uint8_t jf;
  std::uint32_t k;
};
struct Listener {  // net_namespace only: a TCP socket listened on before anything foreign runs
  std::uint8_t
      address[16];  // IPv4 as ::ffff:a.b.c.d; put on the loopback device when it is not there already
  std::uint16_t port;
  std::uint16_t reserved;
};
struct Place {  // a path inside: `relative` below the object of `step`, no link followed; "" is the object
                // itself
  std::uint32_t step;
  std::uint32_t reserved;
  String relative;
};

struct Header {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint32_t total_size;
  std::uint32_t flags;
  std::uint32_t outside_uid;  // the global ids the program runs as
  std::uint32_t outside_gid;
  std::uint32_t inside_uid;  // what it sees, user_namespace only
  std::uint32_t inside_gid;
  std::uint32_t idmap_uid;  // of idmapped steps
  std::uint32_t idmap_gid;
  std::uint32_t umask;
  std::uint32_t root_mode;    // of the fresh root
  std::uint64_t landlock_fs;  // handled file rights; 0 with landlock_scoped 0: no Landlock
  std::uint64_t landlock_scoped;
  Array steps;       // Step; number 0 is a placeholder for the fresh root (kind 0)
  Array rules;       // LandlockRule
  Array rlimits;     // Rlimit
  Array filter;      // Filter
  Array argv;        // String
  Array env;         // String, NAME=VALUE
  Array secret_env;  // String, NAME: the value comes from the secrets pipe
  Array listeners;   // Listener; sent to the caller, who answers before the leader is started
  Array cgroups;     // String: host directories of control groups that init joins first
  Array strings;     // bytes of the string table
  String hostname;   // uts_namespace
  String program;    // path as seen inside, for exec_by_path
  Place executable;
  Place cwd;
  FileIdentity identity;  // of the executable, compared before the exec; dev 0 (below an overlay): all but it
};

// nullptr when every offset, count, reference, kind and string is within bounds and acyclic; else what is
// wrong.
const char* check(const void* bytes, std::size_t size);

}  // namespace hitchrail::plan
