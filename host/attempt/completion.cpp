#include "attempt/completion.hpp"

#include <algorithm>
#include <array>

#include "attempt/exit_slot.hpp"
#include "core/canonical.hpp"
#include "core/ids.hpp"
#include "core/text.hpp"

namespace hitchrail::attempt {
namespace {

constexpr std::size_t max_summary = 20'000;
constexpr std::size_t max_reference = 4096;
constexpr std::array statuses = {"success", "failed", "blocked", "interrupted", "partial"};

json::Value text_value(std::string_view text, std::size_t limit) {
  return json::Value(document_text(text, limit));
}

json::Value exit_value(const wire::ExitSlot& slot) {
  json::Value exit = json::Value::object();
  exit.set("kind", exit_kind_name(slot.kind));
  if (slot.kind == wire::kind_code || slot.kind == wire::kind_signal) {
    exit.set("value", static_cast<std::int64_t>(slot.value));
  }
  exit.set("source", exit_source_name(slot.source));
  return exit;
}

json::Value terminal_evidence(const CompletionInput& input) {
  json::Value evidence = json::Value::object();
  evidence.set("id", "terminal-" + input.resolution.terminal_source);
  evidence.set("kind", input.verdict ? "provider-output" : "process-exit");
  evidence.set("source", "harness");
  evidence.set("summary", input.verdict
                              ? "the adapter's verdict over the journaled records: " + input.verdict->status
                              : "the exit as the supervisor saw it: " + exit_kind_name(input.slot.kind));
  evidence.set("reference", "journal.jsonl");
  evidence.set("requirementIds", input.terminal_requirements.is_array()
                                     ? input.terminal_requirements
                                     : json::Value::array({json::Value("terminal-state")}));
  evidence.set("verified", true);
  return evidence;
}

void lower(Resolution& r, const char* code, std::string error) {
  r.lowered = r.status == "success";
  r.status = "failed";
  r.code = code;
  r.error = std::move(error);
}

std::string terminal_kind_of(const std::string& status) {
  return status == "success" ? "run.completed" : status == "interrupted" ? "run.interrupted" : "run.failed";
}

}  // namespace

// Text of a harness as a member of a canonical document: valid UTF-8, bounded, and without U+007F, which jq
// would write differently.
std::string document_text(std::string_view text, std::size_t limit) {
  std::string out;
  for (const char c : is_valid_utf8(text) ? std::string(text) : escape_visible(text, true)) {
    if (c == 0x7f) {
      out += "\\x7f";
    } else {
      out += c;
    }
  }
  if (out.size() > limit) {
    std::size_t end = limit;
    while (end > 0 && (static_cast<unsigned char>(out[end]) & 0xC0) == 0x80) {
      --end;
    }
    out.resize(end);
  }
  return out;
}

std::optional<Verdict> parse_verdict(const json::Value& payload) {
  Verdict verdict;
  verdict.status = payload.get("status").as_string();
  if (std::find(statuses.begin(), statuses.end(), verdict.status) == statuses.end()) {
    return std::nullopt;
  }
  verdict.code = payload.get("code").as_string();
  verdict.summary = payload.get("summary").as_string();
  verdict.error = payload.get("error").as_string();
  verdict.details = payload.get("details");
  verdict.continuation_kind = payload.get("continuation").get("kind").as_string();
  verdict.continuation_reference = payload.get("continuation").get("reference").as_string();
  return verdict;
}

Resolution resolve(const std::optional<Verdict>& verdict, const wire::ExitSlot& slot) {
  const std::string cause = slot_text(slot.cause, sizeof slot.cause);
  const std::string cause_detail = slot_text(slot.cause_detail, sizeof slot.cause_detail);
  const bool asked = slot.stop_requested == wire::stop_asked || slot.stop_requested == wire::stop_kill;
  Resolution r;
  r.terminal_source = asked ? "operator-interruption" : verdict ? "stream" : "process";
  if (verdict) {
    r.status = verdict->status;
    r.code = verdict->code;
    r.summary = verdict->summary;
    r.error = verdict->error;
  }
  if (asked) {
    r.lowered = r.status == "success";
    if (r.status != "interrupted") {
      r.status = "interrupted";
      r.code = slot.stop_requested == wire::stop_kill ? "killed" : "stopped";
      r.error.clear();
    }
  } else if (!cause.empty() && (!verdict || verdict->status == "success" || verdict->code == "no-verdict")) {
    lower(r, cause.c_str(), cause_detail.empty() ? cause : cause_detail);
  } else if (!verdict) {
    lower(r, "no-verdict", "the adapter has not said how the work ended");
  } else if (verdict->status == "success" && slot.stop_requested != wire::stop_end_run) {
    if (slot.kind == wire::kind_signal) {
      lower(r, "exit-by-signal", "the harness was ended by signal " + std::to_string(slot.value));
    } else if (slot.kind != wire::kind_code) {
      lower(r, "exit-unknown", "nobody saw how the harness ended");
    }
  }
  if (r.status == "failed" && r.error.empty()) {
    r.error = r.summary.empty() ? "the run failed" : r.summary;
  }
  r.terminal_kind = terminal_kind_of(r.status);
  return r;
}

Resolution with_blockers(Resolution resolution, const json::Value& blockers) {
  if (resolution.status == "success" && !blockers.items().empty()) {
    resolution.status = "partial";
    resolution.code = blockers.items().front().get("code").as_string();
    resolution.lowered = true;
    resolution.terminal_kind = terminal_kind_of(resolution.status);
  }
  return resolution;
}

json::Value completion_body(const CompletionInput& input) {
  const Resolution& r = input.resolution;
  const json::Value& header = input.header;
  json::Value body = json::Value::object();
  body.set("schemaVersion", "completion-result/v1");
  json::Value identity =
      json::Value::object();  // of the claim: the same claim gives the same key, whatever was seen around it
  const auto both = [&](const char* key, const json::Value& value) {
    body.set(key, value);
    identity.set(key, value);
  };
  for (const char* key : {"taskId", "attemptId"}) {
    both(key, header.get(key));
  }
  for (const char* key : {"taskEnvelopeDigest", "providerRuntimeManifestDigest", "runLaunchManifestDigest"}) {
    if (header.find(key) != nullptr) {
      both(key, header.get(key));
    }
  }
  if (header.find("taskEnvelopeDigest") != nullptr) {
    body.set("taskEnvelopeSchemaVersion", "task-envelope/v1");
  }
  both("terminalSource", r.terminal_source);
  both("status", r.status);
  if (!r.code.empty()) {
    both("code", text_value(r.code, 240));
  }
  both("summary",
       text_value(r.summary.empty() ? (r.status == "success" ? "done" : r.error) : r.summary, max_summary));
  both("error", r.status == "failed" ? text_value(r.error, max_summary) : json::Value());
  json::Value blockers = json::Value::array(input.blockers.items());
  if (r.status == "blocked") {
    json::Value blocker = json::Value::object();
    blocker.set("code", r.code.empty() ? "provider-blocked" : r.code);
    blocker.set("summary", text_value(r.summary, 500));
    blocker.set("detail", text_value(r.error, max_reference));
    blocker.set("retryable", true);
    blockers.push(std::move(blocker));
  }
  body.set("blockers", std::move(blockers));
  if (input.verdict && !input.verdict->continuation_kind.empty()) {
    json::Value continuation = json::Value::object();
    continuation.set("provider", header.get("provider"));
    continuation.set("kind", input.verdict->continuation_kind);
    continuation.set("reference", text_value(input.verdict->continuation_reference, max_reference));
    both("continuation", continuation);
  } else {
    both("continuation", json::Value());
  }
  if (input.verdict && r.lowered) {
    body.set("claimedStatus", input.verdict->status);
  }
  body.set("exit", exit_value(input.slot));
  const std::string cause = slot_text(input.slot.cause, sizeof input.slot.cause);
  if (!cause.empty()) {
    body.set("cause",
             json::Value::object(
                 {{"code", text_value(cause, 240)},
                  {"detail", text_value(slot_text(input.slot.cause_detail, sizeof input.slot.cause_detail),
                                        max_reference)}}));
  }
  body.set("runnerRestarts", static_cast<std::int64_t>(input.slot.runner_restarts));
  body.set("evidence", json::Value::array({terminal_evidence(input)}));
  for (const auto& [key, value] : input.workspace_evidence.members()) {
    if (key == "evidence") {
      json::Value all = body.get("evidence");
      for (const json::Value& item : value.items()) {
        all.push(item);
      }
      body.set("evidence", std::move(all));
    } else {
      body.set(key, value);
    }
  }
  auto key = canonicalize(identity);
  body.set("idempotencyKey", sha256_prefixed(key.has_value() ? key.value() : json::write(identity)));
  body.set("journal", json::Value::object({{"events", json::Value(input.events)}}));
  body.set("startedAt",
           input.slot.started_unix_ms > 0 ? json::Value(iso8601(input.slot.started_unix_ms)) : json::Value());
  body.set("completedAt", iso8601(input.completed_unix_ms));
  return body;
}

Result<json::Value> seal_completion(json::Value body, const std::string& event_id, std::uint64_t sequence,
                                    const std::string& line_hash) {
  body.set("terminal", json::Value::object({{"eventId", json::Value(event_id)},
                                            {"sequence", json::Value(sequence)},
                                            {"line", json::Value(line_hash)}}));
  HR_TRY(digest, seal_document(body));
  (void)digest;
  return body;
}

}  // namespace hitchrail::attempt
