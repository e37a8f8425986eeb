// Older kernels, made of this one: newer calls answered ENOSYS by a filter that every program inherits, and
// Landlock used only as far as an older ABI knows it.
#include <seccomp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>

#include "boundary/prove.hpp"
#include "kernel/world.hpp"

namespace hitchrail::test {
namespace {

using boundary::Backend;

struct Kernel {
  const char* name;
  int first_missing_call;  // this number and all above are not there; Landlock's own (444-446) apart
  int landlock_abi;
};
constexpr Kernel kernels[] = {
    {"Linux 5.12", 443, 0},  // before quotactl_fd
    {"Linux 5.13", 447, 1},  // before memfd_secret
    {"Linux 6.1", 451, 2},   // before cachestat, fchmodat2
    {"Linux 6.7", 457, 4},   // before statmount
    {"Linux 6.12", 463, 6},  // before setxattrat
};

void without_newer_calls(int first_missing) {
  scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
  for (int call = first_missing; call < 600; ++call) {
    if (call < 444 || call > 446) {
      seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), call, 0);
    }
  }
  if (seccomp_load(filter) != 0) {
    _exit(3);
  }
  seccomp_release(filter);
}

// What `look` says in a child that lives on that kernel.
std::string on(const Kernel& kernel, const std::function<std::string(const boundary::Machine&)>& look) {
  int fds[2];
  REQUIRE(pipe(fds) == 0);
  const pid_t child = fork();
  if (child == 0) {
    without_newer_calls(kernel.first_missing_call);
    boundary::Machine machine = boundary::probe_machine();
    machine.landlock_abi = std::min(machine.landlock_abi, kernel.landlock_abi);
    if (machine.landlock_abi < 3) {
      machine.missing.push_back({"landlock-abi-old", "Landlock is too old.", "Use Linux 6.2."});
    }
    const std::string text = look(machine);
    (void)!write(fds[1], text.data(), text.size());
    _exit(0);
  }
  close(fds[1]);
  std::string text;
  char buffer[4096];
  ssize_t got = 0;
  while ((got = read(fds[0], buffer, sizeof buffer)) > 0) {
    text.append(buffer, static_cast<std::size_t>(got));
  }
  close(fds[0]);
  int status = 0;
  waitpid(child, &status, 0);
  REQUIRE(status == 0);
  return text;
}

std::string failures(const boundary::Machine& machine, Backend backend) {
  auto proof = boundary::prove(machine, backend);
  if (proof.has_error()) {
    return proof.error().code;
  }
  std::string text;
  for (const boundary::CapabilityProof& each : proof.value().capabilities) {
    if (each.declared && !each.proved) {
      text += each.capability + ":";
      for (const std::string& id : each.failed) {
        text += " " + id;
      }
      text += "; ";
    }
  }
  return text.empty() ? "all proved" : text;
}

// Which backend a preset of the product gets there, with what was proved; or why none.
std::string chosen(const boundary::Machine& machine, const std::string& preset_name, Backend backend) {
  World world;
  boundary::Preset preset = boundary::load_preset(preset_name).value();
  const auto proofs =
      boundary::proof(machine, {.backend = backend, .required = preset.required_capabilities});
  if (proofs.has_error()) {
    return proofs.error().code;
  }
  boundary::Options options;
  options.backend = backend;
  options.proven = proofs.value();
  const auto compiled = boundary::compile(preset, world.roots(), machine, options);
  if (!compiled.value().blockers.empty()) {
    return compiled.value().blockers.front().error.code + ": " +
           compiled.value().blockers.front().error.detail;
  }
  std::string text = compiled.value().backend == Backend::native ? "native" : "landlock";
  for (const boundary::Warning& warning : compiled.value().warnings) {
    text += warning.detail.find("abstract sockets of the host's network") != std::string::npos
                ? ", abstract sockets open"
                : "";
  }
  return text;
}

}  // namespace

TEST_CASE("native proves on every kernel from 5.12 on what it declares there") {
  for (const Kernel& kernel : kernels) {
    if (kernel.landlock_abi > World::machine().landlock_abi) {
      WARN(kernel.name << " cannot be made of this kernel");
      continue;
    }
    INFO(kernel.name);
    CHECK(on(kernel, [](const boundary::Machine& machine) { return failures(machine, Backend::native); }) ==
          "all proved");
  }
}

TEST_CASE("landlock proves from ABI 3 on what it declares there, and is refused before") {
  for (const Kernel& kernel : kernels) {
    if (kernel.landlock_abi > World::machine().landlock_abi) {
      WARN(kernel.name << " cannot be made of this kernel");
      continue;
    }
    INFO(kernel.name);
    CHECK(on(kernel, [](const boundary::Machine& machine) { return failures(machine, Backend::landlock); }) ==
          (kernel.landlock_abi >= 3 ? "all proved" : "landlock-abi-old"));
  }
}

TEST_CASE(
    "Linux 6.1: native enforces workspace, with the host's abstract sockets named, and repo-contained, which "
    "closes them") {
  const Kernel& kernel = kernels[2];
  CHECK(on(kernel, [](const boundary::Machine& machine) {
          return chosen(machine, "workspace", Backend::automatic);
        }) == "native, abstract sockets open");
  CHECK(on(kernel, [](const boundary::Machine& machine) {
          return chosen(machine, "repo-contained", Backend::automatic);
        }) == "native");
  CHECK(on(kernel, [](const boundary::Machine& machine) {
          return chosen(machine, "workspace", Backend::landlock);
        }).rfind("landlock-abi-old", 0) == 0);
}

}  // namespace hitchrail::test
