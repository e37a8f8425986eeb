#pragma once
// What the parts of hitchrail-init share. One static program without exceptions: each step either works or
// ends the process through fail(), which tells the shim the step's name and errno. Order of the steps: see
// main.cpp.

#include <cstddef>
#include <cstdint>

#include "init/plan.hpp"
#include "shim/wire.hpp"

namespace hitchrail::init {

struct Plan {
  const char* base = nullptr;
  const plan::Header* header = nullptr;

  [[nodiscard]] bool has(std::uint32_t flag) const { return (header->flags & flag) != 0; }
  [[nodiscard]] const char* text(const plan::String& string) const {
    return base + header->strings.offset + string.offset;
  }
  template <class T>
  [[nodiscard]] const T* items(const plan::Array& array) const {
    return reinterpret_cast<const T*>(base + array.offset);
  }
  [[nodiscard]] const plan::Step& step(std::uint32_t index) const {
    return items<plan::Step>(header->steps)[index];
  }
};

// ---- report.cpp: the only voice of this program
void send_message(wire::InitMessage& message, const int* fds = nullptr, int fd_count = 0);
[[noreturn]] void fail(const char* step, int error_number, const char* detail = "");
// From here on fail() writes a Failure to `pipe` (the leader's child) instead of a message.
void fail_through(int pipe);
struct Failure {
  int error_number;
  char step[40];
  char detail[192];
};
bool socket_alive();  // false once the shim's end is closed

// ---- namespaces.cpp
Plan read_plan();
void reset_signals();
void die_with_parent();
// Everything before the pid namespace: user switch, namespaces, id maps, loopback. Trees of a user switch are
// cloned before.
void enter_namespaces(const Plan& plan);
// Returns in the process that will be init: pid 1 of the new namespace, a child of the shim; the caller's
// copy has exited.
void become_init(const Plan& plan);

// ---- listeners.cpp
void loopback_up();
// Makes the plan's listening sockets, sends them to the caller and waits for its word that they are what it
// asked for: from then on a connection waits in the backlog, so that the leader's first one is never refused.
void hand_over_listeners(const Plan& plan);

// ---- tree.cpp: the new root
void allocate_objects(const Plan& plan);
void clone_sources(const Plan& plan);  // before a user switch
unsigned mount_attributes(std::uint32_t flags);
void compare(int fd, const plan::Identity& expected, const char* path);  // dev 0: only the inode
int clone_tree(int source, std::uint32_t flags, const char* path);
void attach(int tree, int target, const char* path);
int fresh_tmpfs(std::uint32_t mode, std::uint64_t size, std::uint32_t flags);

// ---- overlay.cpp
int idmap(const Plan& plan, int tree, std::uint32_t flags);   // as mount_setattr(2)
void prepare_overlay(const Plan& plan, std::uint32_t index);  // before a user switch
int overlay(const Plan& plan, std::uint32_t index, int new_root);
// Over the clone `lower`, which it keeps for lower_of(): the layer below the object of this step, -1 when it
// is none.
int throw_away_layer(const Plan& plan, std::uint32_t index, int new_root, int lower);
int lower_of(std::uint32_t index);

// ---- tree.cpp again
void build_root(const Plan& plan);
// The descriptor (O_PATH) of a step's object, or -1 when an optional one is absent. step_source is opened
// here, at need.
int object(const Plan& plan, std::uint32_t index);
void forget(const Plan& plan, std::uint32_t index);  // closes a step_source again
// A Place as an O_PATH descriptor; ends with `step` on failure.
int open_place(const Plan& plan, const plan::Place& place, const char* step, bool directory);

// ---- confine.cpp
void drop_bounding_set();  // bounding set and securebits, as far as this process has CAP_SETPCAP
void drop_capabilities();
void no_new_privileges();
int make_ruleset(const Plan& plan);  // -1 without Landlock
void enter_landlock(int ruleset);
void load_filter(const Plan& plan);

// ---- leader.cpp
char** build_environment(const Plan& plan);  // reads the secrets pipe
void wipe_environment();
// Forks the leader, reports init_started and init_execed; returns its pid.
int start_leader(const Plan& plan, char** environment, int ruleset);
// Reaps and reports until killed, until the shim's end of the socket closes, or (end_with_leader) until the
// leader has exited.
[[noreturn]] void supervise(const Plan& plan, int leader);

}  // namespace hitchrail::init
