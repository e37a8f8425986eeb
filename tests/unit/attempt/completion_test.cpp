#include "attempt/completion.hpp"

#include "attempt_fixture.hpp"
#include "core/canonical.hpp"

using namespace hitchrail;
using namespace hitchrail::test;
using attempt::resolve;
using attempt::Verdict;

namespace {

std::string judged(const std::optional<Verdict>& verdict, const SlotSpec& slot) {
  const auto r = resolve(verdict, slot_of(slot));
  return r.status + (r.code.empty() ? "" : ":" + r.code) + " " + r.terminal_kind +
         (r.lowered ? " lowered" : "");
}
Verdict success() {
  return {"success", "", "did it", "", "thread", "th_1"};
}

}  // namespace

TEST_CASE("a success needs a verdict and an exit somebody saw, and a stop makes it interrupted") {
  SlotSpec slot;
  CHECK(judged(success(), slot) == "success run.completed");
  slot.value = 3;
  CHECK(judged(success(), slot) ==
        "success run.completed");  // the terminal record decides, not the exit code
  slot.kind = wire::kind_signal;
  CHECK(judged(success(), slot) == "failed:exit-by-signal run.failed lowered");
  slot.kind = wire::kind_unknown;
  CHECK(judged(success(), slot) == "failed:exit-unknown run.failed lowered");
  slot.kind = wire::kind_none;
  CHECK(judged(success(), slot) == "failed:exit-unknown run.failed lowered");
  slot = {};
  slot.stop = wire::stop_asked;
  CHECK(judged(success(), slot) == "interrupted:stopped run.interrupted lowered");
  slot.stop = wire::stop_kill;
  CHECK(judged(success(), slot) == "interrupted:killed run.interrupted lowered");
}

TEST_CASE("a run its own adapter ended by signal is what the adapter says") {
  SlotSpec slot;
  slot.kind = wire::kind_signal;
  slot.stop = wire::stop_end_run;
  CHECK(judged(success(), slot) == "success run.completed");
}

TEST_CASE("a cause wins over a missing verdict and over a success, not over a failure that says more") {
  SlotSpec slot;
  slot.cause = "adapter-crashed";
  slot.detail = "three times on one input";
  CHECK(judged(std::nullopt, slot) == "failed:adapter-crashed run.failed");
  CHECK(judged(success(), slot) == "failed:adapter-crashed run.failed lowered");
  CHECK(judged(Verdict{"failed", "provider-error", "", "quota", "", ""}, slot) ==
        "failed:provider-error run.failed");
  CHECK(judged(Verdict{"failed", "no-verdict", "", "none", "", ""}, slot) ==
        "failed:adapter-crashed run.failed");
  CHECK(resolve(std::nullopt, slot_of(slot)).error == "three times on one input");
  slot.cause = "run-timeout";
  slot.stop = wire::stop_timeout;
  CHECK(judged(success(), slot) == "failed:run-timeout run.failed lowered");
}

TEST_CASE("no verdict and no cause is failed, no-verdict; nothing is ever raised") {
  CHECK(judged(std::nullopt, {}) == "failed:no-verdict run.failed");
  CHECK(judged(Verdict{"failed", "x", "", "e", "", ""}, {}) == "failed:x run.failed");
  CHECK(judged(Verdict{"blocked", "b", "s", "", "", ""}, {}) == "blocked:b run.failed");
  CHECK(judged(Verdict{"partial", "p", "s", "", "", ""}, {}) == "partial:p run.failed");
  CHECK(judged(Verdict{"interrupted", "i", "s", "", "", ""}, {}) == "interrupted:i run.interrupted");
  SlotSpec stopped;
  stopped.stop = wire::stop_asked;
  CHECK(judged(std::nullopt, stopped) == "interrupted:stopped run.interrupted");
  CHECK_FALSE(attempt::parse_verdict(json::Value::object({{"status", "great"}})));
}

TEST_CASE("blockers make a success partial and touch nothing else") {
  json::Value blockers;
  blockers.push(json::Value::object({{"code", "forbidden-commit-created"}}));
  const auto r = attempt::with_blockers(resolve(success(), slot_of({})), blockers);
  CHECK(r.status == "partial");
  CHECK(r.code == "forbidden-commit-created");
  CHECK(r.terminal_kind == "run.failed");
  CHECK(attempt::with_blockers(resolve(std::nullopt, slot_of({})), blockers).code == "no-verdict");
}

TEST_CASE("a completion result is canonical, bounded, digest-bound, and its key depends on the claim alone") {
  attempt::CompletionInput input;
  input.header = json::Value::object({{"taskId", "t"},
                                      {"attemptId", "attempt_1"},
                                      {"provider", "codex-cli"},
                                      {"taskEnvelopeDigest", "sha256:aa"}});
  input.verdict = success();
  input.verdict->summary = "caf\xc3\xa9 \x7f \xff" + std::string(30'000, 'x');
  input.slot = slot_of({});
  input.resolution = resolve(input.verdict, input.slot);
  input.events = 12;
  input.completed_unix_ms = 1'767'225'600'000;
  json::Value extra = json::Value::array();
  extra.push(json::Value::object({{"id", "commits"}}));
  input.workspace_evidence =
      json::Value::object({{"changedFiles", json::Value::array()}, {"evidence", extra}});
  const auto document =
      must(attempt::seal_completion(attempt::completion_body(input), "runevt_1", 13, "sha256:bb"));
  must(verify_document(document));
  CHECK(document.get("schemaVersion").as_string() == "completion-result/v1");
  CHECK(document.get("summary").as_string().size() <= 20'000);
  CHECK(document.get("summary").as_string().find('\x7f') == std::string::npos);
  CHECK(document.get("error").is_null());
  CHECK(document.get("terminal").get("line").as_string() == "sha256:bb");
  CHECK(document.get("continuation").get("reference").as_string() == "th_1");
  CHECK(document.get("evidence").items().size() == 2);
  CHECK(document.find("changedFiles") != nullptr);
  CHECK(document.find("verification") == nullptr);  // what a later part fills is absent, not faked

  attempt::CompletionInput later = input;
  later.completed_unix_ms += 1000;
  later.workspace_evidence = {};
  CHECK(attempt::completion_body(later).get("idempotencyKey") ==
        attempt::completion_body(input).get("idempotencyKey"));
  later.resolution.summary = "another claim";
  CHECK_FALSE(attempt::completion_body(later).get("idempotencyKey") ==
              attempt::completion_body(input).get("idempotencyKey"));
}
