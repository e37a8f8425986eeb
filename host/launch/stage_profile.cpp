// Stage `profile`: the support profile the operator named, and its adapter, sealed. Stage `program`: the
// executable that will really run, hashed by content. Change nothing.

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>

#include "core/file.hpp"
#include "core/text.hpp"
#include "launch/pins.hpp"
#include "launch/stages.hpp"

namespace hitchrail::launch {

namespace {

std::string identity_key(const boundary::Executable& executable) {
  const boundary::FileIdentity& id = executable.identity;
  return executable.path + " " + std::to_string(id.dev) + ":" + std::to_string(id.ino) + " " +
         std::to_string(id.size) + " " + std::to_string(id.mtime_ns) + " " + std::to_string(id.ctime_ns);
}

// Content hash of a file of any size in constant memory.
Result<std::string> hash_file(const std::string& path) {
  HR_TRY(fd, open_no_symlinks(AT_FDCWD, path, O_RDONLY));
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  if (!context || EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) != 1) {
    return Error{ErrorClass::internal, "digest-failed", "hash", path, "the digest could not be started", ""};
  }
  std::string buffer(1u << 20, '\0');
  for (;;) {
    const ssize_t count = ::read(fd.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return errno_error("hash", path, errno);
    }
    if (count == 0) {
      break;
    }
    EVP_DigestUpdate(context.get(), buffer.data(), static_cast<std::size_t>(count));
  }
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  EVP_DigestFinal_ex(context.get(), digest, &size);
  return hex_encode({reinterpret_cast<const char*>(digest), size});
}

}  // namespace

Result<ProfileStage> stage_profile(const Ground& ground, const Request& request) {
  std::vector<std::string> folders;
  for (const auto& dir : ground.installation.profile_dirs) {
    folders.push_back(dir + "/harness");
  }
  HR_TRY(found, profiles::find_profiles(folders));
  ProfileStage stage;
  HR_TRY(profile, profiles::select_profile(found, request.agent));
  stage.profile = std::move(profile);
  if (auto blocking = profiles::blocking_error(stage.profile)) {
    return *blocking;
  }
  auto pins = database_pins(ground.home ? &*ground.home : nullptr);
  HR_TRY(plugin, plugins::open_plugin(plugin_dirs(ground.installation), *pins, stage.profile.adapter));
  stage.plugin = std::move(plugin);
  return stage;
}

Result<ProgramStage> stage_program(const Ground& ground, const Request& request,
                                   const ProfileStage& profile) {
  profiles::SupportProfile wanted = profile.profile;
  if (!request.executable.empty()) {
    wanted.command = request.executable;
  }
  const char* path = std::getenv("PATH");
  HR_TRY(resolved,
         profiles::resolve_executable(wanted, path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin"));
  ProgramStage stage;
  stage.found_as = resolved.found;
  HR_TRY(executable, boundary::identify_executable(resolved.program));
  stage.executable = std::move(executable);
  const std::string& package = resolved.package_root.empty() ? resolved.program : resolved.package_root;
  HR_TRY(root, boundary::resolve_root(package, !resolved.package_root.empty()));
  stage.packages.push_back(std::move(root));
  const store::CacheKey key{"executable", stage.executable.path, identity_key(stage.executable)};
  if (auto known = ground.cache.recall(key)) {
    stage.sha256 = known->get("sha256").as_string();
    stage.executable.script = known->get("script").as_bool();
    return stage;
  }
  (void)ground.cache.claim(key);
  HR_CHECK(boundary::read_script_mark(stage.executable));
  HR_TRY(sha256, hash_file(stage.executable.path));
  stage.sha256 = std::move(sha256);
  // The file may have changed while it was read: the hash then belongs to nothing.
  HR_TRY(again, boundary::identify_executable(stage.executable.path));
  if (!(again.identity == stage.executable.identity)) {
    return Error{ErrorClass::environment,
                 "executable-changed",
                 "hash",
                 stage.executable.path,
                 "the program changed while it was read",
                 "try again when its installation has ended"};
  }
  json::Value found = json::Value::object();
  found.set("sha256", stage.sha256);
  found.set("script", stage.executable.script);
  (void)ground.cache.remember(key, std::move(found));
  return stage;
}

}  // namespace hitchrail::launch
