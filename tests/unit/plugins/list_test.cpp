#include "plugins/plugins.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "core/canonical.hpp"
#include "core/file.hpp"
#include "support/scratch.hpp"
#include "zoo.hpp"

namespace {

using namespace hitchrail;
using plugins::PluginState;

class MemoryPins : public plugins::PinStore {
 public:
  Result<std::vector<plugins::Pin>> pins() override { return kept; }
  Status put_pin(const plugins::Pin& pin) override {
    std::erase_if(kept, [&](const plugins::Pin& old) { return old.provider == pin.provider; });
    kept.push_back(pin);
    return {};
  }
  std::vector<plugins::Pin> kept;
};

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The sound adapter's bytes, under another provider id of the same length.
std::string library(const std::string& provider = "echo-c") {
  std::string bytes = read(test::zoo("sound"));
  const std::size_t note = bytes.find(std::string("Hitchrail\0\0\0", 12));
  REQUIRE(note != std::string::npos);
  bytes.replace(note + 20, provider.size(), provider);
  return bytes;
}

// A folder of this installation with a digest list, and a folder of the user.
struct World {
  World() {
    for (const std::string& dir : {system(), user()}) {
      std::filesystem::create_directory(dir);
      ::chmod(dir.c_str(), 0755);
    }
    dirs.system = {system()};
    dirs.user = {user()};
  }
  [[nodiscard]] std::string system() const { return std::string(root.path()) + "/system"; }
  [[nodiscard]] std::string user() const { return std::string(root.path()) + "/user"; }
  static void put(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    ::chmod(path.c_str(), 0644);
  }
  void ship(const std::string& name, const std::string& bytes) {
    put(system() + "/" + name, bytes);
    digests += sha256_prefixed(bytes) + " " + name + "\n";
    put(system() + "/plugins.digests", digests);
  }
  std::vector<plugins::PluginInfo> list() {
    auto out = plugins::list_plugins(dirs, pins);
    REQUIRE(out.has_value());
    return *out;
  }
  plugins::PluginInfo only() {
    const auto all = list();
    REQUIRE(all.size() == 1);
    return all[0];
  }
  test::TempDir root;
  plugins::PluginDirs dirs;
  MemoryPins pins;
  std::string digests;
};

TEST_CASE("a library of the build is enabled by default, with exactly its bytes") {
  World world;
  world.ship("echo-c.so", library());
  const auto info = world.only();
  CHECK(info.state == PluginState::enabled);
  CHECK(info.by_default);
  CHECK(info.provider == "echo-c");
  const auto opened = plugins::open_plugin(world.dirs, world.pins, "echo-c");
  REQUIRE(opened.has_value());
  CHECK(opened->digest == info.digest);
}

TEST_CASE("a library of the build with other bytes than listed is changed and not opened") {
  World world;
  world.ship("echo-c.so", library());
  World::put(world.system() + "/echo-c.so", library() + "x");
  CHECK(world.only().state == PluginState::changed);
  const auto opened = plugins::open_plugin(world.dirs, world.pins, "echo-c");
  REQUIRE(opened.has_error());
  CHECK(opened.error().code == "plugin-changed");
}

TEST_CASE("a digest list outside this installation enables nothing") {
  World world;
  World::put(world.user() + "/echo-c.so", library());
  World::put(world.user() + "/plugins.digests", sha256_prefixed(library()) + " echo-c.so\n");
  CHECK(world.only().state == PluginState::disabled);
}

TEST_CASE("a digest list that others can write is broken and enables nothing") {
  World world;
  world.ship("echo-c.so", library());
  ::chmod((world.system() + "/plugins.digests").c_str(), 0666);
  const auto all = world.list();
  REQUIRE(all.size() == 2);
  CHECK(all[0].state == PluginState::broken);
  CHECK(all[0].error.code == "plugin-path-unsafe");
  CHECK(all[1].state == PluginState::disabled);
}

TEST_CASE("a library of a user is disabled until it is enabled, which pins its digest") {
  World world;
  World::put(world.user() + "/mine.so", library());
  CHECK(world.only().state == PluginState::disabled);
  auto refused = plugins::open_plugin(world.dirs, world.pins, "echo-c");
  REQUIRE(refused.has_error());
  CHECK(refused.error().code == "plugin-disabled");
  CHECK(refused.error().remedy == "hitchrail plugins enable echo-c");

  REQUIRE(plugins::enable_plugin(world.dirs, world.pins, "echo-c").has_value());
  REQUIRE(world.pins.kept.size() == 1);
  CHECK(world.pins.kept[0].digest == sha256_prefixed(library()));
  CHECK(world.only().state == PluginState::enabled);
  CHECK(plugins::open_plugin(world.dirs, world.pins, "echo-c").has_value());
}

TEST_CASE("a library changed after enabling is refused with both digests until enabled again") {
  World world;
  const std::string path = world.user() + "/mine.so";
  World::put(path, library());
  REQUIRE(plugins::enable_plugin(world.dirs, world.pins, path).has_value());
  World::put(path, library() + "tail");
  const auto refused = plugins::open_plugin(world.dirs, world.pins, "echo-c");
  REQUIRE(refused.has_error());
  CHECK(refused.error().code == "plugin-changed");
  CHECK(refused.error().detail.find(sha256_prefixed(library())) != std::string::npos);
  CHECK(refused.error().detail.find(sha256_prefixed(library() + "tail")) != std::string::npos);
  REQUIRE(plugins::enable_plugin(world.dirs, world.pins, "echo-c").has_value());
  CHECK(plugins::open_plugin(world.dirs, world.pins, "echo-c").has_value());
}

TEST_CASE("disable switches a provider off, also one enabled by default, and enable brings it back") {
  World world;
  world.ship("echo-c.so", library());
  REQUIRE(plugins::disable_plugin(world.dirs, world.pins, "echo-c").has_value());
  CHECK(world.only().state == PluginState::disabled);
  CHECK(plugins::open_plugin(world.dirs, world.pins, "echo-c").has_error());
  REQUIRE(plugins::enable_plugin(world.dirs, world.pins, "echo-c").has_value());
  CHECK(world.only().state == PluginState::enabled);
}

TEST_CASE("what is written to the file after opening does not reach the sealed copy") {
  World world;
  const std::string path = world.user() + "/mine.so";
  World::put(path, library());
  REQUIRE(plugins::enable_plugin(world.dirs, world.pins, "echo-c").has_value());
  const auto opened = plugins::open_plugin(world.dirs, world.pins, "echo-c");
  REQUIRE(opened.has_value());
  World::put(path, std::string(library().size(), 'x'));
  std::string sealed(library().size(), '\0');
  REQUIRE(::pread(opened->fd.get(), sealed.data(), sealed.size(), 0) == static_cast<ssize_t>(sealed.size()));
  CHECK(sealed == library());
  CHECK(::pwrite(opened->fd.get(), "y", 1, 0) == -1);
  CHECK(::ftruncate(opened->fd.get(), 0) == -1);
  const int seals = ::fcntl(opened->fd.get(), F_GET_SEALS);
  CHECK((seals & (F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL)) ==
        (F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL));
}

TEST_CASE("a broken library is listed with the reason and the others go on") {
  World world;
  world.ship("echo-c.so", library());
  World::put(world.user() + "/text.so", "not a library\n");
  World::put(world.user() + "/empty.so", "");
  World::put(world.user() + "/cut.so", library().substr(0, 300));
  std::filesystem::create_symlink(world.system() + "/echo-c.so", world.user() + "/link.so");
  World::put(world.user() + "/README", "not looked at");
  const auto all = world.list();
  REQUIRE(all.size() == 5);
  std::size_t broken = 0;
  for (const auto& info : all) {
    INFO(info.path);
    if (info.state == PluginState::broken) {
      ++broken;
      CHECK_FALSE(info.error.code.empty());
      CHECK_FALSE(info.error.detail.empty());
      CHECK_FALSE(info.provider.empty());
    }
  }
  CHECK(broken == 4);
  CHECK(plugins::open_plugin(world.dirs, world.pins, "echo-c").has_value());
}

TEST_CASE("a library that the build lists and that is gone is listed as broken") {
  World world;
  world.ship("echo-c.so", library());
  std::filesystem::remove(world.system() + "/echo-c.so");
  const auto info = world.only();
  CHECK(info.state == PluginState::broken);
  CHECK(info.error.code == "plugin-not-found");
}

TEST_CASE("a folder that others can write is one broken entry, an absent one is none") {
  World world;
  World::put(world.user() + "/mine.so", library());
  ::chmod(world.user().c_str(), 0777);
  CHECK(world.only().error.code == "plugin-path-unsafe");
  world.dirs.user = {std::string(world.root.path()) + "/none"};
  CHECK(world.list().empty());
}

TEST_CASE("two libraries of one provider: the pinned one runs, a name alone is ambiguous") {
  World world;
  world.ship("echo-c.so", library());
  World::put(world.user() + "/mine.so", library() + "newer");
  const auto ambiguous = plugins::enable_plugin(world.dirs, world.pins, "echo-c");
  REQUIRE(ambiguous.has_error());
  CHECK(ambiguous.error().code == "plugin-ambiguous");
  CHECK(plugins::open_plugin(world.dirs, world.pins, "echo-c")->path == world.system() + "/echo-c.so");
  REQUIRE(plugins::enable_plugin(world.dirs, world.pins, world.user() + "/mine.so").has_value());
  CHECK(plugins::open_plugin(world.dirs, world.pins, "echo-c")->path == world.user() + "/mine.so");
  const auto all = world.list();
  REQUIRE(all.size() == 2);
  CHECK(all[0].state == PluginState::disabled);
  CHECK(all[1].state == PluginState::enabled);
}

TEST_CASE("an unknown provider and a broken library are not enabled") {
  World world;
  World::put(world.user() + "/text.so", "no");
  CHECK(plugins::enable_plugin(world.dirs, world.pins, "nobody").error().code == "plugin-not-found");
  CHECK(plugins::enable_plugin(world.dirs, world.pins, "text").error().code == "plugin-not-elf");
  CHECK(world.pins.kept.empty());
}

TEST_CASE("a library over 64 MiB is refused") {
  World world;
  World::put(world.user() + "/large.so", "");
  REQUIRE(::truncate((world.user() + "/large.so").c_str(), (64L << 20) + 1) == 0);
  CHECK(world.only().error.code == "plugin-too-large");
}

TEST_CASE("the build's own plugins are enabled by the build's list") {
  MemoryPins pins;
  plugins::PluginDirs dirs;
  dirs.system = {HITCHRAIL_BINARY_DIR "/plugins"};
  const auto all = plugins::list_plugins(dirs, pins);
  REQUIRE(all.has_value());
  CHECK_FALSE(all->empty());
  for (const auto& info : *all) {
    INFO(info.path << " " << info.error.detail);
    CHECK(info.state == PluginState::enabled);
    CHECK(info.by_default);
  }
}

}  // namespace
