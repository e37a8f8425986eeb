#include "launch/doctor.hpp"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <future>
#include <optional>
#include <thread>

#include "core/file.hpp"
#include "launch/pins.hpp"
#include "launch/stages.hpp"

namespace hitchrail::launch {

namespace {

constexpr std::uint64_t wanted_disk_bytes = 512ull << 20;
constexpr int endpoint_limit_ms = 3000;

Check from_error(std::string id, Level level, const Error& error) {
  return {std::move(id), level, error.code + ": " + error.detail, error.object, error.remedy};
}

// Both mechanisms hold: neither is a fault of the machine.
void check_absent_names(const boundary::Machine& machine, std::vector<Check>& checks) {
  auto state = store::state_home_path();
  if (state.has_error()) {
    return;  // check_state() says so
  }
  const boundary::AbsentNames names = boundary::absent_names(machine, state.value());
  checks.push_back({"protected-names", Level::ok,
                    names.overlay
                        ? "names that do not exist are held by an overlay in worktrees on the mount of " +
                              state.value() + ", elsewhere by placeholders"
                        : "names that do not exist are held by placeholders: " + names.why,
                    names.why, ""});
}

void check_machine(const boundary::Machine& machine, std::vector<Check>& checks) {
  checks.push_back({"kernel", Level::ok, "Linux " + machine.kernel, "", ""});
  const bool native =
      machine.user_namespaces && machine.mount_api && machine.pid_namespace && machine.seccomp;
  const bool landlock = machine.landlock_abi > 0 && machine.seccomp;
  checks.push_back(
      {"boundary", native || landlock ? (native ? Level::ok : Level::warning) : Level::blocking,
       native ? "backend native works here (Landlock ABI " + std::to_string(machine.landlock_abi) + ")"
              : (landlock ? "only backend landlock works here" : "no backend works here"),
       native ? "" : "a run needs a boundary; landlock holds less (hitchrail preview names the rest)",
       native ? "" : "see the findings below"});
  if (native) {
    check_absent_names(machine, checks);
  }
  for (const auto& missing : machine.missing) {
    checks.push_back({"boundary." + missing.code, Level::warning, missing.detail,
                      "it decides which boundary can be had here", missing.remedy});
  }
}

// A preset that would refuse a launch is said before somebody relies on it; one that was disabled is as
// wanted.
void check_presets(const Ground& ground, std::vector<Check>& checks) {
  auto presets = list_presets(ground.installation, ground.home ? &*ground.home : nullptr);
  if (presets.has_error()) {
    checks.push_back(from_error("presets", Level::warning, presets.error()));
    return;
  }
  for (const PresetInfo& info : presets.value()) {
    if (info.error && info.state != PresetState::disabled) {
      checks.push_back(from_error("preset." + info.id, Level::warning, *info.error));
    }
  }
}

// Without it launches are slow, and nothing else.
void check_cache(const Ground& ground, std::vector<Check>& checks) {
  if (ground.cache_error) {
    checks.push_back(from_error("cache", Level::warning, *ground.cache_error));
  }
}

void check_state(std::vector<Check>& checks) {
  auto home = store::StateHome::open(store::Access::read);
  if (home.has_error() && home.error().code == "state-directory-absent") {
    checks.push_back({"state", Level::ok, "the state directory is made by the first run", "", ""});
    return;
  }
  if (home.has_error()) {
    checks.push_back(from_error("state", Level::blocking, home.error()));
    return;
  }
  struct statvfs disk {};
  if (::fstatvfs(home.value().fd(), &disk) == 0) {
    const std::uint64_t free_bytes = static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize;
    checks.push_back({"disk", free_bytes < wanted_disk_bytes ? Level::warning : Level::ok,
                      std::to_string(free_bytes >> 20) + " MiB free for journals", "a full disk stops runs",
                      free_bytes < wanted_disk_bytes ? "free some space below " + home.value().path() : ""});
  }
}

void check_plugins(const Ground& ground, std::vector<Check>& checks) {
  auto pins = database_pins(ground.home ? &*ground.home : nullptr);
  auto plugins = plugins::list_plugins(plugin_dirs(ground.installation), *pins);
  if (plugins.has_error()) {
    checks.push_back(from_error("plugins", Level::blocking, plugins.error()));
    return;
  }
  for (const auto& info : plugins.value()) {
    const bool fine = info.state == plugins::PluginState::enabled;
    const std::string name(plugins::state_name(info.state));
    Check check{"plugin." + info.provider, fine ? Level::ok : Level::warning, name + ": " + info.path, "",
                ""};
    if (info.state == plugins::PluginState::disabled) {
      check.why = "its agents cannot run";
      check.fix = "hitchrail plugins enable " + info.provider;
    } else if (!fine) {
      check.what += ": " + info.error.code + ": " + info.error.detail;
      check.fix = info.error.remedy;
    }
    checks.push_back(std::move(check));
  }
}

// Resolving has no time limit of its own, so it happens on a thread that is left behind when the time is up.
std::string connect_error(const std::string& host) {
  auto attempt = [](const std::string& name) -> std::string {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int code = ::getaddrinfo(name.c_str(), "443", &hints, &found);
    if (code != 0) {
      return ::gai_strerror(code);
    }
    std::string why = "no address";
    for (addrinfo* one = found; one != nullptr; one = one->ai_next) {
      Fd fd(::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      if (!fd) {
        continue;
      }
      if (::connect(fd.get(), one->ai_addr, one->ai_addrlen) == 0) {
        why.clear();
        break;
      }
      pollfd waiting{fd.get(), POLLOUT, 0};
      int error = errno;
      socklen_t size = sizeof error;
      if (error == EINPROGRESS && ::poll(&waiting, 1, endpoint_limit_ms / 2) == 1 &&
          ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0) {
        why.clear();
        break;
      }
      why = errno_error("connect", name, error).detail;
    }
    ::freeaddrinfo(found);
    return why;
  };
  std::packaged_task<std::string()> task([attempt, host] { return attempt(host); });
  auto result = task.get_future();
  std::thread(std::move(task)).detach();
  if (result.wait_for(std::chrono::milliseconds(endpoint_limit_ms)) != std::future_status::ready) {
    return "no answer within 3 s";
  }
  return result.get();
}

void check_login(const ProfileStage& profile, std::vector<Check>& checks) {
  const std::string id = profile.profile.id + ".login";
  auto variable = [](std::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(name).c_str());
    return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
  };
  for (const auto& key : profile.profile.credential_allowlist) {
    if (variable(key).value_or("") != "") {
      checks.push_back({id, Level::ok, "credential in the environment: " + key, "", ""});
      return;
    }
  }
  auto login = profiles::find_login_file(profile.profile, variable);
  if (login.has_error()) {
    checks.push_back(from_error(id, Level::warning, login.error()));
  } else if (login.value()) {
    checks.push_back({id, Level::ok, "login file " + login.value()->path, "", ""});
  }
}

void check_profile(const Ground& ground, const std::string& agent, Level missing,
                   std::vector<Check>& checks) {
  Request request;
  request.agent = agent;
  auto profile = stage_profile(ground, request);
  if (profile.has_error()) {
    checks.push_back(from_error(agent + ".profile", missing, profile.error()));
    return;
  }
  const std::string& id = profile.value().profile.id;
  auto program = stage_program(ground, request, profile.value());
  if (program.has_error()) {
    checks.push_back(from_error(id + ".executable", missing, program.error()));
    return;
  }
  checks.push_back({id + ".executable", Level::ok, program.value().executable.path, "", ""});
  auto planner = spawn_planner(ground, profile.value());
  if (planner.has_error()) {
    checks.push_back(from_error(id + ".adapter", missing, planner.error()));
    return;
  }
  auto probe = stage_probe(ground, profile.value(), program.value(), planner.value());
  if (probe.has_error()) {
    checks.push_back(from_error(id + ".version", missing, probe.error()));
    return;
  }
  if (probe.value().failure) {
    checks.push_back(from_error(id + ".version", missing, *probe.value().failure));
    return;
  }
  checks.push_back({id + ".version", Level::ok,
                    probe.value().runtime_manifest.get("providerVersion").as_string(), "", ""});
  check_login(profile.value(), checks);
  for (const auto& host : profile.value().profile.provider_hosts) {
    const std::string why = connect_error(host);
    checks.push_back({id + ".endpoint", why.empty() ? Level::ok : Level::warning,
                      host + (why.empty() ? " answers" : ": " + why),
                      why.empty() ? "" : "without it the provider cannot be asked",
                      why.empty() ? "" : "check the network, a proxy, or your provider's own address"});
  }
}

}  // namespace

const char* level_name(Level level) {
  switch (level) {
    case Level::ok:
      return "ok";
    case Level::warning:
      return "warning";
    case Level::blocking:
      return "BLOCKING";
  }
  return "";
}

Result<std::vector<Check>> examine(const ExtraDirs& dirs, const std::string& agent) {
  std::vector<Check> checks;
  Request request;
  request.dirs = dirs;
  Ground ground;
  HR_TRY(installation, find_installation(dirs));
  ground.installation = std::move(installation);
  open_cache(ground, "");
  ground.machine_probe = std::async(std::launch::async, boundary::probe_machine).share();
  check_machine(ground.machine(), checks);
  check_state(checks);
  auto home = store::StateHome::open(store::Access::read);
  if (home.has_value()) {
    ground.home = std::move(home).value();
  }
  check_plugins(ground, checks);
  check_presets(ground, checks);
  check_cache(ground, checks);
  if (!agent.empty()) {
    check_profile(ground, agent, Level::blocking, checks);
    return checks;
  }
  std::vector<std::string> folders;
  for (const auto& dir : ground.installation.profile_dirs) {
    folders.push_back(dir + "/harness");
  }
  HR_TRY(found, profiles::find_profiles(folders));
  for (const auto& one : found) {
    if (one.error) {
      checks.push_back(from_error("profile", Level::warning, *one.error));
    } else if (one.profile) {
      check_profile(ground, one.profile->id, Level::warning, checks);
    }
  }
  return checks;
}

}  // namespace hitchrail::launch
