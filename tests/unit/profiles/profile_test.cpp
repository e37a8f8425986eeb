#include <catch2/catch.hpp>

#include "core/canonical.hpp"
#include "profiles/profiles.hpp"
#include "unit/profiles/sample.hpp"

using namespace hitchrail;
using namespace hitchrail::profiles;
using test::changed;
using test::kSample;

namespace {

SupportProfile loaded(const std::string& text) {
  auto profile = parse_profile(text, "f.yaml");
  if (profile.has_error()) {
    FAIL(profile.error().object << " " << profile.error().code << " " << profile.error().detail);
  }
  return std::move(profile).value();
}

// "CODE LINE:COLUMN detail" of the refusal.
std::string refusal(const std::string& text) {
  const auto profile = parse_profile(text, "f.yaml");
  if (profile.has_value()) {
    return "accepted";
  }
  const Error& error = profile.error();
  CHECK(error.operation == "read profile");
  return error.code + " " + error.object.substr(7) + " " + error.detail;
}

bool refused(const std::string& text, const std::string& code_and_place) {
  const std::string found = refusal(text);
  UNSCOPED_INFO(found);
  return found.find(code_and_place + " ") == 0;
}

}  // namespace

TEST_CASE("a profile is read whole") {
  const SupportProfile profile = loaded(kSample);
  CHECK(profile.id == "sample");
  CHECK(profile.adapter == "sample-adapter");
  CHECK(profile.tier == Tier::configured);
  CHECK(profile.version_args == std::vector<std::string>{"--version"});
  CHECK(profile.launch_args == std::vector<std::string>{"run"});
  CHECK(profile.environment_allowlist == std::vector<std::string>{"LANG"});
  CHECK_FALSE(blocking_error(profile).has_value());
  CHECK(profile.document.get("schemaVersion").as_string() == "harness-support-profile/v1");
  CHECK(profile.document.get("compatibility").get("configurationDigest").as_string() ==
        profile.configuration_digest);
  CHECK(verify_document(profile.document).has_value());
  CHECK_FALSE(explain(profile).empty());
}

TEST_CASE("the profile of Codex CLI that is part of the project is valid") {
  const auto profile = load_profile(std::string(HITCHRAIL_SOURCE_DIR) + "/profiles/harness/codex-cli.yaml");
  REQUIRE(profile.has_value());
  CHECK(profile->adapter == "codex-cli");
  CHECK_FALSE(blocking_error(*profile).has_value());
  CHECK(match_version_line(*profile, "codex-cli 0.145.0").value() == "0.145.0");
  CHECK(check_tested_version(*profile, "0.145.0").has_value());
}

TEST_CASE("every field is checked where it stands") {
  CHECK(refused(changed("profile/v1", "profile/v2"), "yaml-bounds 1:16"));
  CHECK(refused(changed("id: sample\n", "id: -x\n"), "profile-invalid 2:5"));
  CHECK(refused(changed("id: sample\n", "id: \"a b\"\n"), "profile-invalid 2:5"));
  CHECK(refused(changed("id: sample\n", "id: " + std::string(121, 'x') + "\n"), "yaml-bounds 2:5"));
  CHECK(refused(changed("displayName: Sample\n", ""), "yaml-missing-field 1:1"));
  CHECK(refused(changed("process-jsonl", "telepathy"), "yaml-bounds 5:12"));
  CHECK(refused(changed("supportTier: configured", "supportTier: perfect"), "yaml-bounds 6:14"));
  CHECK(
      refused(changed("  command: sample\n", "  command: sample\n  comand: x\n"), "yaml-unknown-field 10:3"));
  CHECK(refused(changed("command: sample", "command: ./sample"), "profile-invalid 9:12"));
  CHECK(refused(changed("command: sample", "command: bin/sample"), "profile-invalid 9:12"));
  CHECK(refused(changed("[\"--version\"]", "--version"), "yaml-type 10:16"));
  CHECK(refused(changed("  versionArgs: [\"--version\"]\n", ""), "profile-invalid 10:16"));
  CHECK(refused(changed("kind: none", "kind: command"), "profile-invalid 13:9"));
  CHECK(refused(changed("kind: none", "kind: environment"), "profile-invalid 13:9"));
  CHECK(refused(changed("nonMutating: true", "nonMutating: false"), "profile-invalid 14:16"));
  CHECK(refused(changed("[provider-version]", "[]"), "yaml-bounds 18:17"));
  CHECK(refused(changed("[provider-version]", "[weather]"), "yaml-bounds 18:18"));
  CHECK(refused(changed("[linux]", "[linux, beos]"), "yaml-bounds 19:20"));
  CHECK(refused(changed("[LANG]", "[LANG, lower]"), "profile-invalid 24:32"));
  CHECK(refused(changed("[SAMPLE_KEY]", "[A]"), "profile-invalid 25:25"));
  CHECK(refused(changed("status: not-run", "status: great"), "yaml-bounds 26:46"));
  CHECK(refused(changed("[Install it.]", "[]"), "yaml-bounds 28:14"));
  CHECK(refused(kSample + "id: again\n", "yaml-duplicate-key 29:1"));
  CHECK(refused(kSample + "providerHosts: [api.example, 'Bad Host']\n", "profile-invalid 29:30"));
}

TEST_CASE("cross references hold") {
  CHECK(refused(changed("adapterId: sample-adapter\n", ""), "profile-invalid 5:14"));
  CHECK(refused(changed("transport: process-jsonl", "transport: unsupported"), "profile-invalid 5:12"));
  CHECK(refused(changed("supportTier: configured", "supportTier: certified"), "profile-invalid 6:14"));
  CHECK(refused(changed("status: not-run", "status: passed"), "profile-invalid 26:46"));
  const std::string passed =
      changed("status: not-run",
              "status: passed, certifiedAt: \"2026-01-02T03:04:05Z\", providerVersion: 0.145.0, "
              "manifestDigest: sha256:" +
                  std::string(64, 'a') + ", configurationDigest: sha256:" + std::string(64, 'b') +
                  ", probeRevision: 1");
  CHECK(loaded(passed).conformance.get("probeRevision").as_int() == 1);
}

TEST_CASE("a profile without adapter is unsupported and blocks") {
  std::string text = changed("adapterId: sample-adapter\n", "");
  text.replace(text.find("supportTier: configured"), 23, "supportTier: unsupported");
  const SupportProfile profile = loaded(text);
  REQUIRE(blocking_error(profile).has_value());
  CHECK(blocking_error(profile)->code == "profile-unsupported");
  CHECK(blocking_error(profile)->kind == ErrorClass::refused);
}

TEST_CASE("a profile for another system blocks") {
  CHECK(blocking_error(loaded(changed("[linux]", "[darwin]")))->code == "profile-platform");
}

TEST_CASE("texts for people hold no secret") {
  for (const std::string secret : {"Use sk-abcdefghijkl0123", "Bearer abcdef0123456789", "set token=abc",
                                   "password: hunter2", "ghp_0123456789abcdef", "github_pat_0123456789ab"}) {
    CHECK(refused(changed("A profile for tests.", "\"" + secret + "\""), "profile-secret 7:16"));
    CHECK(refused(changed("[Install it.]", "[\"" + secret + "\"]"), "profile-secret 28:14"));
  }
  CHECK(refusal(changed("A profile for tests.", "It needs a token or a password.")) == "accepted");
}

TEST_CASE("credential material in arguments is redacted, degrades the profile and blocks") {
  for (const std::string args :
       {"[run, --api-key, hunter2]", "[run, --api-key=hunter2]", "[\"--API_KEY\", hunter2]",
        "[-token, hunter2]", "[--auth-token, hunter2]", "[--credentials=hunter2]", "[\"password=hunter2\"]",
        "[\" --secret \", hunter2]"}) {
    INFO(args);
    const SupportProfile profile = loaded(changed("[run]", args));
    CHECK(profile.tier == Tier::degraded);
    REQUIRE(blocking_error(profile).has_value());
    CHECK(blocking_error(profile)->code == "profile-degraded");
    CHECK(json::write(profile.document).find("hunter2") == std::string::npos);
    CHECK(profile.remediation.front().find("credential") != std::string::npos);
    CHECK(profile.remediation.size() == 2);
    std::string everything;
    for (const std::string& line : explain(profile)) {
      everything += line;
    }
    CHECK(everything.find("hunter2") == std::string::npos);
  }
  const SupportProfile command = loaded(changed("command: sample", "command: \"sample --token hunter2\""));
  CHECK(command.tier == Tier::degraded);
  CHECK(command.command == "sample --token [REDACTED]");
  for (const std::string args : {"[run, --tokens, x]", "[--max-tokens=5]", "[secret]", "[--secretary, x]"}) {
    INFO(args);
    CHECK(loaded(changed("[run]", args)).tier == Tier::configured);
  }
}

TEST_CASE("changing a secret does not change the configuration digest, changing anything else does") {
  const std::string first = loaded(changed("[run]", "[--token, hunter2]")).configuration_digest;
  const std::string second = loaded(changed("[run]", "[--token, hunter3]")).configuration_digest;
  CHECK(first == second);
  const std::string base = loaded(kSample).configuration_digest;
  CHECK(base != first);
  CHECK(loaded(changed("command: sample", "command: other")).configuration_digest != base);
  CHECK(loaded(changed("[LANG]", "[LANG, TERM]")).configuration_digest != base);
  CHECK(loaded(kSample + "providerHosts: [api.example]\n").configuration_digest != base);
  CHECK(loaded(changed("A profile for tests.", "Other words.")).configuration_digest == base);
}

TEST_CASE("a stated configuration digest must be the true one") {
  const std::string digest = loaded(kSample).configuration_digest;
  const std::string stated = changed("  policy: Exact versions.\n",
                                     "  policy: Exact versions.\n  configurationDigest: " + digest + "\n");
  CHECK(loaded(stated).configuration_digest == digest);
  CHECK(refused(
      changed("  policy: Exact versions.\n",
              "  policy: Exact versions.\n  configurationDigest: sha256:" + std::string(64, '0') + "\n"),
      "profile-digest-mismatch 17:24"));
}

TEST_CASE("only the exact version line passes") {
  const SupportProfile profile = loaded(kSample);
  CHECK(match_version_line(profile, "sample 0.145.0").value() == "0.145.0");
  for (const std::string line :
       {"sample 0.145.0-alpha", "sample  0.145.0", " sample 0.145.0", "sample 0.145.0 ", "Sample 0.145.0",
        "sample 0.145", "", "sample 0.145.0\x1b[0m", "sample 0.145.0\xFF", "xsample 0.145.0"}) {
    INFO(line);
    const auto result = match_version_line(profile, line);
    REQUIRE(result.has_error());
    CHECK(result.error().code == "version-line-mismatch");
    CHECK(result.error().detail.find('\x1b') == std::string::npos);
  }
  CHECK(match_version_line(profile, "sample " + std::string(400, '1') + ".0.0").has_error());
}

TEST_CASE("only tested versions pass, as whole texts") {
  const SupportProfile profile = loaded(kSample);
  CHECK(check_tested_version(profile, "0.145.0").has_value());
  for (const std::string version : {"0.144.0", "10.145.0", "0.145.00", "0.145.0-alpha", "0.145", ""}) {
    const auto status = check_tested_version(profile, version);
    REQUIRE(status.has_error());
    CHECK(status.error().code == "version-not-tested");
    CHECK(status.error().detail.find("0.145.0") != std::string::npos);
  }
  CHECK(check_tested_version(loaded(changed("[\"0.145.0\"]", "[]")), "9").has_value());
}

TEST_CASE("a version expression is anchored whatever it says, and its cost is bounded") {
  const auto with = [](const std::string& expression) {
    return changed("'sample ([0-9]+\\.[0-9]+\\.[0-9]+)'", "'" + expression + "'");
  };
  CHECK(match_version_line(loaded(with("a|ab")), "ab").value() == "ab");
  CHECK(match_version_line(loaded(with("a|ab")), "abc").has_error());
  CHECK(refused(with("a)|(b"), "profile-invalid 11:16"));
  CHECK(refused(with("(a"), "profile-invalid 11:16"));
  CHECK(refused(with("a{1000}"), "profile-invalid 11:16"));
  CHECK(refused(with("(a)\\1"), "profile-invalid 11:16"));
  CHECK(match_version_line(loaded(with("(a+)+b")), std::string(299, 'a')).has_error());
}

TEST_CASE("what the harness reads in a repository is a list of places, and part of the configuration") {
  const auto files = [](const std::string& lists) { return kSample + "workspaceFiles: " + lists + "\n"; };
  CHECK_FALSE(loaded(kSample).workspace_files_stated);
  const auto stated =
      loaded(files("{instructions: [.../AGENTS.md, '**/.tool/rules/**'], executable: [.mcp.json]}"));
  CHECK(stated.workspace_files_stated);
  CHECK(stated.workspace_instructions == std::vector<std::string>{".../AGENTS.md", "**/.tool/rules/**"});
  CHECK(stated.workspace_executable == std::vector<std::string>{".mcp.json"});
  CHECK(loaded(files("{}")).workspace_files_stated);
  CHECK(loaded(files("{}")).configuration_digest != loaded(kSample).configuration_digest);
  for (const char* bad :
       {"/etc/x", "../x", "a/../b", "'*.md'", "'a/**/b'", ".git/hooks/**", "'**/'", "x/.../y"}) {
    INFO(bad);
    CHECK(refused(files(std::string("{instructions: [") + bad + "]}"), "profile-invalid 29:33"));
  }
  CHECK(refused(files("{other: []}"), "yaml-unknown-field 29:18"));
}
