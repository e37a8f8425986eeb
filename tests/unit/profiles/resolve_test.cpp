#include <catch2/catch.hpp>

#include <sys/stat.h>
#include <sys/utsname.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "profiles/profiles.hpp"
#include "unit/profiles/sample.hpp"

using namespace hitchrail;
using namespace hitchrail::profiles;
namespace fs = std::filesystem;

namespace {

class Root {
 public:
  Root() {
    std::string made = (fs::temp_directory_path() / "hitchrail-resolve-XXXXXX").string();
    REQUIRE(::mkdtemp(made.data()) != nullptr);
    path = fs::canonical(made);
  }
  ~Root() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  std::string put(const std::string& name, const std::string& text, bool executable) const {
    const fs::path file = path / name;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
    ::chmod(file.c_str(), executable ? 0755 : 0644);
    return file;
  }

  fs::path path;
};

std::string machine() {
  utsname name{};
  ::uname(&name);
  return name.machine;
}

SupportProfile profile_with(const std::string& command, const std::string& machine_type,
                            const std::string& program = "vendor/*/bin/sample") {
  const std::string rules =
      "  resolve:\n    - package: \"@maker/sample\"\n      script: bin/sample.js\n      programs:\n"
      "        - {machine: " +
      machine_type + ", package: \"@maker/sample-this\", program: \"" + program +
      "\"}\n  packageRoot: {marker: package.marker, levels: 2}\n";
  auto profile =
      parse_profile(test::changed("  command: sample\n", "  command: " + command + "\n" + rules), "f.yaml");
  if (profile.has_error()) {
    FAIL(profile.error().object << " " << profile.error().detail);
  }
  return std::move(profile).value();
}

// An npm installation: the launcher script behind a link, its package, and the platform package in `place`.
void install(const Root& root, const std::string& place) {
  root.put("lib/node_modules/@maker/sample/package.json", R"({"name":"@maker/sample","version":"1.0.0"})",
           false);
  root.put("lib/node_modules/@maker/sample/bin/sample.js", "#!/usr/bin/env node\n", true);
  fs::create_directories(root.path / "bin");
  fs::create_symlink("../lib/node_modules/@maker/sample/bin/sample.js", root.path / "bin/sample");
  root.put(place + "/vendor/some-triple/bin/sample",
           "\x7f"
           "ELF",
           true);
  root.put(place + "/vendor/some-triple/package.marker", "", false);
}

std::string code(const Result<ResolvedExecutable>& result) {
  return result.has_error() ? result.error().code : "ok";
}

}  // namespace

TEST_CASE("npm's launcher is replaced by the platform program, below the package or beside it") {
  for (const std::string place : {"lib/node_modules/@maker/sample/node_modules/@maker/sample-this",
                                  "lib/node_modules/@maker/sample-this", "lib/node_modules/@maker/sample"}) {
    INFO(place);
    const Root root;
    install(root, place);
    const auto resolved = resolve_executable(profile_with("sample", machine()), (root.path / "bin").string());
    REQUIRE(resolved.has_value());
    CHECK(resolved->found == (root.path / "bin/sample").string());
    CHECK(resolved->launcher == (root.path / "lib/node_modules/@maker/sample/bin/sample.js").string());
    CHECK(resolved->program == (root.path / place / "vendor/some-triple/bin/sample").string());
    CHECK(resolved->package_root == (root.path / place / "vendor/some-triple").string());
  }
}

TEST_CASE("a launcher without the program for this machine is refused") {
  const Root root;
  install(root, "lib/node_modules/@maker/sample-other");
  const std::string path = (root.path / "bin").string();
  const auto missing = resolve_executable(profile_with("sample", machine()), path);
  CHECK(code(missing) == "executable-platform-missing");
  CHECK(missing.error().remedy.find("@maker/sample") != std::string::npos);
  CHECK(code(resolve_executable(profile_with("sample", "pdp11"), path)) == "executable-platform-missing");
}

TEST_CASE("a platform program that is not executable does not count") {
  const Root root;
  install(root, "lib/node_modules/@maker/sample-this");
  fs::permissions(root.path / "lib/node_modules/@maker/sample-this/vendor/some-triple/bin/sample",
                  fs::perms::owner_read);
  CHECK(code(resolve_executable(profile_with("sample", machine()), (root.path / "bin").string())) ==
        "executable-platform-missing");
}

TEST_CASE("a script of another package stays what it is") {
  const Root root;
  install(root, "lib/node_modules/@maker/sample-this");
  root.put("lib/node_modules/@maker/sample/package.json", R"({"name":"@other/sample"})", false);
  const auto resolved = resolve_executable(profile_with("sample", machine()), (root.path / "bin").string());
  REQUIRE(resolved.has_value());
  CHECK(resolved->launcher.empty());
  CHECK(resolved->program == (root.path / "lib/node_modules/@maker/sample/bin/sample.js").string());
}

TEST_CASE("a program installed alone is taken as it is, with its package where the marker says so") {
  const Root root;
  root.put("pkg/bin/sample", "", true);
  const SupportProfile profile = profile_with((root.path / "pkg/bin/sample").string(), machine());
  CHECK(resolve_executable(profile, "")->package_root.empty());
  root.put("pkg/package.marker", "", false);
  CHECK(resolve_executable(profile, "")->package_root == (root.path / "pkg").string());
  root.put("package.marker", "", false);
  fs::remove(root.path / "pkg/package.marker");
  CHECK(resolve_executable(profile, "")->package_root.empty());
}

TEST_CASE("the search passes over relative entries, directories and files that are not executable") {
  const Root root;
  fs::create_directories(root.path / "one/sample");
  root.put("two/sample", "", false);
  root.put("three/sample", "", true);
  const SupportProfile profile = profile_with("sample", machine());
  const std::string one = (root.path / "one").string();
  const std::string two = (root.path / "two").string();
  const std::string three = (root.path / "three").string();
  CHECK(resolve_executable(profile, ":.:relative:" + one + ":" + two + ":" + three)->program ==
        three + "/sample");
  CHECK(code(resolve_executable(profile, two)) == "executable-not-executable");
  CHECK(code(resolve_executable(profile, one)) == "executable-not-a-file");
  CHECK(code(resolve_executable(profile, (root.path / "none").string())) == "executable-missing");
  CHECK(code(resolve_executable(profile, "")) == "executable-missing");
  const fs::path before = fs::current_path();
  fs::current_path(three);
  CHECK(code(resolve_executable(profile, ":.:")) == "executable-missing");
  fs::current_path(before);
  CHECK(resolve_executable(profile, "").error().remedy == "Install it.");
}

TEST_CASE("a dangling or circular link is a missing program") {
  const Root root;
  fs::create_directories(root.path / "bin");
  fs::create_symlink("nowhere", root.path / "bin/sample");
  const SupportProfile profile = profile_with("sample", machine());
  CHECK(code(resolve_executable(profile, (root.path / "bin").string())) == "executable-missing");
  fs::remove(root.path / "bin/sample");
  fs::create_symlink("sample", root.path / "bin/sample");
  CHECK(code(resolve_executable(profile, (root.path / "bin").string())) == "executable-missing");
}

TEST_CASE("rules that lead out of a package are refused when the profile is read") {
  for (const std::string program : {"../x", "/bin/sh", "a/../../b", "a//b", "./a", "a/"}) {
    const std::string rules =
        "  resolve:\n    - package: p\n      script: s\n      programs:\n"
        "        - {machine: m, package: q, program: \"" +
        program + "\"}\n";
    const auto profile =
        parse_profile(test::changed("  command: sample\n", "  command: sample\n" + rules), "f.yaml");
    REQUIRE(profile.has_error());
    CHECK(profile.error().object == "f.yaml:14:45");
  }
}
