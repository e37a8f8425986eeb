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
  CHECK(preset.value().network == Network::host);
  CHECK(preset.value().write_paths == std::vector<std::string>{"<workspace>"});
  CHECK(preset.value().digest.rfind("sha256:", 0) == 0);
}

TEST_CASE("a preset of one's own is read") {
  auto preset = parse_preset(good, "mine.yaml");
  REQUIRE(preset.has_value());
  CHECK(preset.value().network == Network::none);
  CHECK(preset.value().max_processes == 0);
}

TEST_CASE("what a preset gets wrong is refused with its place in the file") {
  CHECK(code_of(good + "extra: 1\n") == "yaml-unknown-field");
  CHECK_FALSE(code_of(good + "id: twice\n").empty());
  CHECK_FALSE(code_of(changed("sandbox-preset/v1", "sandbox-preset/v2")).empty());
  CHECK_FALSE(code_of(changed("network: none", "network: proxy")).empty());
  CHECK(code_of(changed("filesystem.read", "filesystem.everything")) == "capability-unknown");
  CHECK(code_of(changed("\"<workspace>\"", "relative/path")) == "preset-path-form");
  auto preset = parse_preset(changed("filesystem.read", "filesystem.everything"), "mine.yaml");
  CHECK(preset.error().object.rfind("mine.yaml:5:", 0) == 0);
}

TEST_CASE("a preset nobody installed is named with what there is") {
  CHECK(load_preset("no-such-preset").error().code == "preset-unknown");
}

TEST_CASE("every field of a preset is read") {
  auto preset = parse_preset(
      "schemaVersion: sandbox-preset/v1\nid: all-of-it\nname: All\nenforcement: advisory\n"
      "requiredCapabilities: [network.gate]\n"
      "filesystem:\n  readPaths: [\"~\", /opt/data]\n  writePaths: [\"<workspace>\"]\n"
      "  deniedPaths: [\"<workspace>/secrets\"]\n  stores: [\"~/store\"]\n  dotfileMasking: true\n"
      "  localOnlyHandles: true\n"
      "network:\n  mode: gate\n  allowedHosts: [API.example.org, \"*.a.example.org:8443\", api.example.org]\n"
      "environment: [TERM]\ncredentials: environment\nlimits:\n  maxProcesses: 7\n  maxMemory: 536870912\n",
      "all.yaml");
  INFO((preset.has_error() ? preset.error().object + " " + preset.error().detail : ""));
  REQUIRE(preset.has_value());
  const Preset& read = preset.value();
  CHECK(read.enforcement == Enforcement::advisory);
  CHECK(read.read_paths == std::vector<std::string>{"/opt/data", "~"});
  CHECK(read.denied_paths == std::vector<std::string>{"<workspace>/secrets"});
  CHECK(read.stores == std::vector<std::string>{"~/store"});
  CHECK(read.dotfile_masking);
  CHECK(read.local_only_handles);
  CHECK(read.network == Network::gate);
  CHECK(read.allowed_hosts == std::vector<std::string>{"*.a.example.org:8443", "api.example.org"});
  CHECK(read.environment == std::vector<std::string>{"TERM"});
  CHECK(read.credentials == Credentials::environment);
  CHECK(read.max_processes == 7);
  CHECK(read.max_memory == 536870912);
}

TEST_CASE("paths, hosts, ids and names of another form are refused") {
  for (const char* path : {"<workspace>x", "<workspace>/../x", "<workspace>/", "~ann/x", "~/./x", "/a//b",
                           "/a/..", "$HOME/x", "./x", "<home>/x"}) {
    INFO(path);
    CHECK(code_of(changed("\"<workspace>\"", "\"" + std::string(path) + "\"")) == "preset-path-form");
  }
  for (const char* host :
       {"localhost", "127.0.0.1", "*.org", "*", "a.*.org", "api.example.org:0", "api.example.org:65536",
        "api.example.org.", "a b.org", "2130706433", "api..org", "0x7f.0x1", "-a.org"}) {
    INFO(host);
    CHECK(code_of(changed("network: none", "network: {mode: gate, allowedHosts: [\"" + std::string(host) +
                                               "\"]}")) == "preset-host-form");
  }
  CHECK(code_of(changed("network: none", "network: {mode: host, allowedHosts: [api.example.org]}")) ==
        "preset-hosts-unheld");
  CHECK(code_of(changed("id: mine", "id: ../mine")) == "preset-id-form");
  CHECK(code_of(changed("id: mine", "id: Mine")) == "preset-id-form");
  CHECK(code_of(good + "environment: [\"KEY=value\"]\n") == "preset-environment-form");
  CHECK(code_of(good + "credentials: all\n") == "yaml-bounds");
  CHECK(code_of(good + "limits: {maxMemory: 1}\n") == "yaml-bounds");
}
