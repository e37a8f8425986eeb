#pragma once
// Every probe: what it tries, the capability it proves, and what must come of it. One table for the product
// (host/boundary/prove), the tests (tests/kernel) and the operator guide.
//
// Layers: C no capabilities, N namespaces and mounts, L Landlock, S seccomp. C is part of the other three, so
// a letter says "this layer alone is enough".

#include <cstdint>

namespace hitchrail::probe {

enum class Kind {
  attack,     // must be refused inside
  must_work,  // must work inside
};
enum class Control {
  works,       // works everywhere without a boundary
  needs_root,  // an ordinary user is refused without a boundary too
  machine,     // depends on the kernel or its settings; where it is refused, there is nothing to prove
};
enum class Setting {
  host_network,
  no_network,  // and a private git directory
};

struct Expected {
  const char* native;  // "through", "killed SYS", "no effect" or the errno's name
  const char* landlock;
  const char* alone;  // layers that suffice alone; "" for must_work
};
struct Row {
  const char* id;
  const char* sentence;
  const char* capability;
  Kind kind;
  Control control;
  Setting setting;
  Expected root;
  Expected user;  // native nullptr: as root
  int scope_abi;  // the Landlock ABI that native's answer needs; 0: none
};
struct Group {
  const char* title;
  const Row* rows;
  unsigned count;
};

extern const Group groups[];
extern const unsigned group_count;

inline const Expected& expected(const Row& row, bool root) {
  return root || row.user.native == nullptr ? row.root : row.user;
}
const Row* find(const char* id);

}  // namespace hitchrail::probe
