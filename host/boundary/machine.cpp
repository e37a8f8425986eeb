// What this machine can do: tried, not guessed. The native backend is tried by a whole small boundary that
// runs nothing; the name of the step that fails becomes the finding.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "boundary/internal.hpp"
#include "core/file.hpp"
#include "init/kernel.hpp"

namespace hitchrail::boundary {
namespace {

// ---- the system read-only roots
// -----------------------------------------------------------------------------------------------
constexpr const char* system_folders[] = {"/usr",   "/bin",   "/sbin",   "/lib",
                                          "/lib32", "/lib64", "/libx32", "/nix/store"};
// Files (and folders of public data) of /etc that ordinary programs need; never the folder itself. passwd and
// group are made up.
constexpr const char* system_etc[] = {"/etc/alternatives",
                                      "/etc/bash.bashrc",
                                      "/etc/ca-certificates",
                                      "/etc/ca-certificates.conf",
                                      "/etc/debian_version",
                                      "/etc/gai.conf",
                                      "/etc/host.conf",
                                      "/etc/hosts",
                                      "/etc/inputrc",
                                      "/etc/java-17-openjdk",
                                      "/etc/ld.so.cache",
                                      "/etc/ld.so.conf",
                                      "/etc/ld.so.conf.d",
                                      "/etc/locale.alias",
                                      "/etc/localtime",
                                      "/etc/mime.types",
                                      "/etc/nsswitch.conf",
                                      "/etc/os-release",
                                      "/etc/pki/ca-trust/extracted",
                                      "/etc/pki/tls/cert.pem",
                                      "/etc/pki/tls/certs",
                                      "/etc/pki/tls/openssl.cnf",
                                      "/etc/profile",
                                      "/etc/profile.d",
                                      "/etc/protocols",
                                      "/etc/python3",
                                      "/etc/python3.11",
                                      "/etc/resolv.conf",
                                      "/etc/services",
                                      "/etc/shells",
                                      "/etc/ssl/certs",
                                      "/etc/ssl/openssl.cnf",
                                      "/etc/terminfo",
                                      "/etc/timezone"};

std::string link_text(const std::string& path) {
  char buffer[4096];
  const ssize_t size = readlink(path.c_str(), buffer, sizeof buffer);
  return std::string(buffer, size > 0 ? static_cast<std::size_t>(size) : 0);
}

bool in_system_tree(const std::string& path) {
  return contains("/usr", path) || contains("/nix/store", path);
}

// A trusted path, resolved on this side: a link into the system trees stays a link, any other is granted as
// what it points to.
void add_system_path(const std::string& path, Machine& machine) {
  struct stat info {};
  if (lstat(path.c_str(), &info) < 0) {
    return;
  }
  auto resolved = resolve_trusted(path);
  if (resolved.has_error()) {
    return;  // a dangling link
  }
  if (S_ISLNK(info.st_mode) && in_system_tree(resolved.value().path)) {
    const bool top = path.find('/', 1) == std::string::npos;
    machine.links.push_back({path, top ? link_text(path) : resolved.value().path});
    return;
  }
  machine.system.push_back({resolved.value(), path});
}

void look_at_system(Machine& machine) {
  for (const char* folder : system_folders) {
    add_system_path(folder, machine);
  }
  for (const char* path : system_etc) {
    add_system_path(path, machine);
  }
  if (auto proc = resolve_root("/proc"); proc.has_value()) {
    machine.proc = proc.value();
  }
  struct stat terminal {};
  if (lstat("/dev/tty", &terminal) == 0 && S_ISCHR(terminal.st_mode)) {
    machine.terminal =
        Root{"/dev/tty", {terminal.st_dev, terminal.st_ino}, false, terminal.st_uid, terminal.st_gid};
  }
  for (const char* device : {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}) {
    struct stat info {};
    if (lstat(device, &info) == 0 && S_ISCHR(info.st_mode)) {
      machine.devices.push_back(Root{device, {info.st_dev, info.st_ino}, false, info.st_uid, info.st_gid});
    }
  }
}

std::string unescape(const std::string& text) {  // mountinfo writes \040 for a space
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      out.push_back(static_cast<char>(std::strtol(text.substr(i + 1, 3).c_str(), nullptr, 8)));
      i += 3;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

void look_at_mounts(Machine& machine) {
  auto opened = open_no_symlinks(AT_FDCWD, "/proc/self/mountinfo", O_RDONLY);
  // /proc/self is a magic link; the plain call is meant.
  Fd file =
      opened.has_value() ? std::move(opened).value() : Fd(open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC));
  if (!file) {
    return;
  }
  auto text = read_all(file.get(), 16u << 20);
  if (text.has_error()) {
    return;
  }
  std::size_t start = 0;
  while (start < text.value().size()) {
    const std::size_t end = text.value().find('\n', start);
    const std::string line = text.value().substr(start, end - start);
    std::size_t at = 0;
    for (int field = 0; field < 4 && at != std::string::npos; ++field) {
      at = line.find(' ', at == 0 ? 0 : at + 1);
    }
    if (at != std::string::npos) {
      machine.mount_points.push_back(unescape(line.substr(at + 1, line.find(' ', at + 1) - at - 1)));
    }
    start = end == std::string::npos ? text.value().size() : end + 1;
  }
}

// ---- findings
// ------------------------------------------------------------------------------------------------------------------
struct StepFinding {
  const char* step;
  const char* code;
  const char* what;
  const char* remedy;
};
constexpr const char* container_remedy =
    "In a container: start it with the right to mount (for example --security-opt seccomp=unconfined "
    "--security-opt apparmor=unconfined --security-opt systempaths=unconfined), or use the landlock backend.";
constexpr const char* userns_remedy =
    "Allow user namespaces: sysctl -w user.max_user_namespaces=15000; on Debian "
    "kernel.unprivileged_userns_clone=1; on Ubuntu "
    "kernel.apparmor_restrict_unprivileged_userns=0 or an AppArmor profile for hitchrail-init.";
constexpr StepFinding step_findings[] = {
    {"user-namespace", "userns-denied", "A user namespace cannot be made", userns_remedy},
    {"uid-map", "userns-denied", "Ids cannot be mapped in a user namespace", userns_remedy},
    {"gid-map", "userns-denied", "Ids cannot be mapped in a user namespace", userns_remedy},
    {"namespaces", "namespaces-denied", "Mount, IPC, UTS or cgroup namespaces cannot be made",
     container_remedy},
    {"hostname", "uts-denied", "The host name cannot be set in a UTS namespace", container_remedy},
    {"propagation", "propagation-denied", "Mounts cannot be made private", container_remedy},
    {"pid-namespace", "pid-namespace-denied", "A pid namespace cannot be made", container_remedy},
    {"tmpfs", "mount-denied", "A tmpfs cannot be mounted", container_remedy},
    {"root", "mount-denied", "A new root cannot be attached", container_remedy},
    {"clone", "mount-denied", "A directory tree cannot be cloned as a mount", container_remedy},
    {"attach", "mount-denied", "A mount cannot be attached", container_remedy},
    {"mount-attributes", "remount-denied", "A mount cannot be made read-only", container_remedy},
    {"root-read-only", "remount-denied", "The new root cannot be made read-only", container_remedy},
    {"proc", "proc-denied", "A fresh /proc cannot be mounted (parts of /proc are masked)", container_remedy},
    {"devpts", "devpts-denied", "A fresh devpts cannot be mounted", container_remedy},
    {"pivot", "pivot-denied", "The root cannot be changed (is it an initramfs or a chroot?)",
     "A plain chroot forbids it: enter the system with unshare -m and pivot_root, or a container."},
    {"old-root", "pivot-denied", "The old root cannot be left", container_remedy},
    {"capabilities", "capabilities-denied", "Capabilities cannot be dropped", container_remedy},
};

void add_finding(Machine& machine, std::string code, std::string detail, std::string remedy) {
  machine.missing.push_back({std::move(code), std::move(detail), std::move(remedy)});
}

// A kernel setting that is a number; -1 when there is none.
long setting(const char* path) {
  const Fd file(open(path, O_RDONLY | O_CLOEXEC));
  char text[32] = {};
  if (!file || read(file.get(), text, sizeof text - 1) <= 0) {
    return -1;
  }
  return std::strtol(text, nullptr, 10);
}

Surroundings look_around() {
  Surroundings around;
  around.proc = access("/proc/self/ns", F_OK) == 0;
  around.max_user_namespaces = setting("/proc/sys/user/max_user_namespaces");
  around.unprivileged_clone = setting("/proc/sys/kernel/unprivileged_userns_clone");
  around.apparmor_restricts = setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns");
  return around;
}

void explain(const Error& error, Machine& machine) {
  if (auto known = explain_surroundings(error, look_around(), machine.uid == 0)) {
    machine.missing.push_back(std::move(*known));
    return;
  }
  for (const StepFinding& known : step_findings) {
    if (error.object == known.step) {
      add_finding(machine, known.code, std::string(known.what) + ": " + error.detail + ".", known.remedy);
      return;
    }
  }
  add_finding(machine, "native-failed",
              "The native boundary failed at " + error.object + ": " + error.detail + ".", container_remedy);
}

// The whole mechanism on a small scale: /usr read-only, a pseudo-terminal mount, an own network namespace, no
// program.
Result<RunOutput> try_native(const Machine& machine, bool own_network) {
  Compiled trial;
  trial.backend = Backend::native;
  trial.network = own_network ? Network::none : Network::host;
  trial.net_namespace = own_network;
  trial.run_directories = false;
  trial.landlock_abi = machine.landlock_abi;
  trial.uid = trial.run_uid = trial.inside_uid = machine.uid;
  trial.gid = trial.run_gid = trial.inside_gid = machine.gid;
  for (const SystemPath& path : machine.system) {
    if (path.target == "/usr") {
      trial.grants.push_back({"system", path.source, path.target, false, true});
    }
  }
  trial.devices = machine.devices;
  Command nothing;
  nothing.cwd = "/";
  return run(trial, nothing, RunLimits{.max_stdout = 4096, .max_stderr = 4096, .wall_ms = 10'000});
}

void look_at_native(Machine& machine) {
  auto tried = try_native(machine, true);
  if (tried.has_error() && (tried.error().object == "loopback" || tried.error().object == "namespaces")) {
    const Error without_network = tried.error();
    tried = try_native(machine, false);
    if (tried.has_value()) {
      add_finding(machine, "loopback-denied",
                  "A network namespace of its own cannot be had: " + without_network.detail + ".",
                  container_remedy);
    }
  } else {
    machine.net_namespace = tried.has_value();
  }
  const bool works = tried.has_value() && tried.value().ok();
  machine.user_namespaces = machine.mount_api = machine.pid_namespace = works;
  if (works) {
    machine.overlay = overlay_works();
    return;
  }
  if (tried.has_value()) {
    add_finding(machine, "native-failed", "The trial boundary ended without success.", container_remedy);
    return;
  }
  explain(tried.error(), machine);
  const std::string& step = tried.error().object;
  const auto before = [&](std::initializer_list<const char*> steps) {
    for (const char* each : steps) {
      if (step == each) {
        return true;
      }
    }
    return false;
  };
  machine.user_namespaces =
      !before({"user-namespace", "uid-map", "gid-map"}) && tried.error().code != "init-missing";
  machine.pid_namespace =
      before({"proc"}) ? false : machine.user_namespaces && !before({"namespaces", "pid-namespace"});
}

}  // namespace

std::optional<Finding> explain_surroundings(const Error& error, const Surroundings& around, bool root) {
  if (error.code == "init-missing") {
    return Finding{"init-missing", error.detail, error.remedy};
  }
  if (!around.proc) {
    return Finding{"proc-missing", "There is no /proc here: " + error.detail + ".",
                   "Mount it: mount -t proc proc /proc"};
  }
  const std::string& step = error.object;
  const bool missing_call = error.detail.rfind(std::strerror(ENOSYS), 0) == 0;
  if (missing_call) {
    return Finding{"kernel-old",
                   "The kernel lacks a call that the native boundary needs (step " + step + ").",
                   "Use Linux 5.12 or newer, or a container runtime whose filter knows its calls."};
  }
  const bool namespaces = step == "user-namespace" || step == "uid-map" || step == "gid-map";
  if (namespaces && around.max_user_namespaces == 0) {
    return Finding{"userns-limit", "User namespaces are switched off: user.max_user_namespaces is 0.",
                   "sysctl -w user.max_user_namespaces=15000"};
  }
  if (namespaces && !root && around.unprivileged_clone == 0) {
    return Finding{"userns-unprivileged",
                   "User namespaces are for root only: kernel.unprivileged_userns_clone is 0.",
                   "sysctl -w kernel.unprivileged_userns_clone=1"};
  }
  // AppArmor lets the namespace be made and takes its rights away: the first step that needs one fails.
  if (!root && around.apparmor_restricts == 1 && step != "landlock" && step != "seccomp") {
    return Finding{"apparmor-userns",
                   "AppArmor gives user namespaces of ordinary users no rights (step " + step + ": " +
                       error.detail + ").",
                   "Load an AppArmor profile for hitchrail-init with `userns,`, or sysctl -w "
                   "kernel.apparmor_restrict_unprivileged_userns=0"};
  }
  return std::nullopt;
}

Machine probe_machine() {
  Machine machine;
  utsname name{};
  uname(&name);
  machine.kernel = name.release;
  machine.uid = geteuid();
  machine.gid = getegid();
  machine.landlock_abi = kernel::landlock_create(nullptr, 0, kernel::landlock_query_version);
  machine.landlock_abi = std::max(machine.landlock_abi, 0);
  const std::uint32_t action = SECCOMP_RET_ERRNO;
  machine.seccomp = syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
  machine.shell = access("/bin/bash", X_OK) == 0 ? "/bin/bash" : "/bin/sh";
  look_at_system(machine);
  look_at_mounts(machine);
  machine.control_groups = look_at_control_groups();
  if (!machine.seccomp) {
    add_finding(machine, "seccomp-missing", "The kernel has no seccomp filters.",
                "Use a kernel with CONFIG_SECCOMP_FILTER.");
  } else {
    look_at_native(machine);
  }
  if (machine.landlock_abi == 0) {
    add_finding(machine, "landlock-missing", "Landlock is not available.",
                "Boot with lsm=landlock,... on a kernel with CONFIG_SECURITY_LANDLOCK.");
  } else if (machine.landlock_abi < 3) {
    add_finding(machine, "landlock-abi-old",
                "Landlock is ABI " + std::to_string(machine.landlock_abi) + "; 3 is needed.",
                "Use Linux 6.2 or newer for the landlock backend.");
  }
  return machine;
}

}  // namespace hitchrail::boundary
