#pragma once
// Shared by the parts of the boundary service; nobody else includes it.

#include <array>
#include <string>
#include <vector>

#include "boundary/boundary.hpp"
#include "init/plan.hpp"

namespace hitchrail::boundary {

const std::array<const char*, 5>& protected_names();
bool contains(const std::string& outer, const std::string& inner);  // equal counts
bool canonical_text(const std::string& path);                       // absolute, without ., .. and //

// What stands in the way of a launch, collected so that preview shows all of it. refuse() is a policy's
// refusal.
void block(Compiled& out, ErrorClass kind, std::string code, std::string object, std::string detail,
           std::string remedy = "");
void refuse(Compiled& out, std::string code, std::string object, std::string detail, std::string remedy = "");
// Both sorted; what of `all` is not in `less`.
std::vector<std::string> without(const std::vector<std::string>& all, const std::vector<std::string>& less);
std::string joined(const std::vector<std::string>& words);  // with ", "
// The best backend that holds, and was proved to hold, all that is required; else blockers.
void choose_backend(const Preset& preset, const Machine& machine, const Options& options, Compiled& out);
const char* backend_name(Backend backend);
bool backend_usable(Backend backend, const Machine& machine);  // it can be started here
std::vector<std::string> proven_capabilities(const Compiled& compiled, const Machine& machine);
// compile(), or with `fixed` one of the boundaries for probes: no run directories, no UNIX and no INET
// sockets.
Result<Compiled> compile_with(const Preset& preset, const Roots& roots, const Machine& machine,
                              const Options& options, bool fixed);
// The rules of paths among each other, after all grants are listed: what lies below a denied path, absent
// denied names, the number of roots. Adds blockers, warnings and protected names.
void judge_paths(const Roots& roots, Compiled& out);
// Sets policy_hash and evidence.
Status add_evidence(const std::string& preset_digest, const Machine& machine, Compiled& compiled);
// Refusals, masks and nested git directories of roots.scan.
void take_scan(const Preset& preset, const Roots& roots, Compiled& out);
std::string sandbox_user_name(const Compiled& compiled);

// ---- limits.cpp
ControlGroups look_at_control_groups();
bool processes_by_rlimit(const Compiled& compiled);
std::uint64_t threads_of(std::uint32_t uid);             // of this machine, as far as /proc shows them
const char* memory_limit_by(const Compiled& compiled);   // control-group, each-process, none
const char* process_limit_by(const Compiled& compiled);  // user-namespace, control-group, none
Status make_control_groups(Compiled& compiled, int attempt_dirfd);
Status remove_control_groups(int attempt_dirfd);  // code control-group-left

// ---- overlay.cpp
bool overlay_works();  // one is mounted in a user namespace, in a child, on a tmpfs of its own
Status make_overlay_directories(Compiled& compiled, int attempt_dirfd);
Status remove_overlay_directories(int attempt_dirfd);  // and the marks; code overlay-left
std::string hex_decode(const std::string& hex);

// What of the machine explains why a step of the trial boundary was refused; numbers are -1 where unknown.
struct Surroundings {
  bool proc = true;
  long max_user_namespaces = -1;
  long unprivileged_clone = -1;  // Debian
  long apparmor_restricts = -1;  // Ubuntu
};
std::optional<Finding> explain_surroundings(const Error& error, const Surroundings& around, bool root);

// ---- Landlock rights, by their bit
// ------------------------------------------------------------------------------------
namespace rights {
inline constexpr std::uint64_t execute = 1u << 0, write_file = 1u << 1, read_file = 1u << 2,
                               read_dir = 1u << 3, remove_dir = 1u << 4, remove_file = 1u << 5,
                               make_char = 1u << 6, make_dir = 1u << 7, make_reg = 1u << 8,
                               make_sock = 1u << 9, make_fifo = 1u << 10, make_block = 1u << 11,
                               make_sym = 1u << 12, refer = 1u << 13, truncate = 1u << 14,
                               ioctl_dev = 1u << 15;
inline constexpr std::uint64_t file_only = execute | write_file | read_file | truncate | ioctl_dev;
inline constexpr std::uint64_t read = read_file | read_dir;
inline constexpr std::uint64_t write = write_file | remove_dir | remove_file | make_dir | make_reg |
                                       make_sock | make_fifo | make_sym | refer | truncate;
std::uint64_t handled(int abi);  // file rights this ABI knows
std::uint64_t scoped(int abi);
}  // namespace rights

// ---- flat plan writer
// ------------------------------------------------------------------------------------------------------
// Collects steps, rules and strings; knows which object is at which path inside, so that a target is always
// one name below an earlier step.
class PlanWriter {
 public:
  PlanWriter();

  std::uint32_t add(plan::Step step, const std::string& name, const std::string& text);
  plan::String string(const std::string& text);
  void rule(std::uint32_t step, std::uint64_t access);

  // The step of the directory (or, for `file`, the empty file) at this inside path: made where the skeleton
  // is ours, opened where a mounted tree already has it.
  std::uint32_t node(const std::string& path, bool directory);
  // Opens path component by component below a mounted tree; `identity` is compared on the last (below an
  // overlay only its inode: the device is another there).
  std::uint32_t existing(const std::string& path, const Identity& identity);
  // Attaches a clone of a host path at `target`; returns the mount's step, which is from now on the object at
  // target.
  std::uint32_t mount(const Root& source, const std::string& target, std::uint32_t flags,
                      bool skeleton = false);
  // Attaches an overlay with this upper layer at `target`.
  std::uint32_t overlay(const Root& upper, const OverlayDirectory& directory, const std::string& target,
                        std::uint32_t flags);
  // Attaches a layer that is thrown away over a clone of `lower` at `target`.
  std::uint32_t layer(const Root& lower, const std::string& target, std::uint32_t flags, std::uint64_t size);
  // Attaches a clone of an earlier object over the object `onto`.
  std::uint32_t clone(std::uint32_t object, std::uint32_t onto, const std::string& path, std::uint32_t flags);
  // Attaches a clone of an earlier object (plan::no_step: of what is there itself) over the existing entry at
  // `path`, with one step and no descriptor kept.
  void cover(const Root& entry, std::uint32_t object, std::uint32_t flags);
  void file(const std::string& path, const std::string& content, std::uint32_t mode = 0644);
  void link(const std::string& path, const std::string& text);
  std::uint32_t special(plan::StepKind kind, const std::string& path, std::uint32_t flags,
                        std::uint32_t mode = 0, std::uint64_t size = 0);
  std::uint32_t source(const Root& root);  // step_source
  bool known(const std::string& path) const;
  bool covered(const std::string& path) const;  // lies in a mounted tree
  bool in_overlay(const std::string& path) const;
  // Where an inside path is: nearest object and the rest of the path.
  plan::Place place(const std::string& path);
  void object_at(const std::string& path, std::uint32_t step, bool skeleton);

  plan::Header header{};
  std::vector<plan::Rlimit> rlimits;
  std::vector<plan::Listener> listeners;
  std::string filter;
  std::vector<std::string> argv, env, secret_env, cgroups;
  std::string bytes();

 private:
  struct Object {
    std::string path;
    std::uint32_t step;
    bool skeleton;  // names below are made, not opened
    bool overlay = false;
    bool layer = false;  // or below one: what lies there has other numbers than on disk
  };
  const Object& nearest(const std::string& path) const;

  std::vector<plan::Step> steps_;
  std::vector<plan::LandlockRule> rules_;
  std::string strings_;
  std::vector<Object> objects_;
};

Status write_native(const Compiled& compiled, const RunDirectories& run, PlanWriter& plan);
Status write_landlock(const Compiled& compiled, const RunDirectories& run, PlanWriter& plan);

}  // namespace hitchrail::boundary
