#include "boundary/probe_world.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>

#include "boundary/internal.hpp"
#include "core/file.hpp"
#include "core/ids.hpp"

namespace hitchrail::boundary {
namespace {

constexpr std::int64_t controls_wall_ms = 60'000;
constexpr std::int64_t inside_wall_ms = 60'000;

Error failed(std::string object, std::string detail) {
  return Error{ErrorClass::environment, "probe-failed",    "probe boundary",
               std::move(object),       std::move(detail), "Try again: hitchrail sandbox probe --fresh"};
}

// hitchrail-probe as a plain child with an empty environment.
struct Child {
  pid_t pid = -1;
  Fd input;
  Fd output;
};
Result<Child> start(const std::string& program, const std::vector<std::string>& arguments) {
  int in[2];
  int out[2];
  if (pipe2(in, O_CLOEXEC) < 0) {
    return errno_error("make pipe", program, errno);
  }
  Child child;
  Fd child_in(in[0]);
  child.input.reset(in[1]);
  if (pipe2(out, O_CLOEXEC) < 0) {
    return errno_error("make pipe", program, errno);
  }
  child.output.reset(out[0]);
  Fd child_out(out[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, child_in.get(), 0);
  posix_spawn_file_actions_adddup2(&actions, child_out.get(), 1);
  std::vector<std::string> words{"hitchrail-probe"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  char* environment[] = {nullptr};
  const int error = posix_spawn(&child.pid, program.c_str(), &actions, nullptr, argv.data(), environment);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return errno_error("start hitchrail-probe", program, error);
  }
  return child;
}

// Until end of file, or `until` is seen; an error when the time is up.
Result<std::string> read_text(int fd, const std::string& until, std::int64_t wall_ms) {
  const std::int64_t deadline = monotonic_nanos() + wall_ms * 1'000'000;
  std::string text;
  while (until.empty() || text.find(until) == std::string::npos) {
    const std::int64_t left_ms = (deadline - monotonic_nanos()) / 1'000'000;
    pollfd entry{fd, POLLIN, 0};
    if (left_ms <= 0 || poll(&entry, 1, static_cast<int>(left_ms)) == 0) {
      return failed("hitchrail-probe", "It did not answer in time.");
    }
    char buffer[16384];
    const ssize_t got = read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      break;
    }
    text.append(buffer, static_cast<std::size_t>(got));
  }
  return text;
}

void end_child(pid_t pid, bool at_once) {
  if (at_once) {
    kill(pid, SIGKILL);
  }
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

Result<std::string> probe_path() {
  HR_TRY(init, init_path());
  std::string path = init.substr(0, init.rfind('/')) + "/hitchrail-probe";
  if (access(path.c_str(), X_OK) != 0) {
    return Error{ErrorClass::environment,
                 "probe-missing",
                 "find hitchrail-probe",
                 path,
                 "The program that proves boundaries is not installed.",
                 "Install Hitchrail completely: ./quickstart"};
  }
  return path;
}

Answers parse_answers(const std::string& text) {
  Answers answers;
  std::size_t start = 0;
  while (start < text.size()) {
    const std::size_t end = text.find('\n', start);
    if (end == std::string::npos) {
      break;  // a line that was cut is no answer
    }
    const std::size_t space = text.find(' ', start);
    if (space < end) {
      answers[text.substr(start, space - start)] = text.substr(space + 1, end - space - 1);
    }
    start = end + 1;
  }
  return answers;
}

Result<ScratchDirectory> ScratchDirectory::make() {
  const char* folder = std::getenv("TMPDIR");
  // Short, because the paths of sockets are.
  std::string base =
      folder != nullptr && *folder == '/' && std::string_view(folder).size() < 40 ? folder : "/tmp";
  char resolved[PATH_MAX];
  if (realpath(base.c_str(), resolved) == nullptr) {
    return errno_error("find the temporary directory", base, errno);
  }
  std::string pattern = std::string(resolved) + "/hr-probe-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) {
    return errno_error("make scratch directory", pattern, errno);
  }
  return ScratchDirectory(pattern);
}

ScratchDirectory::~ScratchDirectory() {
  if (path_.empty()) {
    return;
  }
  const std::size_t slash = path_.rfind('/');
  const Fd parent(open(path_.substr(0, slash).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (parent) {
    (void)remove_tree_at(parent.get(), path_.substr(slash + 1));
  }
}

Result<Answers> run_controls(const std::vector<std::string>& ids) {
  HR_TRY(program, probe_path());
  HR_TRY(base, ScratchDirectory::make());
  std::vector<std::string> arguments{"control", base.path()};
  arguments.insert(arguments.end(), ids.begin(), ids.end());
  HR_TRY(child, start(program, arguments));
  child.input.reset();
  auto text = read_text(child.output.get(), "", controls_wall_ms);
  end_child(child.pid, text.has_error());
  if (text.has_error()) {
    return text.error();
  }
  return parse_answers(text.value());
}

Result<std::unique_ptr<ProbeWorld>> ProbeWorld::make() {
  HR_TRY(base, ScratchDirectory::make());
  std::unique_ptr<ProbeWorld> world(new ProbeWorld(std::move(base)));
  HR_CHECK(world->start());
  return world;
}

Status ProbeWorld::start() {
  HR_TRY(program, probe_path());
  HR_TRY(canonical, resolve_trusted(program));
  program_ = canonical.path;
  HR_TRY(child, boundary::start(program_, {"world", base_.path()}));
  keeper_ = child.pid;
  keeper_input_ = std::move(child.input);
  HR_TRY(text, read_text(child.output.get(), "ready\n", 10'000));
  if (text.find("ready\n") == std::string::npos) {
    return failed(base_.path(), "The scratch world could not be made.");
  }
  std::size_t at = 0;
  while (text.compare(at, 6, "ready\n") != 0) {
    const std::size_t equal = text.find('=', at);
    const std::size_t end = text.find('\n', at);
    variables_[text.substr(at, equal - at)] = text.substr(equal + 1, end - equal - 1);
    at = end + 1;
  }
  return open_inherited();
}

ProbeWorld::~ProbeWorld() {
  inherited_.clear();
  keeper_input_.reset();  // the keeper sees the end and takes its world away
  if (keeper_ >= 0) {
    end_child(keeper_, false);
  }
}

std::string ProbeWorld::variable(const std::string& name) const {
  const auto found = variables_.find(name);
  return found != variables_.end() ? found->second : "";
}

// What a careless launcher leaves open: not close-on-exec. Init must close them.
Status ProbeWorld::open_inherited() {
  const std::string outside = variable("HR_OUTSIDE");
  const int fds[] = {open((outside + "/secret").c_str(), O_RDWR | O_CLOEXEC),
                     open(outside.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                     socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const char* names[] = {"HR_FILE_FD", "HR_DIRECTORY_FD", "HR_SOCKET_FD"};
  for (std::size_t i = 0; i < 3; ++i) {
    const Fd original(fds[i]);
    inherited_.emplace_back(fcntl(original.get(), F_DUPFD, 60));
    if (!inherited_.back()) {
      return errno_error("open", names[i], errno);
    }
    variables_[names[i]] = std::to_string(inherited_.back().get());
  }
  return {};
}

Result<Compiled> ProbeWorld::compile_boundary(const Machine& machine, const Setup& setup) {
  Preset preset;
  preset.id = preset.name = "proof";
  preset.enforcement = Enforcement::required;
  preset.write_paths = {"<workspace>"};
  preset.network = setup.network ? Network::host : Network::none;
  preset.digest = "fixed:proof";
  Roots roots;
  HR_TRY(tree, inspect_writable_root(variable("HR_WORKTREE")));
  roots.worktree = std::move(tree);
  HR_TRY(readable, resolve_root(variable("HR_READABLE")));
  roots.read = {readable};
  HR_TRY(denied, resolve_root(variable("HR_DENIED")));
  roots.denied = {denied};
  HR_TRY(program, resolve_root(program_, false));
  roots.packages = {program};
  roots.operator_home = "/nonexistent/home";
  roots.host_private = {variable("HR_ATTEMPT")};
  if (setup.git) {
    HR_TRY(objects, resolve_root(variable("HR_WORKTREE") + "/.git/objects"));
    roots.git_objects = std::move(objects);
  }
  if (setup.as_launched) {
    look_at_mounts(machine, variable("HR_ATTEMPT"), roots);
  }
  HR_TRY(compiled, compile(preset, roots, machine, {.backend = setup.backend}));
  HR_CHECK(admit(compiled));
  return compiled;
}

// New for each boundary: mount points below /tmp are made in the temporary directory.
Result<RunDirectories> ProbeWorld::run_directories(const Compiled& compiled) {
  RunDirectories run;
  const std::string attempt = variable("HR_ATTEMPT");
  const std::string number = std::to_string(++runs_);
  for (const char* name : {"/home-", "/temp-"}) {
    if (mkdir((attempt + name + number).c_str(), 0700) < 0) {
      return errno_error("make directory", attempt + name + number, errno);
    }
  }
  HR_TRY(home, resolve_root(attempt + "/home-" + number));
  HR_TRY(temp, resolve_root(attempt + "/temp-" + number));
  run.home = std::move(home);
  run.temp = std::move(temp);
  if (compiled.has_git) {
    HR_TRY(git, resolve_root(attempt + "/git"));
    run.git = std::move(git);
  }
  return run;
}

Result<std::string> ProbeWorld::plan(const Compiled& compiled, const std::vector<std::string>& ids) {
  HR_TRY(run, run_directories(compiled));
  Command command;
  HR_TRY(executable, resolve_executable(program_));
  command.executable = std::move(executable);
  command.argv = {"hitchrail-probe", "run"};
  command.argv.insert(command.argv.end(), ids.begin(), ids.end());
  const Inside view = inside(compiled, run);
  command.env = view.environment;
  command.env.insert(command.env.end(), variables_.begin(), variables_.end());
  command.end_with_leader = true;
  if (compiled.has_git) {
    const Fd git(open((run.git->path + "/objects/info").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    HR_CHECK(write_file_atomic(git.get(), "alternates", view.objects + "\n", 0644));
  }
  return flat_plan(compiled, run, command);
}

Result<Answers> ProbeWorld::run(const Machine& machine, const Setup& setup,
                                const std::vector<std::string>& ids, const Change& change) {
  HR_TRY(compiled, compile_boundary(machine, setup));
  const Fd attempt(open(variable("HR_ATTEMPT").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!attempt) {
    return errno_error("open", variable("HR_ATTEMPT"), errno);
  }
  HR_CHECK(make_placeholders(compiled, attempt.get()));
  HR_TRY(bytes, plan(compiled, ids));
  if (change) {
    change(bytes);
  }
  auto output =
      run_plan(bytes, RunLimits{.max_stdout = 1u << 20, .max_stderr = 4096, .wall_ms = inside_wall_ms});
  const Status removed = remove_placeholders(attempt.get());
  if (output.has_error()) {
    return output.error();
  }
  HR_CHECK(removed);
  Answers answers = parse_answers(output.value().out);
  // What `daemon` left behind had its chance: init is gone.
  if (const auto daemon = answers.find("daemon"); daemon != answers.end() && daemon->second == "through") {
    daemon->second = daemon_lives() ? "through" : "refused no effect";
  }
  return answers;
}

bool ProbeWorld::daemon_lives() const {
  const Fd lock(open((variable("HR_WORKTREE") + "/src/daemon").c_str(), O_RDWR | O_CLOEXEC));
  return lock && flock(lock.get(), LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

}  // namespace hitchrail::boundary
