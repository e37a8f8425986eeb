// Limits on memory and processes of a whole run by control groups, where this process may make one below its
// own; and what is done where it may not.
//
// The file `cgroups` in the attempt directory names each group before it is made; remove_control_groups()
// removes what is there of them. A group can only be removed when no process is in it.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <sstream>
#include <string_view>

#include "boundary/internal.hpp"
#include "core/file.hpp"
#include "core/ids.hpp"
#include "core/text.hpp"

namespace hitchrail::boundary {
namespace {

constexpr const char* record_name = "cgroups";

// /proc files say size 0; read as text, "" when there is none.
std::string text_of(const std::string& path) {
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  auto text = file ? read_all(file.get(), 16u << 20) : Result<std::string>(std::string());
  return text.has_value() ? text.value() : std::string();
}

bool has_word(const std::string& list, std::string_view word, char separator) {
  std::istringstream stream(list);
  for (std::string each; std::getline(stream, each, separator);) {
    if (each == word || each == std::string(word) + "\n") {
      return true;
    }
  }
  return false;
}

// Where hierarchy `controller` ("" = the unified one) is mounted, as far as its root is visible there.
std::string mounted_at(const std::string& controller) {
  std::istringstream lines(text_of("/proc/self/mountinfo"));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t dash = line.find(" - ");
    std::istringstream left(line.substr(0, dash));
    std::istringstream right(dash == std::string::npos ? "" : line.substr(dash + 3));
    std::string id, parent, device, root, point, type, source, options;
    left >> id >> parent >> device >> root >> point;
    right >> type >> source >> options;
    const bool wanted =
        controller.empty() ? type == "cgroup2" : type == "cgroup" && has_word(options, controller, ',');
    if (wanted && root == "/") {
      return point;
    }
  }
  return "";
}

// This process's group in that hierarchy, "" when it is not to be seen.
std::string own_group(const std::string& controller) {
  const std::string point = mounted_at(controller);
  std::istringstream lines(text_of("/proc/self/cgroup"));
  for (std::string line; !point.empty() && std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) {
      continue;
    }
    const std::string list = line.substr(first + 1, second - first - 1);
    if (controller.empty() ? list.empty() : has_word(list, controller, ',')) {
      const std::string path = line.substr(second + 1);
      return path == "/" ? point : point + path;
    }
  }
  return "";
}

bool writable(const std::string& directory) {
  return !directory.empty() && access(directory.c_str(), W_OK) == 0 &&
         access((directory + "/cgroup.procs").c_str(), W_OK) == 0;
}

// The unified hierarchy gives a child only what its parent hands down, and a group with processes hands down
// nothing: so the first writable ancestor that does.
std::string delegated(const std::string& controller) {
  const std::string top = mounted_at("");
  for (std::string at = own_group(""); writable(at); at = at.substr(0, at.rfind('/'))) {
    if (has_word(text_of(at + "/cgroup.subtree_control"), controller, ' ')) {
      return at;
    }
    if (at == top) {
      break;
    }
  }
  return "";
}

struct Limit {
  std::string parent;
  std::vector<std::pair<const char*, std::uint64_t>> values;  // the first must be accepted
};

std::vector<Limit> limits_of(const Compiled& compiled) {
  const ControlGroups& groups = compiled.control_groups;
  std::vector<Limit> limits;
  if (compiled.max_memory != 0 && !groups.memory.empty()) {
    if (groups.unified) {
      limits.push_back({groups.memory, {{"memory.max", compiled.max_memory}, {"memory.swap.max", 0}}});
    } else {
      limits.push_back({groups.memory,
                        {{"memory.limit_in_bytes", compiled.max_memory},
                         {"memory.memsw.limit_in_bytes", compiled.max_memory}}});
    }
  }
  if (compiled.max_processes != 0 && !processes_by_rlimit(compiled) && !groups.processes.empty()) {
    limits.push_back({groups.processes, {{"pids.max", compiled.max_processes}}});
  }
  return limits;
}

Status make_group(const std::string& path, const Limit& limit) {
  if (mkdir(path.c_str(), 0755) < 0) {
    return errno_error("make control group", path, errno);
  }
  for (const auto& [name, value] : limit.values) {
    const Fd file(open((path + "/" + name).c_str(), O_WRONLY | O_CLOEXEC));
    const Status wrote = file ? write_all(file.get(), std::to_string(value))
                              : Status{errno_error("limit control group", path, errno)};
    if (wrote.has_error() && name == limit.values.front().first) {
      return wrote;
    }
  }
  return {};
}

bool remove_group(const std::string& path) {
  for (int i = 0; i < 200; ++i) {
    if (rmdir(path.c_str()) == 0 || errno == ENOENT || errno == ENOTDIR) {
      return true;
    }
    if (errno != EBUSY) {
      return false;
    }
    usleep(10'000);  // the last process of the run is still being taken down
  }
  return false;
}

}  // namespace

ControlGroups look_at_control_groups() {
  ControlGroups groups;
  groups.memory = own_group("memory");
  groups.processes = own_group("pids");
  groups.memory = writable(groups.memory) ? groups.memory : "";
  groups.processes = writable(groups.processes) ? groups.processes : "";
  if (groups.memory.empty() && groups.processes.empty()) {
    groups.memory = delegated("memory");
    groups.processes = delegated("pids");
    groups.unified = true;
  }
  return groups;
}

// Counted in the run's own user namespace; uid 0 of the machine is exempt, and without a user namespace the
// count would be of everything this user runs.
bool processes_by_rlimit(const Compiled& compiled) {
  return compiled.backend == Backend::native && compiled.run_uid != 0;
}

std::uint64_t threads_of(std::uint32_t uid) {
  const Fd proc(open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto names = proc ? list_directory(proc.get()) : Result<std::vector<std::string>>({});
  std::uint64_t count = 0;
  for (const std::string& name : names.has_value() ? names.value() : std::vector<std::string>{}) {
    struct stat info {};
    // Tasks are the links of this directory beyond `.` and `..`.
    if (name[0] >= '1' && name[0] <= '9' && fstatat(proc.get(), (name + "/task").c_str(), &info, 0) == 0 &&
        info.st_uid == uid) {
      count += info.st_nlink > 2 ? info.st_nlink - 2 : 1;
    }
  }
  return count;
}

const char* memory_limit_by(const Compiled& compiled) {
  if (compiled.max_memory == 0) {
    return "none";
  }
  return compiled.control_groups.memory.empty() ? "each-process" : "control-group";
}

const char* process_limit_by(const Compiled& compiled) {
  if (compiled.max_processes == 0) {
    return "none";
  }
  if (processes_by_rlimit(compiled)) {
    return "user-namespace";
  }
  return compiled.control_groups.processes.empty() ? "none" : "control-group";
}

Status make_control_groups(Compiled& compiled, int attempt_dirfd) {
  const std::vector<Limit> limits = limits_of(compiled);
  if (limits.empty()) {
    return {};
  }
  compiled.joined_groups.clear();
  json::Value list = json::Value::array();
  for (const Limit& limit : limits) {
    compiled.joined_groups.push_back(limit.parent + "/hitchrail-" + random_id("", 20));
    list.push(hex_encode(compiled.joined_groups.back()));
  }
  HR_CHECK(write_file_atomic(attempt_dirfd, record_name, json::write(list) + "\n"));
  for (std::size_t i = 0; i < limits.size(); ++i) {
    const Status made = make_group(compiled.joined_groups[i], limits[i]);
    if (made.has_error()) {
      (void)remove_control_groups(attempt_dirfd);
      Error error = made.error();
      error.code = "control-group-failed";
      error.remedy = "Take limits.maxMemory out of the preset, or run where control groups can be made.";
      return error;
    }
  }
  return {};
}

Status remove_control_groups(int attempt_dirfd) {
  auto text = read_file_at(attempt_dirfd, record_name, 1u << 20);
  if (text.has_error()) {
    return text.error().code == "enoent" ? Status{} : Status{text.error()};
  }
  HR_TRY(list, json::parse(text.value(), json::Duplicates::refuse, record_name));
  for (const json::Value& item : list.items()) {
    const std::string path = hex_decode(item.as_string());
    // The record is ours; still, nothing but a group made by us is ever touched.
    if (path.find("/hitchrail-") == std::string::npos || remove_group(path)) {
      continue;
    }
    return Error{ErrorClass::failed,
                 "control-group-left",
                 "remove control group",
                 path,
                 "A control group of the run could not be removed now.",
                 "Run: hitchrail runs recover"};
  }
  if (unlinkat(attempt_dirfd, record_name, 0) < 0 && errno != ENOENT) {
    return errno_error("remove", record_name, errno);
  }
  return {};
}

}  // namespace hitchrail::boundary
