// What is taken away: capabilities, then (in the leader only) files by Landlock and system calls by seccomp.
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>

#include "init/init.hpp"
#include "init/kernel.hpp"

namespace hitchrail::init {
namespace {

struct Capabilities {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
};

bool may_set_privileges() {
  Capabilities caps;
  if (syscall(SYS_capget, &caps.header, caps.data) < 0) {
    fail("capabilities", errno, "read");
  }
  return (caps.data[0].effective & (1u << CAP_SETPCAP)) != 0;
}

}  // namespace

void drop_bounding_set() {
  if (!may_set_privileges()) {
    return;  // an ordinary user has no capability to lose; no_new_privs keeps it so
  }
  for (unsigned long capability = 0; capability < 64; ++capability) {
    if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0) {
      if (errno == EINVAL) {
        break;  // past the kernel's last one
      }
      fail("capabilities", errno, "bounding set");
    }
  }
  const unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
                             SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
                             SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
  if (prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) < 0) {
    fail("capabilities", errno, "secure bits");
  }
}

void drop_capabilities() {
  (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  Capabilities none;
  if (syscall(SYS_capset, &none.header, none.data) < 0) {
    fail("capabilities", errno, "drop");
  }
  Capabilities now;
  if (syscall(SYS_capget, &now.header, now.data) < 0) {
    fail("capabilities", errno, "read");
  }
  for (const auto& word : now.data) {
    if (word.effective != 0 || word.permitted != 0 || word.inheritable != 0) {
      fail("capabilities", EPERM, "still held");
    }
  }
}

void no_new_privileges() {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
    fail("no-new-privileges", errno);
  }
}

int make_ruleset(const Plan& plan) {
  const plan::Header& header = *plan.header;
  if (header.landlock_fs == 0 && header.landlock_scoped == 0) {
    return -1;
  }
  const kernel::LandlockAttributes attributes{header.landlock_fs, 0, header.landlock_scoped};
  const int ruleset = kernel::landlock_create(&attributes, sizeof attributes, 0);
  if (ruleset < 0) {
    fail("landlock", errno, "create");
  }
  const auto* rules = plan.items<plan::LandlockRule>(header.rules);
  for (std::uint32_t i = 0; i < header.rules.count; ++i) {
    const int fd = object(plan, rules[i].step);
    if (fd < 0) {
      continue;  // optional and absent: nothing is granted
    }
    const kernel::LandlockPathRule rule{rules[i].access, fd};
    if (kernel::landlock_add(ruleset, &rule) < 0) {
      fail("landlock", errno, rules[i].step == 0 ? "/" : plan.text(plan.step(rules[i].step).text));
    }
    forget(plan, rules[i].step);
  }
  return ruleset;
}

void enter_landlock(int ruleset) {
  if (ruleset >= 0 && kernel::landlock_restrict(ruleset) < 0) {
    fail("landlock", errno, "restrict");
  }
}

void load_filter(const Plan& plan) {
  const plan::Array& filter = plan.header->filter;
  if (filter.count == 0) {
    return;
  }
  static_assert(sizeof(plan::Filter) == sizeof(sock_filter));
  sock_fprog program{};
  program.len = static_cast<unsigned short>(filter.count);
  // The kernel only reads it.
  program.filter = const_cast<sock_filter*>(reinterpret_cast<const sock_filter*>(plan.base + filter.offset));
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0) {
    fail("seccomp", errno);
  }
}

}  // namespace hitchrail::init
