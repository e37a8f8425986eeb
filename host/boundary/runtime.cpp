// What a program needs beside itself: its package, and the folders where the operator keeps tools.
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>

#include "boundary/internal.hpp"

namespace hitchrail::boundary {
namespace {

std::vector<std::string> split(const std::string& text, char by) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  while (start <= text.size()) {
    const std::size_t end = std::min(text.find(by, start), text.size());
    parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

// "/a/node_modules/@scope/name" of a path below it, "" when none.
std::string node_package(const std::string& program) {
  static constexpr std::string_view folder = "/node_modules/";
  const std::size_t at = program.rfind(folder);
  if (at == std::string::npos) {
    return "";
  }
  std::size_t end = program.find('/', at + folder.size());
  if (end != std::string::npos && program[at + folder.size()] == '@') {
    end = program.find('/', end + 1);
  }
  return end == std::string::npos ? "" : program.substr(0, end);
}

std::string python_environment(const std::string& program) {
  std::string folder = program;
  for (int level = 0; level < 6; ++level) {
    const std::size_t slash = folder.rfind('/');
    if (slash == 0 || slash == std::string::npos) {
      return "";
    }
    folder.resize(slash);
    struct stat info {};
    if (::lstat((folder + "/pyvenv.cfg").c_str(), &info) == 0 && S_ISREG(info.st_mode)) {
      return folder;
    }
  }
  return "";
}

std::string why_not(const std::string& path, const Roots& roots, const Machine& machine) {
  static constexpr std::string_view wide[] = {"/",    "/etc",  "/boot", "/dev", "/proc", "/sys",      "/run",
                                              "/var", "/home", "/root", "/opt", "/tmp",  "/hitchrail"};
  for (const std::string_view each : wide) {
    if (path == each) {
      return "it holds more than one run may have";
    }
  }
  for (const char* kernel : {"/dev", "/proc", "/sys", "/hitchrail"}) {
    if (contains(kernel, path)) {
      return std::string("it lies in ") + kernel;
    }
  }
  if (!roots.operator_home.empty() && contains(path, roots.operator_home)) {
    return "it holds your home";
  }
  for (const SystemPath& system : machine.system) {
    if (system.source.directory && contains(system.source.path, path)) {
      return "the system's folders are there already";
    }
  }
  for (const std::string& own : roots.host_private) {
    if (!own.empty() && (contains(path, own) || contains(own, path))) {
      return "it overlaps " + own;
    }
  }
  for (const Root& denied : roots.denied) {
    if (contains(denied.path, path)) {
      return "the preset denies " + denied.path;
    }
  }
  if (roots.worktree && contains(roots.worktree->root.path, path)) {
    return "it is part of the worktree";
  }
  for (const WritableRoot& root : roots.write) {
    if (contains(root.root.path, path) || contains(path, root.root.path)) {
      return "it overlaps the writable root " + root.root.path;
    }
  }
  if (roots.worktree && contains(path, roots.worktree->root.path)) {
    return "the worktree lies in it";
  }
  return "";
}

}  // namespace

Result<Root> package_root(const std::string& program) {
  std::string package = node_package(program);
  if (package.empty()) {
    package = python_environment(program);
  }
  return resolve_root(package.empty() ? program : package, !package.empty());
}

PathDirectories path_directories(const std::string& path_variable, const Roots& roots,
                                 const Machine& machine) {
  PathDirectories found;
  for (const std::string& entry : split(path_variable, ':')) {
    if (entry.empty() || entry[0] != '/') {
      if (!entry.empty()) {
        found.left_out.emplace_back(entry, "it is relative");
      }
      continue;
    }
    auto root = resolve_trusted(entry);
    if (root.has_error() || !root.value().directory) {
      continue;
    }
    const bool known = std::any_of(found.roots.begin(), found.roots.end(),
                                   [&](const Root& each) { return each.path == root.value().path; });
    if (known) {
      continue;
    }
    const std::string why = why_not(root.value().path, roots, machine);
    if (why.empty()) {
      found.roots.push_back(std::move(root).value());
    } else {
      found.left_out.emplace_back(root.value().path, why);
    }
  }
  return found;
}

}  // namespace hitchrail::boundary
