// A bpf map is made.
#include <linux/bpf.h>

#include "attack.hpp"

int main() {
  bpf_attr attributes{};
  attributes.map_type = BPF_MAP_TYPE_ARRAY;
  attributes.key_size = attributes.value_size = 4;
  attributes.max_entries = 1;
  return attack::result(syscall(SYS_bpf, BPF_MAP_CREATE, &attributes, sizeof attributes));
}
