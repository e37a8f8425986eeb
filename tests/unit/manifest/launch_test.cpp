#include <catch2/catch.hpp>

#include "core/json.hpp"
#include "documents.hpp"
#include "manifest/credentials.hpp"
#include "manifest/drift.hpp"

namespace hitchrail::manifest::test {
namespace {

std::string changed_sections(const json::Value& current, const json::Value& parent) {
  std::string out;
  for (const SectionChange& change : diff(current, parent)) {
    out += change.field + " ";
  }
  return out;
}

// The same launch as another attempt, at another time, below another directory.
LaunchManifestInput other_attempt() {
  LaunchManifestInput input = launch_input();
  TaskEnvelopeInput envelope = envelope_input();
  RuntimeManifestInput runtime = runtime_input();
  runtime.probed_at_ms += 1;
  envelope.runtime_manifest = built(build_runtime_manifest(runtime));
  envelope.attempt_id = "attempt_2";
  envelope.task_id = "task_2";
  envelope.created_at_ms += 1;
  input.runtime_manifest = envelope.runtime_manifest;
  CredentialPlanInput credentials;
  credentials.boot_names = {"SCRIPT_API_KEY"};
  credentials.passed = {"HOME", "SCRIPT_API_KEY"};
  credentials.runtime_manifest = input.runtime_manifest;
  input.credentials = built(build_credential_plan(credentials));
  input.envelope = envelope_of(envelope);
  input.attempt_id = "attempt_2";
  input.task_id = "task_2";
  input.created_at_ms += 1;
  input.attempt_path = "/state/runs/attempt_2";
  input.instructions.at(0).content = "# Task\nattempt attempt_2 below /state/runs/attempt_2/home";
  input.args.at(1) = "--home=/state/runs/attempt_2/home";
  return input;
}

TEST_CASE("a launch manifest is sealed, enforceable without blockers, and holds names only") {
  const json::Value document = built(build_launch_manifest(launch_input()));
  REQUIRE(refusal(check_launch_manifest(document)).empty());
  CHECK(document.get("enforcement").get("enforceable").as_bool());
  CHECK(json::write(document.get("runtime").get("environmentKeys")) == R"(["HOME","PATH"])");
  CHECK(document.get("instructions").items().at(0).find("content") == nullptr);
  // What nobody asked for is said so.
  for (const char* section : {"tools", "permissions", "resources"}) {
    CHECK(document.get(section).get("enforcement").as_string() == "not-required");
  }
  CHECK(json::write(document.get("budget")) == R"({"enabled":false,"scope":"run"})");
  CHECK(json::write(document.get("requiredHealthChecks")) == "[]");
  for (const char* absent : {"workspaceTrust", "phase", "conversation", "parent"}) {
    CHECK(document.find(absent) == nullptr);
  }
}

TEST_CASE("run directories stand in a launch manifest by their role") {
  const json::Value document = built(build_launch_manifest(launch_input()));
  CHECK(document.get("runtime").get("args").items().at(1).as_string() == "--home=<attempt>/home");
  CHECK(json::write(document).find("/state/runs") == std::string::npos);
  LaunchManifestInput input = launch_input();
  input.args.at(1) = "/state/runs/attempt_12/home";
  CHECK(built(build_launch_manifest(input)).get("runtime").get("args").items().at(1).as_string() ==
        "/state/runs/attempt_12/home");
}

TEST_CASE("the same launch as another attempt has the same material and no difference") {
  const json::Value one = built(build_launch_manifest(launch_input()));
  const json::Value two = built(build_launch_manifest(other_attempt()));
  CHECK(one.get("digest") != two.get("digest"));
  CHECK(changed_sections(two, one).empty());
  CHECK(launch_material_digest(one).value() == launch_material_digest(two).value());
}

TEST_CASE("each changed section is named, once, in the manifest's order") {
  const json::Value parent = built(build_launch_manifest(launch_input()));
  LaunchManifestInput input = launch_input();
  input.args.push_back("--fast");
  input.sandbox.set("presetId", "permissive");
  input.instructions.at(0).content += " more";
  input.conversation = json::Value::object({{"mode", "resume"}});
  const json::Value current = built(build_launch_manifest(input));
  CHECK(changed_sections(current, parent) == "instructions runtime conversation sandbox ");
  const std::vector<SectionChange> changes = diff(current, parent);
  CHECK(changes.at(2).before == "absent");
  CHECK(changes.at(2).after.starts_with("sha256:"));
  CHECK(changes.at(0).before != changes.at(0).after);
  CHECK(launch_material_digest(current).value() != launch_material_digest(parent).value());
}

TEST_CASE("an unsatisfied requirement and a failed probe block, and the document says so") {
  LaunchManifestInput input = launch_input();
  input.requirements = evaluate_requirements(input.runtime_manifest, {"run.start", "run.steer"}, true);
  input.blockers = {{"workspace-untrusted", "workspace", "not trusted", "trust it"}};
  const json::Value enforcement = built(build_launch_manifest(input)).get("enforcement");
  CHECK_FALSE(enforcement.get("enforceable").as_bool());
  REQUIRE(enforcement.get("blockers").items().size() == 2);
  CHECK(enforcement.get("blockers").items().at(0).get("code").as_string() ==
        "provider-capability-unavailable");
  CHECK(enforcement.get("blockers").items().at(0).get("field").as_string() ==
        "providerRequirements.run.steer");
}

TEST_CASE("a secret in an argument refuses the launch with the argument's place") {
  LaunchManifestInput input = launch_input();
  input.args.push_back("--api-key=sk-abcdefghijklmnop");
  const Result<json::Value> result = build_launch_manifest(input);
  CHECK(refusal(result) == "manifest-secret runtime.args.3");
  CHECK(result.error().kind == ErrorClass::refused);
  CHECK(result.error().detail.find("abcdef") == std::string::npos);
}

TEST_CASE("documents of different launches cannot be put together") {
  LaunchManifestInput input = launch_input();
  SECTION("another runtime manifest") {
    RuntimeManifestInput runtime = runtime_input();
    runtime.provider_version = "9";
    input.runtime_manifest = built(build_runtime_manifest(runtime));
    CHECK(refusal(build_launch_manifest(input)) == "manifest-invalid taskEnvelope");
  }
  SECTION("another attempt") {
    input.attempt_id = "attempt_9";
    CHECK(refusal(build_launch_manifest(input)) == "manifest-invalid attemptId");
  }
}

TEST_CASE("bounds of a launch manifest are refused with their field") {
  LaunchManifestInput input = launch_input();
  SECTION("environment values") {
    input.environment_keys.push_back("A=b");
    CHECK(refusal(build_launch_manifest(input)) == "manifest-invalid runtime.environmentKeys");
  }
  SECTION("arguments") {
    input.args.assign(257, "x");
    CHECK(refusal(build_launch_manifest(input)) == "manifest-invalid runtime.args");
  }
  SECTION("an argument that is no text") {
    input.args = {"\xff"};
    CHECK(refusal(build_launch_manifest(input)) == "manifest-invalid runtime.args.0");
  }
  SECTION("scope of an origin") {
    input.origins.at(0).scope = "moon";
    CHECK(refusal(build_launch_manifest(input)) == "manifest-invalid origins.scope");
  }
  SECTION("no sandbox") {
    input.sandbox = json::Value();
    CHECK(refusal(build_launch_manifest(input)) == "manifest-invalid sandbox");
  }
}

TEST_CASE("a launch manifest that was changed, or contradicts itself, is refused") {
  json::Value document = built(build_launch_manifest(launch_input()));
  document.set("attemptId", "attempt_7");
  CHECK(refusal(check_launch_manifest(document)).starts_with("digest-mismatch"));
  json::Value extra = built(build_launch_manifest(launch_input()));
  extra.set("surprise", 1);
  CHECK(refusal(check_launch_manifest(extra)) == "manifest-invalid surprise");
}

}  // namespace
}  // namespace hitchrail::manifest::test
