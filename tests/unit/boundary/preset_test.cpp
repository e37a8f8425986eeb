#include "boundary/preset.hpp"

#include <catch2/catch.hpp>

using namespace hitchrail;
using namespace hitchrail::boundary;

namespace {

const std::string good =
    "schemaVersion: sandbox-preset/v1\n"
    "id: mine\n"
    "name: Mine\n"
    "enforcement: required\n"
    "requiredCapabilities: [filesystem.read]\n"
    "filesystem:\n"
    "  writePaths: [\"<workspace>\"]\n"
    "network: none\n";

std::string code_of(const std::string& text) {
  auto preset = parse_preset(text, "mine.yaml");
  return preset.has_error() ? preset.error().code : "";
}
std::string changed(const std::string& from, const std::string& to) {
  std::string text = good;
  text.replace(text.find(from), from.size(), to);
  return text;
}

}  // namespace

TEST_CASE("the shipped preset is read and requires what both backends prove") {
  auto preset = load_preset("workspace");
  INFO((preset.has_error() ? preset.error().object + " " + preset.error().detail : ""));
  REQUIRE(preset.has_value());
  CHECK(preset.value().id == "workspace");
  CHECK(preset.value().enforcement == Enforcement::required);
  CHECK(preset.value().network_allowed);
  CHECK(preset.value().write_paths == std::vector<std::string>{"<workspace>"});
  CHECK(preset.value().digest.rfind("sha256:", 0) == 0);
}

TEST_CASE("a preset of one's own is read") {
  auto preset = parse_preset(good, "mine.yaml");
  REQUIRE(preset.has_value());
  CHECK_FALSE(preset.value().network_allowed);
  CHECK(preset.value().max_processes == 0);
}

TEST_CASE("what a preset gets wrong is refused with its place in the file") {
  CHECK(code_of(good + "extra: 1\n") == "yaml-unknown-field");
  CHECK_FALSE(code_of(good + "id: twice\n").empty());
  CHECK_FALSE(code_of(changed("sandbox-preset/v1", "sandbox-preset/v2")).empty());
  CHECK_FALSE(code_of(changed("network: none", "network: gate")).empty());
  CHECK(code_of(changed("filesystem.read", "filesystem.everything")) == "capability-unknown");
  CHECK(code_of(changed("\"<workspace>\"", "relative/path")) == "preset-path-form");
  auto preset = parse_preset(changed("filesystem.read", "filesystem.everything"), "mine.yaml");
  CHECK(preset.error().object.rfind("mine.yaml:5:", 0) == 0);
}

TEST_CASE("a preset nobody installed is named with what there is") {
  CHECK(load_preset("no-such-preset").error().code == "preset-unknown");
}
