#include "launch/presets.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "core/file.hpp"
#include "core/ids.hpp"

namespace hitchrail::launch {
namespace {

constexpr std::size_t max_preset_bytes = 1u << 20;
constexpr std::size_t max_presets = 256;

Error preset_error(std::string code, const std::string& object, std::string detail, std::string remedy = "",
                   ErrorClass kind = ErrorClass::refused) {
  return Error{kind,   std::move(code),   "choose the sandbox preset",
               object, std::move(detail), std::move(remedy)};
}

std::string builtin_folder(const Installation& installation) {
  return installation.builtin_profile_dir + "/sandbox";
}

// Names of *.yaml of a folder without the ending, sorted; none when there is no folder.
Result<std::vector<std::string>> names_in(const std::string& folder) {
  std::vector<std::string> names;
  Fd directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) {
    return errno == ENOENT || errno == ENOTDIR ? Result<std::vector<std::string>>(names)
                                               : errno_error("list presets", folder, errno);
  }
  HR_TRY(entries, list_directory(directory.get()));
  for (const std::string& entry : entries) {
    if (entry.size() > 5 && entry.ends_with(".yaml") && entry[0] != '.') {
      names.push_back(entry.substr(0, entry.size() - 5));
    }
  }
  if (names.size() > max_presets) {
    return preset_error("preset-limit", folder, "It holds more than 256 presets.",
                        "Remove what is not used.");
  }
  return names;
}

bool is_builtin(const Installation& installation, const std::string& id) {
  const auto names = names_in(builtin_folder(installation));
  return names.has_value() &&
         std::find(names.value().begin(), names.value().end(), id) != names.value().end();
}

// Whoever can write the file decides what a run may do.
Status trusted_file(const std::string& path) {
  struct stat file {};
  struct stat folder {};
  const std::string parent = path.substr(0, std::max<std::size_t>(path.rfind('/'), 1));
  if (::lstat(path.c_str(), &file) != 0 || ::stat(parent.c_str(), &folder) != 0) {
    return errno_error("look at preset", path, errno);
  }
  for (const struct stat* each : {&file, &folder}) {
    const bool ours = each->st_uid == ::geteuid() || each->st_uid == 0;
    if (!ours || (each->st_mode & 0022) != 0) {
      return preset_error("preset-unsafe", path, "Others own or may write it.",
                          "chown it to yourself and chmod go-w it and its folder.");
    }
  }
  if (!S_ISREG(file.st_mode)) {
    return preset_error("preset-unsafe", path, "It is no regular file.", "Replace it by the file itself.");
  }
  return {};
}

Result<std::optional<store::Store>> open_store(const store::StateHome* home) {
  if (home == nullptr) {
    return std::optional<store::Store>{};
  }
  HR_TRY(opened, store::Store::open(*home, store::Access::read));
  return std::optional<store::Store>(std::move(opened));
}

PresetInfo look_at(const std::string& path, const std::string& name, bool builtin, store::Store* store,
                   const Installation& installation) {
  PresetInfo info;
  info.id = name;
  info.path = path;
  const auto broken = [&](Error error) {
    info.state = PresetState::broken;
    info.error = std::move(error);
    return info;
  };
  if (store != nullptr) {
    auto record = store->preset(name);
    if (record.has_error()) {
      return broken(record.error());
    }
    info.record = record.value();
  }
  if (!builtin) {
    if (is_builtin(installation, name)) {
      return broken(preset_error("preset-builtin", path, "'" + name + "' is the id of a built-in preset.",
                                 "Give it another id, and its file that name."));
    }
    if (auto trusted = trusted_file(path); trusted.has_error()) {
      return broken(trusted.error());
    }
  }
  auto preset = boundary::load_preset(path);
  if (preset.has_error()) {
    return broken(preset.error());
  }
  if (preset.value().id != name) {
    return broken(preset_error("preset-name", path, "Its id is '" + preset.value().id + "'.",
                               "Name the file " + preset.value().id + ".yaml."));
  }
  info.preset = std::move(preset).value();
  info.preset->built_in = builtin;
  if (info.record && !info.record->enabled) {
    info.state = PresetState::disabled;
    info.error =
        preset_error("preset-disabled", name, "It was disabled.", "hitchrail sandbox presets enable " + name);
  } else if (builtin) {
    info.state = PresetState::built_in;
  } else if (!info.record) {
    info.state = PresetState::unrecorded;
    info.error = preset_error("preset-unrecorded", path, "Nobody has added this preset yet.",
                              "Look at it, then: hitchrail sandbox presets add " + path);
  } else if (info.record->digest != info.preset->digest) {
    info.state = PresetState::changed;
    info.error = preset_error("preset-changed", path, "It is another one than was added.",
                              "Look at it, then: hitchrail sandbox presets add " + path);
  } else {
    info.state = PresetState::recorded;
  }
  return info;
}

// Folders of the operator's own presets, in search order.
std::vector<std::string> operator_folders(const Installation& installation) {
  std::vector<std::string> folders;
  for (const std::string& dir : installation.profile_dirs) {
    if (dir != installation.builtin_profile_dir) {
      folders.push_back(dir + "/sandbox");
    }
  }
  return folders;
}

bool exists(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0;
}

Result<PresetInfo> locate(const Installation& installation, store::Store* store, const std::string& name) {
  if (name.find('/') != std::string::npos) {
    const std::string file = name.substr(name.rfind('/') + 1);
    const std::string id = file.ends_with(".yaml") ? file.substr(0, file.size() - 5) : file;
    if (!exists(name)) {
      return preset_error("preset-not-found", name, "There is no such file.",
                          "hitchrail sandbox presets list", ErrorClass::usage);
    }
    return look_at(name, id, false, store, installation);
  }
  // An operator's file that calls itself like a built-in is refused, never passed over in silence.
  for (const std::string& folder : operator_folders(installation)) {
    const std::string path = folder + "/" + name + ".yaml";
    if (exists(path)) {
      return look_at(path, name, false, store, installation);
    }
  }
  const std::string path = builtin_folder(installation) + "/" + name + ".yaml";
  if (!name.empty() && exists(path)) {
    return look_at(path, name, true, store, installation);
  }
  return preset_error("preset-not-found", name, "No profile folder has sandbox/" + name + ".yaml.",
                      "hitchrail sandbox presets list", ErrorClass::usage);
}

store::PresetDecision decision_of(const boundary::Preset& preset, std::string action, std::string run) {
  const Person person = current_person();
  return {preset.id,
          preset.digest,
          preset.enforcement == boundary::Enforcement::required ? "required" : "advisory",
          std::move(action),
          person.uid,
          person.user,
          unix_millis_now(),
          std::move(run)};
}

// The configuration's own copy: what was looked at is what will be used.
Result<std::string> keep(const Installation& installation, const std::string& id, const std::string& bytes) {
  if (installation.config_dir.empty()) {
    return preset_error("configuration-unset", id, "There is no configuration directory.",
                        "Set HOME or HITCHRAIL_CONFIG.", ErrorClass::environment);
  }
  std::string folder = installation.config_dir;
  for (const char* name : {"", "/profiles", "/sandbox"}) {
    folder += name;
    if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) {
      return errno_error("make configuration directory", folder, errno);
    }
  }
  Fd directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) {
    return errno_error("open configuration directory", folder, errno);
  }
  HR_CHECK(write_file_atomic(directory.get(), id + ".yaml", bytes, 0644));
  return folder + "/" + id + ".yaml";
}

}  // namespace

const char* state_name(PresetState state) {
  switch (state) {
    case PresetState::built_in:
      return "built-in";
    case PresetState::recorded:
      return "added";
    case PresetState::unrecorded:
      return "not-added";
    case PresetState::changed:
      return "changed";
    case PresetState::disabled:
      return "disabled";
    case PresetState::broken:
      break;
  }
  return "broken";
}

Person current_person() {
  Person person;
  person.uid = ::getuid();
  Fd file(::open("/etc/passwd", O_RDONLY | O_CLOEXEC));
  auto text = file ? read_all(file.get(), max_preset_bytes) : Result<std::string>(std::string());
  if (text.has_error()) {
    return person;
  }
  const std::string& all = text.value();
  for (std::size_t start = 0; start < all.size();) {
    const std::size_t end = std::min(all.find('\n', start), all.size());
    const std::string line = all.substr(start, end - start);
    const std::size_t name = line.find(':');
    const std::size_t password = name == std::string::npos ? name : line.find(':', name + 1);
    if (password != std::string::npos &&
        line.compare(password + 1, line.find(':', password + 1) - password - 1, std::to_string(person.uid)) ==
            0) {
      person.user = line.substr(0, name);
      return person;
    }
    start = end + 1;
  }
  return person;
}

Result<std::vector<PresetInfo>> list_presets(const Installation& installation, const store::StateHome* home) {
  HR_TRY(opened, open_store(home));
  store::Store* store = opened ? &*opened : nullptr;
  std::vector<PresetInfo> all;
  HR_TRY(builtins, names_in(builtin_folder(installation)));
  for (const std::string& name : builtins) {
    all.push_back(
        look_at(builtin_folder(installation) + "/" + name + ".yaml", name, true, store, installation));
  }
  std::vector<std::string> seen;
  for (const std::string& folder : operator_folders(installation)) {
    HR_TRY(names, names_in(folder));
    for (const std::string& name : names) {
      if (std::find(seen.begin(), seen.end(), name) == seen.end()) {
        seen.push_back(name);
        all.push_back(look_at(folder + "/" + name + ".yaml", name, false, store, installation));
      }
    }
  }
  return all;
}

Result<PresetInfo> find_preset(const Installation& installation, const store::StateHome* home,
                               const std::string& name) {
  HR_TRY(opened, open_store(home));
  HR_TRY(info, locate(installation, opened ? &*opened : nullptr, name));
  if (info.error) {
    return *info.error;
  }
  return info;
}

Result<PresetHistory> show_preset(const Installation& installation, const store::StateHome* home,
                                  const std::string& name) {
  HR_TRY(opened, open_store(home));
  PresetHistory history;
  HR_TRY(info, locate(installation, opened ? &*opened : nullptr, name));
  history.info = std::move(info);
  if (opened) {
    HR_TRY(decisions, opened->preset_decisions(history.info.id));
    history.decisions = std::move(decisions);
  }
  return history;
}

Result<PresetInfo> add_preset(const Installation& installation, const std::string& path) {
  HR_CHECK(trusted_file(path));
  Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  if (!file) {
    return errno_error("open preset", path, errno);
  }
  HR_TRY(bytes, read_all(file.get(), max_preset_bytes));
  HR_TRY(preset, boundary::parse_preset(bytes, path));
  if (is_builtin(installation, preset.id)) {
    return preset_error("preset-builtin", path, "'" + preset.id + "' is the id of a built-in preset.",
                        "Give it another id.");
  }
  HR_TRY(home, store::StateHome::open(store::Access::write));
  HR_TRY(database, store::Store::open(home));
  HR_TRY(seen, database.preset(preset.id));
  HR_TRY(kept, keep(installation, preset.id, bytes));
  store::PresetRecord record;
  record.id = preset.id;
  record.path = kept;
  record.digest = preset.digest;
  record.enforcement = preset.enforcement == boundary::Enforcement::required ? "required" : "advisory";
  record.enabled = true;
  record.changed_unix_ms = unix_millis_now();
  HR_CHECK(database.set_preset(record, seen, decision_of(preset, seen ? "changed" : "added", "")));
  PresetInfo info;
  info.id = preset.id;
  info.path = kept;
  info.state = PresetState::recorded;
  info.preset = std::move(preset);
  info.record = std::move(record);
  return info;
}

Result<PresetInfo> enable_preset(const Installation& installation, const std::string& id, bool enabled) {
  auto existing = store::StateHome::open(store::Access::read);
  HR_TRY(seen, open_store(existing.has_value() ? &existing.value() : nullptr));
  HR_TRY(info, locate(installation, seen ? &*seen : nullptr, id));
  seen.reset();
  const bool known = info.preset && (info.preset->built_in || info.record);
  if (!known ||
      (enabled && info.record && info.record->digest != info.preset->digest && !info.preset->built_in)) {
    // Enabling brings back what was added, never what the file has become since.
    return info.error && info.state != PresetState::disabled
               ? *info.error
               : preset_error("preset-changed", info.path, "It is another one than was added.",
                              "Look at it, then: hitchrail sandbox presets add " + info.path);
  }
  store::PresetRecord record;
  record.id = info.id;
  record.path = info.path;
  record.digest = info.record && !info.preset->built_in ? info.record->digest : info.preset->digest;
  record.enforcement = info.preset->enforcement == boundary::Enforcement::required ? "required" : "advisory";
  record.enabled = enabled;
  record.changed_unix_ms = unix_millis_now();
  HR_TRY(home, store::StateHome::open(store::Access::write));
  HR_TRY(database, store::Store::open(home));
  HR_CHECK(database.set_preset(record, info.record,
                               decision_of(*info.preset, enabled ? "enabled" : "disabled", "")));
  info.record = record;
  info.error.reset();
  info.state = !enabled                ? PresetState::disabled
               : info.preset->built_in ? PresetState::built_in
                                       : PresetState::recorded;
  return info;
}

Status record_selection(store::Store& store, const PresetInfo& info, const std::string& run) {
  if (!info.preset ||
      (info.preset->built_in && info.preset->enforcement == boundary::Enforcement::required)) {
    return {};
  }
  return store.add_preset_decision(decision_of(*info.preset, "selected", run));
}

}  // namespace hitchrail::launch
