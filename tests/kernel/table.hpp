#pragma once
// What must come of each attack: the positive control, both backends, and which layer stops it when it stands
// alone. Layers: C no capabilities, N namespaces and mounts, L Landlock, S seccomp. C is part of the other
// three, so a letter says "this layer is enough". `user` differs from `root` only where a row says so.

namespace hitchrail::test {

enum class Control {
  works,
  needs_root,      // an ordinary user is refused without a boundary too
  kernel_setting,  // an ordinary user may be: it depends on a setting of this machine
};

struct Expected {
  const char* native;
  const char* landlock;
  const char* alone;
};
struct Attack {
  const char* name;
  Control control;
  bool without_network;  // below a preset with network: none
  Expected root;
  Expected user;
};

extern const Attack attacks[];
extern const unsigned attack_count;

}  // namespace hitchrail::test
