#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fcntl.h>

#include <algorithm>

#include "boundary/internal.hpp"
#include "core/file.hpp"

namespace hitchrail::boundary {
namespace {

std::int64_t nanos(const timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

Error misuse(std::string code, std::string object, std::string detail) {
  return Error{ErrorClass::internal, std::move(code), "write plan", std::move(object), std::move(detail), ""};
}

Status check_command(const Compiled& compiled, const RunDirectories& run, const Command& command) {
  HR_CHECK(admit(compiled));
  const bool own = compiled.verification.on && compiled.backend == Backend::native;
  if (compiled.run_directories && !own && (!run.home || !run.temp)) {
    return misuse("run-directories-missing", "home, temp", "This boundary needs the run's directories.");
  }
  if (command.argv.empty() != command.executable.path.empty()) {
    return misuse("command-empty", command.executable.path,
                  "An executable and its arguments belong together.");
  }
  for (const auto& [name, value] : command.env) {
    if (name.empty() || name.find('=') != std::string::npos ||
        (name + value).find('\0') != std::string::npos) {
      return Error{ErrorClass::usage,
                   "environment-name",
                   "write plan",
                   name,
                   "Not a usable environment variable.",
                   ""};
    }
  }
  if (command.argv.size() + command.env.size() + command.secret_env.size() > plan::max_strings) {
    return Error{ErrorClass::usage,
                 "too-many-arguments",
                 "write plan",
                 "argv",
                 "At most 65536 arguments and variables can be given.",
                 "Give them by a file."};
  }
  for (const std::string& argument : command.argv) {
    if (argument.find('\0') != std::string::npos) {
      return Error{
          ErrorClass::usage, "argument-nul", "write plan", "argv", "An argument contains a NUL byte.", ""};
    }
  }
  return {};
}

void write_limits(const Compiled& compiled, PlanWriter& plan) {
  plan.rlimits.push_back({RLIMIT_CORE, 0, 0, 0});
  if (compiled.max_memory != 0 && compiled.control_groups.memory.empty()) {
    // Not the address space: real harnesses reserve far more of that than they ever use.
    plan.rlimits.push_back({RLIMIT_DATA, 0, compiled.max_memory, compiled.max_memory});
  }
  plan.cgroups = compiled.joined_groups;
  std::uint64_t processes = processes_by_rlimit(compiled) ? compiled.max_processes : 0;
  if (compiled.verification.on && compiled.backend == Backend::landlock && compiled.run_uid != 0 &&
      compiled.control_groups.processes.empty() && compiled.max_processes != 0) {
    // Counted with all that this user runs already. Not exact, and enough against a storm of a gate's own.
    processes = threads_of(compiled.run_uid) + compiled.max_processes;
  }
  if (processes != 0) {
    plan.rlimits.push_back({RLIMIT_NPROC, 0, processes, processes});
  }
}

void write_user(const Compiled& compiled, PlanWriter& plan) {
  plan.header.outside_uid = compiled.run_uid;
  plan.header.outside_gid = compiled.run_gid;
  plan.header.inside_uid = compiled.inside_uid;
  plan.header.inside_gid = compiled.inside_gid;
  plan.header.idmap_uid = compiled.uid;
  plan.header.idmap_gid = compiled.gid;
  plan.header.flags |= compiled.switch_user ? plan::switch_user : 0u;
}

}  // namespace

std::string sandbox_user_name(const Compiled& compiled) {
  return compiled.inside_uid == 0 ? "root" : "agent";
}

Inside inside(const Compiled& compiled, const RunDirectories& run) {
  Inside view;
  view.worktree = compiled.worktree;
  const auto path_of = [](const std::optional<Root>& root) { return root ? root->path : std::string(); };
  if (compiled.run_directories) {
    view.home = compiled.fixed_inside ? inside_home : path_of(run.home);
    view.temp = compiled.fixed_inside ? "/tmp" : path_of(run.temp);
  } else {
    view.home = view.temp = compiled.fixed_inside ? "/tmp" : "/";
  }
  if (compiled.has_git) {
    view.git_dir = !compiled.fixed_inside ? path_of(run.git)
                   : compiled.git_file    ? inside_git
                                          : compiled.worktree + "/.git";
    for (const Grant& grant : compiled.grants) {
      view.objects = grant.role == "objects" ? grant.target : view.objects;
    }
  }
  const std::string user = sandbox_user_name(compiled);
  std::string path;
  for (const std::string& directory : compiled.path_directories) {
    path += directory + ":";
  }
  view.environment = {{"HOME", view.home},
                      {"TMPDIR", view.temp},
                      {"TMP", view.temp},
                      {"TEMP", view.temp},
                      {"XDG_CACHE_HOME", (view.temp == "/" ? "" : view.temp) + "/cache"},
                      {"USER", user},
                      {"LOGNAME", user},
                      {"SHELL", compiled.shell},
                      {"LANG", "C.UTF-8"},
                      {"GIT_CONFIG_NOSYSTEM", "1"},
                      {"PATH", path + "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"}};
  if (compiled.gate) {
    const auto variables = gate::environment(*compiled.gate);
    view.environment.insert(view.environment.end(), variables.begin(), variables.end());
  }
  if (compiled.has_git && !compiled.fixed_inside) {
    view.environment.emplace_back("GIT_DIR", view.git_dir);
    view.environment.emplace_back("GIT_WORK_TREE", compiled.worktree);
  }
  if (compiled.verification.on && !compiled.verification.layered) {
    view.environment.emplace_back("GIT_OPTIONAL_LOCKS", "0");  // nothing of git can be written
  }
  return view;
}

Result<Executable> resolve_executable(const std::string& canonical_path) {
  HR_TRY(executable, identify_executable(canonical_path));
  HR_CHECK(read_script_mark(executable));
  return executable;
}

Status read_script_mark(Executable& executable) {
  HR_TRY(file, open_no_symlinks(AT_FDCWD, executable.path, O_RDONLY | O_NONBLOCK));
  char head[2] = {};
  executable.script = pread(file.get(), head, 2, 0) == 2 && head[0] == '#' && head[1] == '!';
  return {};
}

Result<Executable> identify_executable(const std::string& canonical_path) {
  HR_TRY(root, resolve_root(canonical_path, false));
  HR_TRY(file, open_no_symlinks(AT_FDCWD, canonical_path, O_RDONLY | O_NONBLOCK));
  struct stat info {};
  if (fstat(file.get(), &info) < 0) {
    return errno_error("stat executable", canonical_path, errno);
  }
  if (!S_ISREG(info.st_mode) || (info.st_mode & 0111) == 0) {
    return Error{
        ErrorClass::environment, "executable-not-executable",     "resolve executable",
        canonical_path,          "It is not an executable file.", "Check its mode, or name another file."};
  }
  Executable executable;
  executable.path = canonical_path;
  executable.identity = {info.st_dev, info.st_ino, static_cast<std::uint64_t>(info.st_size),
                         nanos(info.st_mtim), nanos(info.st_ctim)};
  return executable;
}

Result<std::string> flat_plan(const Compiled& compiled, const RunDirectories& run, const Command& command) {
  HR_CHECK(check_command(compiled, run, command));
  PlanWriter plan;
  write_user(compiled, plan);
  if (compiled.backend == Backend::native) {
    HR_CHECK(write_native(compiled, run, plan));
    plan.header.flags |= compiled.net_namespace ? plan::net_namespace : 0u;
    if (compiled.gate) {
      for (const gatewire::Listener& listener : compiled.gate->listeners) {
        plan::Listener& made = plan.listeners.emplace_back();
        std::copy(std::begin(listener.address), std::end(listener.address), made.address);
        made.port = listener.port;
      }
    }
  } else {
    HR_CHECK(write_landlock(compiled, run, plan));
  }
  plan.header.flags |= command.end_with_leader ? plan::end_with_leader : 0u;
  plan.header.flags |= command.executable.script ? plan::exec_by_path : 0u;
  plan.header.umask = command.umask;
  write_limits(compiled, plan);
  const bool held = compiled.verification.on && compiled.backend == Backend::landlock;
  HR_TRY(filter,
         seccomp_filter({compiled.inet_sockets, compiled.unix_sockets, compiled.nested_allowed, held}));
  plan.filter = std::move(filter);
  const Inside view = inside(compiled, run);
  const std::string cwd = !command.cwd.empty()     ? command.cwd
                          : !view.worktree.empty() ? view.worktree
                                                   : view.home;
  if (compiled.backend == Backend::landlock && cwd == "/") {
    HR_TRY(root, resolve_root("/"));
    plan.source(root);
  }
  plan.header.cwd = plan.place(cwd);
  plan.header.executable = plan.place(command.executable.path.empty() ? "/" : command.executable.path);
  if (compiled.backend == Backend::landlock &&
      (plan.header.cwd.step == 0 || (!command.argv.empty() && plan.header.executable.step == 0))) {
    return Error{ErrorClass::refused,
                 "not-granted",
                 "write plan",
                 plan.header.cwd.step == 0 ? cwd : command.executable.path,
                 "It lies in no granted root.",
                 ""};
  }
  const FileIdentity& id = command.executable.identity;
  const bool in_overlay = plan.in_overlay(command.executable.path);
  plan.header.identity = {in_overlay ? 0 : id.dev, id.ino, id.size, id.mtime_ns, id.ctime_ns};
  plan.header.program = plan.string(command.executable.path);
  plan.argv = command.argv;
  for (const auto& [name, value] : command.env) {
    std::string variable = name;
    variable += '=';
    variable += value;
    plan.env.push_back(std::move(variable));
  }
  plan.secret_env = command.secret_env;
  std::string bytes = plan.bytes();
  if (const char* wrong = plan::check(bytes.data(), bytes.size())) {
    return misuse("plan-invalid", wrong, "The plan would be refused by init.");
  }
  return bytes;
}

}  // namespace hitchrail::boundary
