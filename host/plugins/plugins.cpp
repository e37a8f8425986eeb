#include "plugins/plugins.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>

#include "core/canonical.hpp"
#include "core/file.hpp"
#include "plugins/trusted_path.hpp"

namespace hitchrail::plugins {
namespace {

constexpr std::size_t max_library = 64u << 20;
constexpr std::size_t max_digest_list = 1u << 20;
constexpr std::string_view digest_list_name = "plugins.digests";
constexpr std::string_view library_suffix = ".so";

Error refused(std::string code, std::string operation, std::string object, std::string detail,
              std::string remedy) {
  return {ErrorClass::refused, std::move(code),   std::move(operation),
          std::move(object),   std::move(detail), std::move(remedy)};
}

class Mapping {
 public:
  static Result<Mapping> of(int fd, const std::string& name) {
    struct stat status {};
    if (::fstat(fd, &status) != 0) {
      return errno_error("stat plugin", name, errno);
    }
    Mapping out;
    out.size_ = static_cast<std::size_t>(status.st_size);
    if (out.size_ != 0) {
      out.data_ = ::mmap(nullptr, out.size_, PROT_READ, MAP_PRIVATE, fd, 0);
      if (out.data_ == MAP_FAILED) {
        return errno_error("map plugin", name, errno);
      }
    }
    return out;
  }
  Mapping(Mapping&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping() {
    if (data_ != nullptr) {
      ::munmap(data_, size_);
    }
  }
  [[nodiscard]] std::string_view bytes() const {
    return {static_cast<const char*>(data_), data_ == nullptr ? 0 : size_};
  }

 private:
  Mapping() = default;
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

// What one file turned out to be: digest as soon as its bytes are sealed, then the library or the reason it
// is broken.
struct Judged {
  std::string digest;
  Fd fd;
  Result<ElfReport> elf = ElfReport{};
};

Judged seal_and_judge(const Result<Fd>& opened, const std::string& path) {
  Judged out;
  if (opened.has_error()) {
    out.elf = opened.error();
    return out;
  }
  auto sealed = sealed_copy("hitchrail-adapter", opened->get(), max_library);
  if (sealed.has_error()) {
    out.elf = sealed.error().code == "file-too-large"
                  ? refused("plugin-too-large", "read plugin", path,
                            "found more than 64 MiB; supported are at most 64 MiB", "Strip the library.")
                  : sealed.error();
    return out;
  }
  auto mapping = Mapping::of(sealed->get(), path);
  if (mapping.has_error()) {
    out.elf = mapping.error();
    return out;
  }
  out.digest = sha256_prefixed(mapping->bytes());
  out.fd = std::move(*sealed);
  out.elf = inspect_adapter(mapping->bytes(), path);
  return out;
}

// ---- the build's digest list
// ----------------------------------------------------------------------------------------

using DigestList = std::map<std::string, std::string>;  // file name -> digest

Result<DigestList> parse_digest_list(std::string_view text, const std::string& path) {
  DigestList out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t space = line.find(' ');
    constexpr std::size_t digest_size = 7 + 64;
    if (space != digest_size || line.substr(0, 7) != "sha256:" || line.size() == space + 1 ||
        line.find('/') != std::string_view::npos) {
      return refused("plugin-digest-list-invalid", "read digest list", path,
                     "found a line that is not \"sha256:<64 hex> name.so\"", "Install Hitchrail again.");
    }
    out.emplace(line.substr(space + 1), line.substr(0, space));
  }
  return out;
}

Result<DigestList> read_digest_list(int dirfd, const std::string& dir) {
  const std::string path = dir + "/" + std::string(digest_list_name);
  auto file = open_trusted_at(dirfd, std::string(digest_list_name), path, TrustedKind::file);
  if (file.has_error()) {
    if (file.error().code == "enoent") {
      return DigestList{};
    }
    return file.error();
  }
  HR_TRY(text, read_all(file->get(), max_digest_list));
  return parse_digest_list(text, path);
}

// ---- listing
// ----------------------------------------------------------------------------------------------------------

struct Candidate {
  PluginInfo info;
  Fd fd;
  ElfReport elf;
  std::string default_digest;  // of the build's list; empty when it does not name this file
};

bool is_library(const std::string& name) {
  return name.size() > library_suffix.size() && name.ends_with(library_suffix);
}

Candidate broken(std::string path, std::string provider, Error error) {
  Candidate out;
  out.info.path = std::move(path);
  out.info.provider = std::move(provider);
  out.info.state = PluginState::broken;
  out.info.error = std::move(error);
  return out;
}

Candidate candidate(int dirfd, const std::string& dir, const std::string& name) {
  Candidate out;
  out.info.path = dir + "/" + name;
  out.info.provider = name.substr(0, name.size() - library_suffix.size());
  Judged judged =
      seal_and_judge(open_trusted_at(dirfd, name, out.info.path, TrustedKind::file), out.info.path);
  out.info.digest = judged.digest;
  if (judged.elf.has_error()) {
    out.info.state = PluginState::broken;
    out.info.error = judged.elf.error();
    return out;
  }
  out.elf = std::move(*judged.elf);
  out.fd = std::move(judged.fd);
  out.info.provider = out.elf.note.provider_id;
  out.info.abi_major = out.elf.note.abi_major;
  out.info.abi_minor = out.elf.note.abi_minor;
  out.info.sdk_version = out.elf.note.sdk_version;
  out.info.state = PluginState::disabled;
  return out;
}

// A folder that is not there has no plugins; one that may not be trusted is one broken entry.
void collect(const std::string& dir, bool system, std::vector<Candidate>& out) {
  auto opened = open_trusted(dir, TrustedKind::directory);
  if (opened.has_error()) {
    if (opened.error().code != "enoent") {
      out.push_back(broken(dir, "", opened.error()));
    }
    return;
  }
  auto names = list_directory(opened->get());
  if (names.has_error()) {
    out.push_back(broken(dir, "", names.error()));
    return;
  }
  DigestList defaults;
  if (system) {
    auto list = read_digest_list(opened->get(), dir);
    if (list.has_error()) {
      out.push_back(broken(dir + "/" + std::string(digest_list_name), "", list.error()));
    } else {
      defaults = std::move(*list);
    }
  }
  for (const std::string& name : *names) {
    if (!is_library(name)) {
      continue;
    }
    out.push_back(candidate(opened->get(), dir, name));
    if (const auto entry = defaults.find(name); entry != defaults.end()) {
      out.back().default_digest = entry->second;
      defaults.erase(entry);
    }
  }
  for (const auto& [name, digest] : defaults) {
    out.push_back(broken(
        dir + "/" + name, name.substr(0, name.size() - library_suffix.size()),
        refused("plugin-not-found", "read plugin", dir + "/" + name,
                "found no such file; the digest list of this build names it", "Install Hitchrail again.")));
  }
}

void mark_changed(PluginInfo& info, const std::string& pinned) {
  info.state = PluginState::changed;
  info.error =
      refused("plugin-changed", "open plugin", info.path, "found " + info.digest + "; enabled was " + pinned,
              "Look at the new library, then: hitchrail plugins enable " + info.provider);
}

void decide(std::vector<Candidate>& all, const std::vector<Pin>& pins) {
  for (Candidate& one : all) {
    PluginInfo& info = one.info;
    if (info.state == PluginState::broken) {
      continue;
    }
    const auto pin =
        std::find_if(pins.begin(), pins.end(), [&](const Pin& p) { return p.provider == info.provider; });
    if (pin == pins.end()) {
      if (one.default_digest == info.digest) {
        info.state = PluginState::enabled;
        info.by_default = true;
      } else if (!one.default_digest.empty()) {
        mark_changed(info, one.default_digest);
      }
      continue;
    }
    if (!pin->enabled) {
      continue;
    }
    if (pin->digest == info.digest) {
      info.state = PluginState::enabled;
    } else if (pin->path == info.path) {
      mark_changed(info, pin->digest);
    }
  }
}

Result<std::vector<Candidate>> survey(const PluginDirs& dirs, PinStore& pins) {
  HR_TRY(pinned, pins.pins());
  std::vector<Candidate> all;
  for (const std::string& dir : dirs.system) {
    collect(dir, true, all);
  }
  for (const std::string& dir : dirs.user) {
    collect(dir, false, all);
  }
  decide(all, pinned);
  std::stable_sort(all.begin(), all.end(),
                   [](const Candidate& a, const Candidate& b) { return a.info.provider < b.info.provider; });
  return all;
}

Error not_found(std::string_view what) {
  return refused("plugin-not-found", "find plugin", std::string(what),
                 "no library of this name in the plugin folders",
                 "See `hitchrail plugins list`; put the library into one of the folders it names.");
}

// The one candidate `what` means: a path, or a provider id that one library has.
Result<std::size_t> pick(const std::vector<Candidate>& all, std::string_view what) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].info.path == what || all[i].info.provider == what) {
      found.push_back(i);
    }
  }
  if (found.empty()) {
    return not_found(what);
  }
  if (found.size() > 1) {
    std::string paths;
    for (const std::size_t i : found) {
      paths += (paths.empty() ? "" : ", ") + all[i].info.path;
    }
    return refused("plugin-ambiguous", "find plugin", std::string(what),
                   "several libraries are meant: " + paths, "Name one by its path.");
  }
  return found.front();
}

}  // namespace

std::string_view state_name(PluginState state) {
  static constexpr std::array<std::string_view, 4> names = {"enabled", "disabled", "changed", "broken"};
  return names[static_cast<std::size_t>(state)];
}

Result<std::vector<PluginInfo>> list_plugins(const PluginDirs& dirs, PinStore& pins) {
  HR_TRY(all, survey(dirs, pins));
  std::vector<PluginInfo> out;
  out.reserve(all.size());
  for (Candidate& one : all) {
    out.push_back(std::move(one.info));
  }
  return out;
}

Result<SealedPlugin> open_plugin(const PluginDirs& dirs, PinStore& pins, std::string_view provider) {
  HR_TRY(all, survey(dirs, pins));
  const Candidate* other = nullptr;
  for (Candidate& one : all) {
    if (one.info.provider != provider) {
      continue;
    }
    if (one.info.state == PluginState::enabled) {
      return SealedPlugin{std::move(one.fd), one.info.path, one.info.digest, std::move(one.elf)};
    }
    // The most telling reason: changed, broken, then disabled.
    if (other == nullptr || other->info.state == PluginState::disabled) {
      other = &one;
    }
  }
  if (other == nullptr) {
    // A folder that could not be looked into may be the reason: its own error says more.
    for (const Candidate& one : all) {
      if (std::find(dirs.user.begin(), dirs.user.end(), one.info.path) != dirs.user.end() ||
          std::find(dirs.system.begin(), dirs.system.end(), one.info.path) != dirs.system.end()) {
        return one.info.error;
      }
    }
    return not_found(provider);
  }
  if (other->info.state == PluginState::disabled) {
    return refused("plugin-disabled", "open plugin", other->info.path, "this adapter is not enabled",
                   "hitchrail plugins enable " + std::string(provider));
  }
  return other->info.error;
}

Result<SealedPlugin> seal_plugin_file(const std::string& path) {
  Judged judged = seal_and_judge(open_trusted(path, TrustedKind::file), path);
  if (judged.elf.has_error()) {
    return judged.elf.error();
  }
  return SealedPlugin{std::move(judged.fd), path, judged.digest, std::move(*judged.elf)};
}

Result<PluginInfo> enable_plugin(const PluginDirs& dirs, PinStore& pins, std::string_view what) {
  HR_TRY(all, survey(dirs, pins));
  HR_TRY(index, pick(all, what));
  PluginInfo info = std::move(all[index].info);
  if (info.state == PluginState::broken) {
    return info.error;
  }
  HR_CHECK(pins.put_pin({info.provider, info.path, info.digest, true}));
  info.state = PluginState::enabled;
  info.by_default = false;
  info.error = {};
  return info;
}

Result<PluginInfo> disable_plugin(const PluginDirs& dirs, PinStore& pins, std::string_view what) {
  HR_TRY(all, survey(dirs, pins));
  // A provider is switched off as a whole, also when several libraries or none of them can be read.
  const auto named = [&](const Candidate& one) { return one.info.provider == what || one.info.path == what; };
  const auto found = std::find_if(all.begin(), all.end(), named);
  if (found == all.end()) {
    return not_found(what);
  }
  PluginInfo info = std::move(found->info);
  HR_CHECK(pins.put_pin({info.provider, info.path, info.digest, false}));
  if (info.state != PluginState::broken) {
    info.state = PluginState::disabled;
    info.by_default = false;
    info.error = {};
  }
  return info;
}

}  // namespace hitchrail::plugins
