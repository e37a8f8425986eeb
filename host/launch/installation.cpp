#include "launch/installation.hpp"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace hitchrail::launch {

namespace {

bool is_file(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

std::string own_directory() {
  char buffer[PATH_MAX];
  const ssize_t size = ::readlink("/proc/self/exe", buffer, sizeof buffer);
  if (size <= 0 || static_cast<std::size_t>(size) >= sizeof buffer) {
    return "";
  }
  std::string path(buffer, static_cast<std::size_t>(size));
  return path.substr(0, path.rfind('/'));
}

std::string absolute_env(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value == '/' ? value : "";
}

}  // namespace

std::string home_directory() {
  // The password database is not asked: resolving it loads foreign name services into this process.
  return absolute_env("HOME");
}

Result<Installation> find_installation(const ExtraDirs& extra) {
  const std::string bin = own_directory();
  const std::string prefix = bin.substr(0, bin.rfind('/'));
  Installation found;
  if (is_file(bin + "/hitchrail-shim")) {
    found.program_dir = bin;
    found.builtin_plugin_dir = prefix + "/plugins";
    found.builtin_profile_dir = prefix + "/profiles";
  } else if (is_file(prefix + "/libexec/hitchrail/hitchrail-shim")) {
    found.program_dir = prefix + "/libexec/hitchrail";
    found.builtin_plugin_dir = prefix + "/lib/hitchrail/plugins";
    found.builtin_profile_dir = prefix + "/share/hitchrail/profiles";
  } else {
    return Error{ErrorClass::environment,
                 "installation-incomplete",
                 "find the programs of a run",
                 bin,
                 "hitchrail-shim is neither beside this program nor in ../libexec/hitchrail",
                 "install again with: cmake --install build/release"};
  }
  found.config_dir = absolute_env("HITCHRAIL_CONFIG");
  if (found.config_dir.empty()) {
    const std::string xdg = absolute_env("XDG_CONFIG_HOME");
    const std::string home = home_directory();
    if (!xdg.empty()) {
      found.config_dir = xdg + "/hitchrail";
    } else if (!home.empty()) {
      found.config_dir = home + "/.config/hitchrail";
    }
  }
  found.plugin_dirs = extra.plugins;
  found.profile_dirs = extra.profiles;
  if (!found.config_dir.empty()) {
    found.plugin_dirs.push_back(found.config_dir + "/plugins");
    found.profile_dirs.push_back(found.config_dir + "/profiles");
  }
  found.plugin_dirs.push_back(found.builtin_plugin_dir);
  found.profile_dirs.push_back(found.builtin_profile_dir);
  return found;
}

Result<Fd> open_program(const Installation& installation, const std::string& name) {
  const std::string path = installation.program_dir + "/" + name;
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    Error error = errno_error("open", path, errno);
    error.code = "installation-incomplete";
    error.kind = ErrorClass::environment;
    error.remedy = "install again with: cmake --install build/release";
    return error;
  }
  return fd;
}

}  // namespace hitchrail::launch
