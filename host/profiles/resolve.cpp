// From the command of a profile to the program that will really run.

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>

#include "core/file.hpp"
#include "core/json.hpp"
#include "core/text.hpp"
#include "profiles/profiles.hpp"

namespace hitchrail::profiles {
namespace {

constexpr std::size_t kMaxPackageJson = 1u << 20;

Error refuse(const SupportProfile& profile, std::string code, std::string object, std::string detail,
             std::string remedy) {
  if (remedy.empty()) {
    remedy = profile.remediation.empty() ? "" : profile.remediation.front();
  }
  return Error{ErrorClass::environment, std::move(code),   "find executable",
               std::move(object),       std::move(detail), std::move(remedy)};
}

enum class Look { program, absent, not_a_file, not_executable };

Look look_at(const std::string& path) {
  struct stat st {};
  if (::stat(path.c_str(), &st) != 0) {
    return errno == EACCES ? Look::not_executable : Look::absent;
  }
  if (!S_ISREG(st.st_mode)) {
    return Look::not_a_file;
  }
  return ::faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0 ? Look::program : Look::not_executable;
}

std::string real_path(const std::string& path) {
  char buffer[PATH_MAX];
  return ::realpath(path.c_str(), buffer) != nullptr ? std::string(buffer) : std::string();
}

std::string parent_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos || slash == 0 ? "/" : path.substr(0, slash);
}

bool ends_with_path(std::string_view path, std::string_view tail) {
  return path.size() > tail.size() + 1 && path.substr(path.size() - tail.size()) == tail &&
         path[path.size() - tail.size() - 1] == '/';
}

Result<std::string> search(const SupportProfile& profile, std::string_view path_variable) {
  const std::string& command = profile.command;
  Look worst = Look::absent;
  std::string worst_path = command;
  const auto consider = [&](const std::string& path) {
    const Look look = look_at(path);
    if (look != Look::absent && worst == Look::absent) {
      worst = look;
      worst_path = path;
    }
    return look == Look::program;
  };
  if (command.find('/') != std::string::npos) {
    if (consider(command)) {
      return command;
    }
  } else {
    while (!path_variable.empty()) {
      const std::size_t colon = std::min(path_variable.find(':'), path_variable.size());
      const std::string_view directory = path_variable.substr(0, colon);
      path_variable.remove_prefix(std::min(colon + 1, path_variable.size()));
      // An empty or relative entry means the working directory, which may be somebody's repository.
      if (directory.substr(0, 1) == "/") {
        const std::string path = std::string(directory) + "/" + command;
        if (consider(path)) {
          return path;
        }
      }
    }
  }
  switch (worst) {
    case Look::not_a_file:
      return refuse(profile, "executable-not-a-file", escape_visible(worst_path), "this is no regular file",
                    "");
    case Look::not_executable:
      return refuse(profile, "executable-not-executable", escape_visible(worst_path),
                    "this file may not be executed by you", "chmod +x it, or reinstall the program");
    case Look::program:
    case Look::absent:
      break;
  }
  return refuse(profile, "executable-missing", escape_visible(command), "no such program is installed", "");
}

// The root of the npm package whose launcher script this is, "" when it is none.
std::string launcher_package(const LauncherRule& rule, const std::string& script) {
  if (!ends_with_path(script, rule.script)) {
    return {};
  }
  const std::string root = script.substr(0, script.size() - rule.script.size() - 1);
  auto directory = open_at(AT_FDCWD, root, O_PATH | O_DIRECTORY);
  if (directory.has_error()) {
    return {};
  }
  const auto text = read_file_at(directory->get(), "package.json", kMaxPackageJson);
  if (text.has_error()) {
    return {};
  }
  const auto description = json::parse(*text, json::Duplicates::first_wins, "package.json");
  return description.has_value() && description->get("name").as_string() == rule.package ? root
                                                                                         : std::string();
}

// The first program that matches a pattern below a directory; a component may be "*".
std::string find_below(const std::string& directory, std::string_view pattern) {
  const std::size_t slash = std::min(pattern.find('/'), pattern.size());
  const std::string_view first = pattern.substr(0, slash);
  const std::string_view rest = pattern.substr(std::min(slash + 1, pattern.size()));
  std::vector<std::string> names{std::string(first)};
  if (first == "*") {
    auto opened = open_at(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY);
    auto listed =
        opened.has_value() ? list_directory(opened->get()) : Result<std::vector<std::string>>(opened.error());
    names = listed.has_value() ? *listed : std::vector<std::string>();
  }
  for (const std::string& name : names) {
    std::string path = directory;
    path.append("/").append(name);
    if (rest.empty()) {
      if (look_at(path) == Look::program) {
        return path;
      }
    } else if (std::string found = find_below(path, rest); !found.empty()) {
      return found;
    }
  }
  return {};
}

Result<std::string> platform_program(const SupportProfile& profile, const LauncherRule& rule,
                                     const std::string& package_root) {
  utsname machine{};
  ::uname(&machine);
  for (const PlatformProgram& each : rule.programs) {
    if (each.machine != machine.machine) {
      continue;
    }
    // npm puts an optional dependency below the package or beside it; older packages bring the program
    // themselves.
    std::vector<std::string> places{package_root + "/node_modules/" + each.package};
    if (ends_with_path(package_root, rule.package)) {
      places.push_back(package_root.substr(0, package_root.size() - rule.package.size()) + each.package);
    }
    places.push_back(package_root);
    for (const std::string& place : places) {
      const std::string found = find_below(place, each.program);
      if (!found.empty()) {
        return real_path(found);
      }
    }
    return refuse(profile, "executable-platform-missing", escape_visible(package_root),
                  "the package " + each.package + " with the program for this machine is not installed",
                  "reinstall " + rule.package + " with its optional dependencies");
  }
  return refuse(
      profile, "executable-platform-missing", escape_visible(package_root),
      "the profile names no program of " + rule.package + " for a machine of type " + machine.machine, "");
}

std::string find_package_root(const SupportProfile& profile, const std::string& program) {
  std::string directory = program;
  for (std::size_t level = 0; level < profile.package_levels && directory != "/"; ++level) {
    directory = parent_of(directory);
    struct stat st {};
    if (directory != "/" && ::stat((directory + "/" + profile.package_marker).c_str(), &st) == 0 &&
        S_ISREG(st.st_mode)) {
      return directory;
    }
  }
  return {};
}

}  // namespace

Result<ResolvedExecutable> resolve_executable(const SupportProfile& profile, std::string_view path_variable) {
  ResolvedExecutable resolved;
  HR_TRY(found, search(profile, path_variable));
  resolved.found = found;
  resolved.program = real_path(found);
  if (resolved.program.empty()) {
    return refuse(profile, "executable-missing", escape_visible(found),
                  "the program vanished while it was looked at", "");
  }
  for (const LauncherRule& rule : profile.resolve) {
    const std::string package = launcher_package(rule, resolved.program);
    if (!package.empty()) {
      HR_TRY(program, platform_program(profile, rule, package));
      resolved.launcher = std::move(resolved.program);
      resolved.program = program;
      break;
    }
  }
  if (!profile.package_marker.empty()) {
    resolved.package_root = find_package_root(profile, resolved.program);
  }
  return resolved;
}

}  // namespace hitchrail::profiles
