#include <catch2/catch.hpp>

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "profiles/profiles.hpp"
#include "unit/profiles/sample.hpp"

using namespace hitchrail;
using namespace hitchrail::profiles;
namespace fs = std::filesystem;

namespace {

class Directories {
 public:
  Directories() {
    std::string made = (fs::temp_directory_path() / "hitchrail-find-XXXXXX").string();
    REQUIRE(::mkdtemp(made.data()) != nullptr);
    path = made;
    fs::create_directory(path / "a");
    fs::create_directory(path / "b");
    list = {(path / "a").string(), (path / "b").string(), (path / "none").string()};
  }
  ~Directories() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  void put(const std::string& name, const std::string& text) const { std::ofstream(path / name) << text; }

  fs::path path;
  std::vector<std::string> list;
};

std::string login_profile(const std::string& extra = "") {
  return test::changed(
      "  kind: none\n",
      "  kind: provider-managed\n  loginFile: {source: ~/.sample/auth.json, directoryVariable: "
      "SAMPLE_HOME, homePath: auth.json}\n" +
          extra);
}

}  // namespace

TEST_CASE("profiles are found in order, and broken ones are reported beside them") {
  const Directories dirs;
  dirs.put("a/z.yaml", test::kSample);
  dirs.put("a/broken.yaml", "id: [\n");
  dirs.put("a/notes.txt", "no profile");
  dirs.put("b/other.yaml", test::changed("id: sample\n", "id: other\n"));
  dirs.put("b/again.yaml", test::kSample);
  const auto found = find_profiles(dirs.list);
  REQUIRE(found.has_value());
  REQUIRE(found->size() == 4);
  CHECK(found->at(0).file == dirs.list[0] + "/broken.yaml");
  CHECK(found->at(0).error->code == "yaml-syntax");
  CHECK(found->at(1).profile->id == "sample");
  CHECK(found->at(2).error->code == "profile-duplicate-id");
  CHECK(found->at(2).error->detail.find("a/z.yaml") != std::string::npos);
  CHECK(found->at(3).profile->id == "other");
}

TEST_CASE("an agent is selected by id, by its only adapter or by its only command") {
  const Directories dirs;
  dirs.put("a/one.yaml", test::kSample);
  std::string second = test::changed("id: sample\n", "id: second\n");
  second.replace(second.find("adapterId: sample-adapter"), 25, "adapterId: second-adapter");
  dirs.put("a/two.yaml", second);
  dirs.put("a/broken.yaml", "x: 1\n");
  const auto found = find_profiles(dirs.list);
  CHECK(select_profile(*found, "second")->id == "second");
  CHECK(select_profile(*found, "sample-adapter")->id == "sample");
  CHECK(select_profile(*found, "sample")->id == "sample");
  CHECK(select_profile(*found, "broken").error().code == "yaml-unknown-field");
  for (const std::string wrong : {"", "nobody", "SAMPLE", "sample\x1b[31m"}) {
    const auto none = select_profile(*found, wrong);
    REQUIRE(none.has_error());
    CHECK(none.error().code == "no-such-agent");
    CHECK(none.error().kind == ErrorClass::usage);
    CHECK(none.error().remedy == "the agents known here are: sample, second");
    CHECK(none.error().object.find('\x1b') == std::string::npos);
  }
}

TEST_CASE("an adapter or a command that two profiles have selects neither") {
  const Directories dirs;
  dirs.put("a/one.yaml", test::changed("id: sample\n", "id: first\n"));
  dirs.put("a/two.yaml", test::changed("id: sample\n", "id: second\n"));
  const auto found = find_profiles(dirs.list);
  CHECK(select_profile(*found, "sample-adapter").error().code == "no-such-agent");
  CHECK(select_profile(*found, "sample").error().detail.find("several") == 0);
}

TEST_CASE("a directory that cannot be listed is an error, one that is absent is not") {
  const Directories dirs;
  const std::array<std::string, 1> absent{dirs.list[2]};
  CHECK(find_profiles(absent)->empty());
  dirs.put("file", "");
  const std::array<std::string, 1> file{(dirs.path / "file").string()};
  CHECK(find_profiles(file).error().code == "enotdir");
}

TEST_CASE("the login file is looked for at home or in the directory a variable names") {
  const Directories dirs;
  const auto profile = parse_profile(login_profile(), "f.yaml");
  REQUIRE(profile.has_value());
  const std::string home = dirs.list[0];
  const auto at_home = [&](std::string_view name) -> std::optional<std::string> {
    return name == "HOME" ? std::optional<std::string>(home) : std::nullopt;
  };
  CHECK(find_login_file(*profile, at_home).error().code == "login-missing");
  fs::create_directory(dirs.path / "a/.sample");
  dirs.put("a/.sample/auth.json", "{}");
  auto login = find_login_file(*profile, at_home);
  REQUIRE(login.has_value());
  CHECK((*login)->path == home + "/.sample/auth.json");
  CHECK((*login)->home_path == "auth.json");
  const auto elsewhere = [&](std::string_view name) -> std::optional<std::string> {
    return name == "HOME" ? home : dirs.list[1];
  };
  CHECK(find_login_file(*profile, elsewhere).error().object == dirs.list[1] + "/auth.json");
  dirs.put("b/auth.json", "{}");
  CHECK((*find_login_file(*profile, elsewhere))->path == dirs.list[1] + "/auth.json");
  const auto nothing = [](std::string_view) -> std::optional<std::string> { return std::nullopt; };
  CHECK(find_login_file(*profile, nothing).error().code == "login-missing");
}

TEST_CASE("a login kept in a keyring is refused with the way out") {
  const auto profile = parse_profile(login_profile("  keyringHint: Keep the login in a file.\n"), "f.yaml");
  REQUIRE(profile.has_value());
  const auto login =
      find_login_file(*profile, [](std::string_view) { return std::optional<std::string>("/nonexistent"); });
  REQUIRE(login.has_error());
  CHECK(login.error().code == "login-keyring");
  CHECK(login.error().remedy == "Keep the login in a file.");
}

TEST_CASE("a profile without a login file asks for none") {
  const auto profile = parse_profile(test::kSample, "f.yaml");
  const auto login = find_login_file(*profile, [](std::string_view) { return std::optional<std::string>(); });
  REQUIRE(login.has_value());
  CHECK_FALSE(login->has_value());
}
