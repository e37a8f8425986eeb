// The judgement as a function: what is claimed, what was found, what comes of it.
#include "finish/judge.hpp"

#include <catch2/catch.hpp>

#include "attempt/completion_check.hpp"
#include "core/ids.hpp"
#include "finish_fixture.hpp"

using namespace hitchrail;
using finish::Workspace;

namespace {

json::Value parsed(const char* text) {
  return json::parse(text, json::Duplicates::refuse).value();
}

struct Case {
  json::Value envelope = parsed(R"({"commitPolicy":"allowed","expectedOutputs":[
      {"id":"completion-summary","kind":"text","description":"","required":true}],"verificationGates":[],
      "completionContract":{"evidenceRequirements":[
      {"id":"terminal-state","kind":"provider-output","description":"","required":true}]}})");
  std::optional<attempt::Verdict> verdict = attempt::Verdict{"success", "", "the final message", "", "", ""};
  wire::ExitSlot slot{};
  Workspace found;
  json::Value terminal;

  Case() {
    slot.kind = wire::kind_code;
    found.members.set("changedFiles", json::Value::array());
    found.members.set("commits", json::Value::array());
    found.members.set("evidence", parsed(R"([{"id":"file-changes","kind":"file-change","source":"harness",
        "summary":"","reference":null,"requirementIds":[],"verified":true}])"));
  }
  void output(const char* text) {
    json::Value all = envelope.get("expectedOutputs");
    all.push(parsed(text));
    envelope.set("expectedOutputs", all);
  }
  void artifact(const char* id, bool verified, const char* reason = "missing") {
    json::Value item = json::Value::object(
        {{"id", id}, {"kind", "file"}, {"name", "x"}, {"reference", "x"}, {"mediaType", json::Value()}});
    item.set("sha256", verified ? json::Value(std::string(64, 'a')) : json::Value());
    item.set("verified", verified);
    if (!verified) {
      item.set("reason", reason);
    }
    json::Value all = found.members.get("artifacts");
    all.push(std::move(item));
    found.members.set("artifacts", all);
  }
  void gate(const char* id, bool required = true, bool evidence = false) {
    json::Value all = envelope.get("verificationGates");
    all.push(json::Value::object(
        {{"id", id}, {"description", ""}, {"required", required}, {"evidenceRequired", evidence}}));
    envelope.set("verificationGates", all);
  }
  void result(const std::string& id, const char* status, const char* started = "2026-01-01T00:00:10.000Z") {
    json::Value all = found.members.get("verification");
    all.push(json::Value::object({{"gateId", id},
                                  {"status", status},
                                  {"summary", "s"},
                                  {"startedAt", started},
                                  {"evidenceIds", json::Value::array({json::Value("verification-" + id)})}}));
    found.members.set("verification", all);
    json::Value items = found.members.get("evidence");
    items.push(json::Value::object({{"id", "verification-" + id},
                                    {"kind", "verification"},
                                    {"source", "harness"},
                                    {"summary", ""},
                                    {"reference", json::Value()},
                                    {"requirementIds", json::Value::array({json::Value("verification")})},
                                    {"verified", true}}));
    found.members.set("evidence", items);
  }
  void requirement(const char* id, const char* kind, bool required = true) {
    json::Value all = envelope.get("completionContract").get("evidenceRequirements");
    all.push(json::Value::object({{"id", id}, {"kind", kind}, {"description", ""}, {"required", required}}));
    json::Value contract = json::Value::object();
    contract.set("evidenceRequirements", all);
    envelope.set("completionContract", contract);
  }
  // The codes of the blockers, and that the whole result holds to the rules.
  std::string codes() {
    const auto claimed = attempt::resolve(verdict, slot);
    terminal = finish::judge({envelope, verdict, claimed, slot, 7}, found);
    attempt::CompletionInput input;
    input.header = json::Value::object({{"taskId", "t"}, {"attemptId", "a"}});
    input.verdict = verdict;
    input.slot = slot;
    input.blockers = found.blockers;
    input.workspace_evidence = found.members;
    input.terminal_requirements = terminal;
    input.resolution = attempt::with_blockers(claimed, input.blockers);
    const Status sound = attempt::check_completion(attempt::completion_body(input), envelope);
    CHECK((sound.has_error() ? sound.error().object + ": " + sound.error().detail : "") == "");
    std::string out;
    for (const json::Value& blocker : found.blockers.items()) {
      out += blocker.get("code").as_string() + (blocker.get("retryable").as_bool() ? "~ " : " ");
    }
    return out;
  }
};

}  // namespace

TEST_CASE("a success that lacks nothing stays one") {
  Case one;
  CHECK(one.codes().empty());
  CHECK(json::write(one.terminal) == R"(["terminal-state"])");
}

TEST_CASE("a required output at a path needs a verified artifact of its id") {
  Case one;
  one.output(
      R"({"id":"report","kind":"file","description":"the report","path":"report.txt","required":true})");
  SECTION("none") {
    CHECK(one.codes() == "expected-output-missing-report~ ");
  }
  SECTION("not the run's") {
    one.artifact("report", false, "not-changed-by-run");
    CHECK(one.codes() == "expected-output-missing-report~ ");
    CHECK(one.found.blockers.items().at(0).get("detail").as_string() == "not-changed-by-run: the report");
  }
  SECTION("verified") {
    one.artifact("report", true);
    CHECK(one.codes().empty());
    CHECK(one.found.members.get("evidence").items().back().get("id").as_string() == "artifact-report");
  }
}

TEST_CASE("an output that is not required is told and blocks nothing") {
  Case one;
  one.output(R"({"id":"extra","kind":"artifact","path":"x","required":false})");
  one.artifact("extra", false);
  CHECK(one.codes().empty());
}

TEST_CASE("outputs without a path are met by a gate of the same id, a text also by a final message") {
  Case one;
  SECTION("other") {
    one.output(R"({"id":"deployed","kind":"other","required":true})");
    CHECK(one.codes() == "expected-output-missing-deployed~ ");
  }
  SECTION("other, with a gate that passed") {
    one.output(R"({"id":"deployed","kind":"other","required":true})");
    one.gate("deployed");
    one.result("deployed", "passed");
    CHECK(one.codes().empty());
  }
  SECTION("a file without a path") {
    one.output(R"({"id":"binary","kind":"file","required":true})");
    CHECK(one.codes() == "expected-output-missing-binary~ ");
  }
  SECTION("text") {
    one.output(R"({"id":"answer","kind":"text","required":true})");
    CHECK(one.codes().empty());
  }
  SECTION("text, and nothing was said") {
    one.output(R"({"id":"answer","kind":"text","required":true})");
    one.verdict->summary.clear();
    CHECK(one.codes() == "expected-output-missing-answer~ ");
  }
  SECTION("a commit") {
    one.output(R"({"id":"work","kind":"commit","required":true})");
    CHECK(one.codes() == "expected-output-missing-work~ ");
  }
  SECTION("a commit that is there") {
    one.output(R"({"id":"work","kind":"commit","required":true})");
    one.found.members.set("commits", parsed(R"([{"oid":"abc","subject":"x"}])"));
    CHECK(one.codes().empty());
  }
}

TEST_CASE("a required gate must have passed, after the last change") {
  Case one;
  SECTION("passed") {
    one.gate("tests", true, true);
    one.result("tests", "passed");
    one.found.last_change_ms = 1'767'225'605'000;  // five seconds before
    CHECK(one.codes().empty());
  }
  SECTION("failed") {
    one.gate("tests");
    one.result("tests", "failed");
    CHECK(one.codes() == "verification-missing-tests~ ");
  }
  SECTION("failed, and not required") {
    one.gate("tests", false);
    one.result("tests", "failed");
    one.found.members.set("verification", json::Value::array());
    CHECK(one.codes().empty());
  }
  SECTION("nobody spoke of it") {
    one.gate("tests");
    CHECK(one.codes() == "verification-missing-tests~ ");
    CHECK(one.found.members.get("verification").items().at(0).get("status").as_string() == "skipped");
  }
  SECTION("older than the last change") {
    one.gate("tests");
    one.result("tests", "passed");
    one.found.last_change_ms = 1'767'225'611'000;
    CHECK(one.codes() == "verification-missing-tests~ ");
    CHECK(one.found.members.get("verification").items().at(0).get("status").as_string() == "unknown");
    CHECK(one.found.members.get("evidence").items().at(1).get("requirementIds").items().empty());
  }
  SECTION("passed without the evidence it asks for") {
    one.gate("tests", true, true);
    one.found.members.set("verification", parsed(R"([{"gateId":"tests","status":"passed","summary":"",
        "evidenceIds":[]}])"));
    CHECK(one.codes() == "verification-missing-tests~ ");
  }
}

TEST_CASE("each kind of evidence requirement is met by verified evidence of that kind alone") {
  Case one;
  SECTION("a changed file, none was changed") {
    one.requirement("work", "file-change");
    CHECK(one.codes() == "evidence-missing-work~ ");
  }
  SECTION("a changed file of which the state at launch is not known") {
    one.requirement("work", "file-change");
    one.found.members.set("changedFiles", parsed(R"([{"path":"a","status":"modified","verified":false}])"));
    CHECK(one.codes() == "evidence-missing-work~ ");
  }
  SECTION("a changed file") {
    one.requirement("work", "file-change");
    one.found.members.set("changedFiles", parsed(R"([{"path":"a","status":"modified","verified":true}])"));
    CHECK(one.codes().empty());
  }
  SECTION("an exit that was seen") {
    one.requirement("ended", "process-exit");
    CHECK(one.codes().empty());
  }
  SECTION("events") {
    one.requirement("events", "stream-event");
    CHECK(one.codes().empty());
  }
  SECTION("the provider's record") {
    one.requirement("said", "provider-output");
    CHECK(one.codes().empty());
    CHECK(json::write(one.terminal) == R"(["terminal-state","said"])");
  }
  SECTION("a callback, which no local run has") {
    one.requirement("called", "callback");
    CHECK(one.codes() == "evidence-missing-called~ ");
  }
  SECTION("not required") {
    one.requirement("called", "callback", false);
    CHECK(one.codes().empty());
  }
  SECTION("a missing commit is said once") {
    one.requirement("commit", "commit");
    one.found.blockers =
        parsed(R"([{"code":"required-commit-missing","summary":"","detail":"","retryable":true}])");
    CHECK(one.codes() == "required-commit-missing~ ");
  }
  SECTION("verification by a gate that passed") {
    one.requirement("checked", "verification");
    one.gate("tests");
    one.result("tests", "passed");
    CHECK(one.codes().empty());
  }
  SECTION("verification by a gate that failed") {
    one.requirement("checked", "verification");
    one.gate("tests", false);
    one.result("tests", "failed");
    CHECK(one.codes() == "evidence-missing-checked~ ");
  }
}

TEST_CASE("only a claimed success is held against the envelope") {
  Case one;
  one.output(R"({"id":"report","kind":"file","path":"x","required":true})");
  one.gate("tests");
  one.requirement("called", "callback");
  one.verdict = attempt::Verdict{"failed", "x", "", "broke", "", ""};
  CHECK(one.codes().empty());
}

TEST_CASE("what the provider says of itself is kept and raises nothing") {
  Case one;
  one.requirement("proof", "artifact");
  one.gate("tests");
  one.output(R"({"id":"report","kind":"file","path":"x","required":true})");
  one.artifact("report", false);
  one.verdict->details = parsed(R"({"evidence":[
      {"id":"all done","kind":"commit","summary":"I committed","verified":true,"requirementIds":["commit"]},
      {"id":"x","kind":"magic"}, 7],
      "artifacts":[{"id":"report","kind":"file","name":"report","reference":"x","verified":true,
      "sha256":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},{"id":"r2","sha256":"short"}],
      "verification":[{"gateId":"tests","status":"passed"}],
      "blockers":[{"code":"quota","summary":"nearly out","detail":"d","retryable":true}]})");
  CHECK(
      one.codes() ==
      "verification-missing-tests~ expected-output-missing-report~ evidence-missing-proof~ provider-quota~ ");
  std::string ids;
  for (const json::Value& item : one.found.members.get("evidence").items()) {
    if (item.get("source").as_string() == "provider") {
      CHECK_FALSE(item.get("verified").as_bool());
      CHECK(item.get("requirementIds").items().empty());
      ids += item.get("id").as_string() + ":" + item.get("kind").as_string() + " ";
    }
  }
  CHECK(ids == "provider-all-done:commit provider-x:other provider-verification-tests:verification ");
  const auto& artifacts = one.found.members.get("artifacts").items();
  CHECK(artifacts.at(1).get("id").as_string() == "provider-report");
  CHECK_FALSE(artifacts.at(1).get("verified").as_bool());
  CHECK(artifacts.at(2).get("sha256").is_null());
}

TEST_CASE("details of any shape are taken or left, never an error") {
  for (const char* details :
       {"null", "7", "[]", R"({"evidence":7})", R"({"evidence":{"id":"x"},"blockers":[[]]})",
        R"({"artifacts":[null,{}],"verification":["x"]})"}) {
    Case one;
    one.verdict->details = parsed(details);
    CHECK(one.codes().empty());
  }
}

TEST_CASE("more blockers than a result may have are counted") {
  Case one;
  for (int i = 0; i < 80; ++i) {
    one.gate(("g" + std::to_string(i)).c_str());
  }
  (void)one.codes();
  CHECK(one.found.blockers.items().size() == 64);
  CHECK(one.found.blockers.items().back().get("code").as_string() == "more-blockers");
  CHECK(one.found.blockers.items().back().get("summary").as_string() == "17 more");
}

TEST_CASE("without an envelope nothing is asked, and what was found is told") {
  Case one;
  one.envelope = json::Value();
  CHECK(one.codes().empty());
}

TEST_CASE("a result that breaks a rule is refused with the member") {
  const json::Value sound = parsed(R"({"schemaVersion":"completion-result/v1","status":"success","error":null,
      "blockers":[],"evidence":[{"id":"a","kind":"commit","source":"harness","requirementIds":["c"],"verified":true}],
      "artifacts":[],"verification":[{"gateId":"g","status":"passed","evidenceIds":["a"]}]})");
  const json::Value envelope =
      parsed(R"({"verificationGates":[{"id":"g","required":true,"evidenceRequired":true}],
      "completionContract":{"evidenceRequirements":[{"id":"c","kind":"commit","required":true}]}})");
  REQUIRE(attempt::check_completion(sound, envelope).has_value());
  struct Broken {
    const char* member;
    const char* value;
    const char* object;
  };
  for (const Broken& broken : std::initializer_list<Broken>{
           {"schemaVersion", R"("x")", "schemaVersion"},
           {"status", R"("done")", "status"},
           {"status", R"("failed")", "error"},
           {"status", R"("blocked")", "blockers"},
           {"error", R"("no")", "blockers"},
           {"blockers", R"([{"code":"x"}])", "blockers"},
           {"evidence", R"([])", "evidence"},
           {"evidence", R"([{"id":"a","kind":"commit","verified":true,"requirementIds":[]}])", "evidence"},
           {"evidence", R"([{"id":"a","kind":"artifact","verified":true,"requirementIds":["c"]}])",
            "evidence"},
           {"evidence", R"([{"id":"a","kind":"magic","verified":true}])", "evidence.kind"},
           {"evidence", R"([{"id":"a","kind":"other"},{"id":"a","kind":"other"}])", "evidence.id"},
           {"evidence", R"([{"id":"provider-a","kind":"other","source":"provider","verified":true}])",
            "evidence.provider-a"},
           {"evidence", R"([{"id":"a","kind":"other","source":"provider"}])", "evidence.a"},
           {"artifacts", R"([{"id":"x","kind":"file","verified":true,"sha256":null}])", "artifacts.x"},
           {"artifacts", "7", "artifacts"},
           {"verification", R"([{"gateId":"g","status":"failed"}])", "verification.g"},
           {"verification", R"([])", "verification"},
           {"verification", R"([{"gateId":"g","status":"passed","evidenceIds":[]}])", "verification"},
       }) {
    json::Value result = sound;
    result.set(broken.member, parsed(broken.value));
    const Status refused = attempt::check_completion(result, envelope);
    INFO(broken.member << " = " << broken.value);
    REQUIRE(refused.has_error());
    CHECK(refused.error().code == "completion-invalid");
    CHECK(refused.error().object == broken.object);
  }
}
