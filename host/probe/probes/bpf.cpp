// A bpf map is made.
#include <linux/bpf.h>

#include "probe/attack.hpp"

HR_PROBE(bpf) {
  bpf_attr attributes{};
  attributes.map_type = BPF_MAP_TYPE_ARRAY;
  attributes.key_size = attributes.value_size = 4;
  attributes.max_entries = 1;
  return result(syscall(SYS_bpf, BPF_MAP_CREATE, &attributes, sizeof attributes));
}
