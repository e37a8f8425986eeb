#include <catch2/catch.hpp>

#include "core/canonical.hpp"
#include "documents.hpp"

namespace hitchrail::manifest::test {
namespace {

const json::Value& capability(const json::Value& document, std::string_view id) {
  static const json::Value none;
  for (const json::Value& item : document.get("capabilities").items()) {
    if (item.get("id").as_string() == id) {
      return item;
    }
  }
  return none;
}

TEST_CASE("a runtime manifest names all 39 capabilities, sorted, each with a reason") {
  const json::Value document = built(build_runtime_manifest(runtime_input()));
  REQUIRE(known_capabilities().size() == 39);
  REQUIRE(document.get("capabilities").items().size() == 39);
  for (const std::string_view id : known_capabilities()) {
    INFO(id);
    REQUIRE(capability(document, id).is_object());
    REQUIRE_FALSE(capability(document, id).get("reason").as_string().empty());
  }
  const auto& items = document.get("capabilities").items();
  for (std::size_t i = 1; i < items.size(); ++i) {
    REQUIRE(items[i - 1].get("id").as_string() < items[i].get("id").as_string());
  }
}

TEST_CASE("what nobody reported is unknown, never supported") {
  const json::Value document = built(build_runtime_manifest(runtime_input()));
  CHECK(capability(document, "run.start").get("state").as_string() == "supported");
  CHECK(capability(document, "run.steer").get("state").as_string() == "unknown");
}

TEST_CASE("the host's word replaces the adapter's, and other ids are kept") {
  RuntimeManifestInput input = runtime_input();
  input.capabilities.push_back(
      {"filesystem.write", CapabilityState::supported, CapabilitySource::runtime_probe, "a"});
  input.capabilities.push_back(
      {"filesystem.write", CapabilityState::advisory, CapabilitySource::host_enforced, "b"});
  input.capabilities.push_back(
      {"script.extra", CapabilityState::supported, CapabilitySource::contract_test, "c"});
  const json::Value document = built(build_runtime_manifest(input));
  CHECK(capability(document, "filesystem.write").get("state").as_string() == "advisory");
  CHECK(capability(document, "filesystem.write").get("source").as_string() == "host-enforced");
  CHECK(capability(document, "script.extra").get("source").as_string() == "contract-test");
}

TEST_CASE("a provider without a version is unknown and degraded, and the first diagnostic says so") {
  RuntimeManifestInput input = runtime_input();
  input.provider_version = "  ";
  const json::Value document = built(build_runtime_manifest(input));
  CHECK(document.get("providerVersion").as_string() == "unknown");
  CHECK(document.get("probe").get("state").as_string() == "degraded");
  CHECK(document.get("probe").get("diagnostics").items().at(0).as_string() ==
        "the provider did not say its version");
}

TEST_CASE("a failed probe leaves every capability unknown, what the host itself enforces too") {
  RuntimeManifestInput input = runtime_input();
  input.probe_state = "failed";
  input.capabilities.push_back(
      {"filesystem.cleanup", CapabilityState::supported, CapabilitySource::host_enforced, "the finisher"});
  const json::Value document = built(build_runtime_manifest(input));
  for (const json::Value& each : document.get("capabilities").items()) {
    CHECK(each.get("state").as_string() == "unknown");
    CHECK(each.get("source").as_string() == "runtime-probe");
  }
}

TEST_CASE("the digest moves with the time of the probe, the material digest does not") {
  RuntimeManifestInput later = runtime_input();
  later.probed_at_ms += 60'000;
  const json::Value one = built(build_runtime_manifest(runtime_input()));
  const json::Value two = built(build_runtime_manifest(later));
  CHECK(one.get("digest").as_string() != two.get("digest").as_string());
  CHECK(runtime_material_digest(one).value() == runtime_material_digest(two).value());
  later.executable_sha256 = std::string(64, 'c');
  const json::Value three = built(build_runtime_manifest(later));
  CHECK(runtime_material_digest(one).value() != runtime_material_digest(three).value());
}

TEST_CASE("a runtime manifest that was changed is refused when it is read back") {
  json::Value document = built(build_runtime_manifest(runtime_input()));
  REQUIRE(refusal(check_runtime_manifest(document)).empty());
  document.set("providerVersion", "9.9.9");
  CHECK(refusal(check_runtime_manifest(document)).starts_with("digest-mismatch"));
}

TEST_CASE("bounds of a runtime manifest are refused with their field") {
  RuntimeManifestInput input = runtime_input();
  SECTION("provider") {
    input.provider = "9script";
    CHECK(refusal(build_runtime_manifest(input)) == "manifest-invalid provider");
  }
  SECTION("protocol") {
    input.protocol_version = "";
    CHECK(refusal(build_runtime_manifest(input)) == "manifest-invalid protocolVersion");
  }
  SECTION("hash of the executable") {
    input.executable_sha256 = "abc";
    CHECK(refusal(build_runtime_manifest(input)) == "manifest-invalid executable.sha256");
  }
  SECTION("capability id") {
    input.capabilities.push_back(
        {"Run.Start", CapabilityState::supported, CapabilitySource::runtime_probe, "x"});
    CHECK(refusal(build_runtime_manifest(input)) == "manifest-invalid capabilities");
  }
  SECTION("capability without a reason") {
    input.capabilities.push_back(
        {"run.stop", CapabilityState::supported, CapabilitySource::runtime_probe, " "});
    CHECK(refusal(build_runtime_manifest(input)) == "manifest-invalid capabilities.run.stop.reason");
  }
  SECTION("101 models") {
    for (int i = 0; i < 101; ++i) {
      input.models.push_back("model-" + std::to_string(i));
    }
    CHECK(refusal(build_runtime_manifest(input)) == "manifest-invalid models");
  }
}

TEST_CASE("diagnostics carry no secret and stay bounded") {
  RuntimeManifestInput input = runtime_input();
  input.diagnostics = {"login: token=abcdef123456\n then more", std::string(3000, 'x')};
  for (int i = 0; i < 100; ++i) {
    input.diagnostics.push_back("line " + std::to_string(i));
  }
  const json::Value document = built(build_runtime_manifest(input));
  const auto& lines = document.get("probe").get("diagnostics").items();
  CHECK(lines.size() == 32);
  CHECK(lines.at(0).as_string() == "login: token=[REDACTED] then more");
  CHECK(lines.at(1).as_string().size() == 1000);
}

TEST_CASE("the adapter's probe result is taken over, the host's findings stay the later word") {
  const json::Value result =
      json::parse(
          R"({"providerVersion":"2.0","providerBuild":"b7","protocolVersion":"p/v2","state":"degraded",
                      "models":["m"],"diagnostics":["d"],
                      "capabilities":[{"id":"run.start","state":"supported","reason":"r"},
                                      {"id":"filesystem.read","state":"supported","reason":"r"}]})",
          json::Duplicates::refuse)
          .value();
  RuntimeManifestInput input = runtime_input();
  input.models.clear();
  input.capabilities = {
      {"filesystem.read", CapabilityState::advisory, CapabilitySource::host_enforced, "preset"}};
  REQUIRE(apply_probe_result(result, input).has_value());
  const json::Value document = built(build_runtime_manifest(input));
  CHECK(document.get("providerVersion").as_string() == "2.0");
  CHECK(document.get("providerBuild").as_string() == "b7");
  CHECK(document.get("protocolVersion").as_string() == "p/v2");
  CHECK(document.get("probe").get("state").as_string() == "degraded");
  CHECK(document.get("models").items().size() == 1);
  CHECK(capability(document, "filesystem.read").get("state").as_string() == "advisory");
}

TEST_CASE("a probe result that names a capability twice or with an unknown state is refused") {
  const auto apply = [](const char* text) {
    RuntimeManifestInput input = runtime_input();
    return refusal(apply_probe_result(json::parse(text, json::Duplicates::refuse).value(), input));
  };
  CHECK(apply(R"({"capabilities":[{"id":"run.start","state":"maybe","reason":"r"}]})") ==
        "manifest-invalid probe result.capabilities");
  CHECK(apply(R"({"capabilities":[{"id":"a.b","state":"unknown","reason":"r"},
                                  {"id":"a.b","state":"supported","reason":"r"}]})") ==
        "manifest-invalid probe result.capabilities");
  CHECK(apply("[]") == "manifest-invalid probe result");
}

TEST_CASE("under a required preset an advisory capability does not satisfy") {
  RuntimeManifestInput input = runtime_input();
  input.capabilities.push_back(
      {"run.stop", CapabilityState::advisory, CapabilitySource::runtime_probe, "perhaps"});
  const json::Value document = built(build_runtime_manifest(input));
  const auto strict =
      evaluate_requirements(document, {"run.stop", "run.start", "no.such", "run.start"}, true);
  REQUIRE(strict.size() == 3);
  CHECK(strict[0].id == "no.such");
  CHECK_FALSE(strict[0].satisfied);
  CHECK(strict[1].satisfied);
  CHECK_FALSE(strict[2].satisfied);
  CHECK(strict[2].advisory);
  CHECK(evaluate_requirements(document, {"run.stop"}, false).at(0).satisfied);
}

TEST_CASE("secret shapes are found, prose about secrets is not") {
  for (const char* text : {"Bearer abc.def-123456", "sk-abcdefghijklmnop", "key ghp_0123456789abcdef",
                           "OPENAI_API_KEY=sk-x1y2z3", "\"password\": \"hunter2hunter2\"",
                           "--token=abcdef1234", "Authorization: Basic dXNlcjpwYXNz"}) {
    INFO(text);
    CHECK(looks_like_secret(text));
    CHECK(sanitize_diagnostic(text).find("[REDACTED]") != std::string::npos);
  }
  for (const char* text : {"bearer authentication is on", "the token is read from a file", "task-id 12",
                           "sk-short", "password: none", "env:OPENAI_API_KEY", "tokens used: 12"}) {
    INFO(text);
    CHECK_FALSE(looks_like_secret(text));
  }
}

}  // namespace
}  // namespace hitchrail::manifest::test
