#include "launch/pins.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <optional>

#include "core/ids.hpp"
#include "store/store.hpp"

namespace hitchrail::launch {

namespace {

class DatabasePins : public plugins::PinStore {
 public:
  explicit DatabasePins(const store::StateHome* home) : home_(home) {}

  Result<std::vector<plugins::Pin>> pins() override {
    std::vector<plugins::Pin> pins;
    struct stat status {};
    if (home_ == nullptr || ::fstatat(home_->fd(), "hitchrail.db", &status, AT_SYMLINK_NOFOLLOW) != 0) {
      return pins;
    }
    HR_TRY(database, store::Store::open(*home_));
    HR_TRY(rows, database.plugin_pins());
    for (const auto& row : rows) {
      pins.push_back({row.provider_id, row.path, row.digest, row.enabled});
    }
    return pins;
  }

  Status put_pin(const plugins::Pin& pin) override {
    if (home_ == nullptr) {
      return Error{ErrorClass::internal, "state-directory-absent", "pin",
                   pin.provider,         "no state home is open",  ""};
    }
    HR_TRY(database, store::Store::open(*home_));
    HR_TRY(before, database.plugin_pin(pin.provider));
    std::optional<std::string> expected;
    if (before) {
      expected = before->digest;
    }
    store::PluginPin row;
    row.provider_id = pin.provider;
    row.path = pin.path;
    row.digest = pin.digest;
    row.enabled = pin.enabled;
    row.changed_unix_ms = unix_millis_now();
    return database.set_plugin_pin(row, expected);
  }

 private:
  const store::StateHome* home_;
};

}  // namespace

plugins::PluginDirs plugin_dirs(const Installation& installation) {
  plugins::PluginDirs dirs;
  for (const auto& dir : installation.plugin_dirs) {
    (dir == installation.builtin_plugin_dir ? dirs.system : dirs.user).push_back(dir);
  }
  return dirs;
}

std::unique_ptr<plugins::PinStore> database_pins(const store::StateHome* home) {
  return std::make_unique<DatabasePins>(home);
}

}  // namespace hitchrail::launch
