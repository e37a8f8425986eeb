#include "finish/finish.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <thread>

#include "attempt/attempt.hpp"
#include "attempt/completion.hpp"
#include "attempt/completion_check.hpp"
#include "attempt/exit_slot.hpp"
#include "attempt/names.hpp"
#include "core/canonical.hpp"
#include "core/file.hpp"
#include "core/ids.hpp"
#include "finish/blocker.hpp"
#include "finish/cleanup.hpp"
#include "finish/judge.hpp"
#include "journal/journal.hpp"
#include "journal/reader.hpp"
#include "store/store.hpp"
#include "workspace/worktree_manifest.hpp"

namespace hitchrail::finish {
namespace {

constexpr std::size_t max_event_summary = 500;

Error finish_error(const char* code, const std::string& id, std::string detail) {
  return Error{ErrorClass::environment,       code, "finish run", id, std::move(detail),
               "hitchrail runs recover " + id};
}

struct Terminal {
  std::string event_id, line_hash, payload;
  std::uint64_t sequence = 0;
};
struct Journaled {
  std::optional<attempt::Verdict> verdict;
  std::optional<Terminal> terminal;
  std::uint64_t events = 0;
  std::uint64_t gate_starts = 0;
};

// The last verdict and the terminal event, through the verified chain.
Result<Journaled> read_journal(int attempt_dirfd) {
  Journaled out;
  HR_TRY(reader, journal::Reader::open(attempt_dirfd));
  for (;;) {
    HR_TRY(line, reader.next());
    if (!line) {
      return out;
    }
    out.events = line->sequence;
    out.gate_starts += line->kind == "verification.started" ? 1 : 0;
    if (line->kind == "run.verdict") {
      HR_TRY(payload, journal::whole_payload(attempt_dirfd, line->payload));
      HR_TRY(value, json::parse(payload, json::Duplicates::first_wins, "run.verdict"));
      out.verdict = attempt::parse_verdict(value);
    } else if (journal::is_terminal_kind(line->kind)) {
      HR_TRY(event, json::parse(line->text, json::Duplicates::first_wins, "terminal event"));
      HR_TRY(payload, journal::whole_payload(attempt_dirfd, line->payload));
      out.terminal = Terminal{event.get("eventId").as_string(), std::string(line->hash), std::move(payload),
                              line->sequence};
    }
  }
}

class Finisher {
 public:
  Finisher(attempt::Directory directory, const Options& options)
      : directory_(std::move(directory)), options_(options) {}

  Status run() {
    if (::unlinkat(directory_.fd(), attempt::reserve_name, 0) != 0 && errno != ENOENT) {
      return errno_error("give back the reserve", attempt::reserve_name, errno);
    }
    step(Step::begun);
    auto done = attempt::completion(directory_);
    if (done.has_error()) {
      HR_TRY(written, end_run());
      completion_ = std::move(written);
    } else {
      completion_ = std::move(done).value();
    }
    step(Step::completion);
    HR_CHECK(project());
    step(Step::database);
    HR_CHECK(cleanup(directory_.fd(), directory_.header(), completion_.get("privateGitKept").as_bool()));
    step(Step::cleaned);
    // Last: as long as it is there, the finish is not complete.
    if (::unlinkat(directory_.fd(), attempt::token_name, 0) != 0 && errno != ENOENT) {
      return errno_error("remove token", attempt::token_name, errno);
    }
    if (::fsync(directory_.fd()) != 0) {
      return errno_error("sync attempt", directory_.id(), errno);
    }
    step(Step::token_removed);
    return {};
  }

 private:
  void step(Step now) const {
    if (options_.after != nullptr) {
      options_.after(now);
    }
  }

  Result<json::Value> end_run();
  Result<journal::Writer> lock_journal();
  Result<json::Value> body(const wire::ExitSlot& slot, const Journaled& seen, journal::Writer& writer,
                           attempt::Resolution& resolution);
  Gates run_gates(std::string skip, std::uint64_t round, journal::Writer& writer);
  [[nodiscard]] json::Value read_envelope() const;
  Status write_terminal(journal::Writer& writer, const attempt::Resolution& resolution,
                        const json::Value& body);
  Result<json::Value> end_damaged(const wire::ExitSlot& slot, const Error& damage);
  Result<json::Value> write_completion(json::Value document);
  Status project();

  attempt::Directory directory_;
  const Options& options_;
  json::Value completion_;
};

// The writer before this one may be dying still; an attempt that was never started may have no journal yet.
Result<journal::Writer> Finisher::lock_journal() {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(options_.journal_wait_ms);
  journal::Limits limits;  // whatever the run's own bounds were, its end is written
  limits.max_bytes = limits.max_spill_bytes = std::uint64_t{1} << 50;
  limits.max_events = std::uint64_t{1} << 50;
  for (;;) {
    auto writer = journal::Writer::open(directory_.fd(), ~std::uint64_t{0}, limits);
    if (writer.has_value()) {
      return writer;
    }
    if (writer.error().code == "journal-absent") {
      const json::Value& header = directory_.header();
      const journal::Identity identity{directory_.id(),
                                       header.get("taskId").as_string(),
                                       header.get("provider").as_string(),
                                       header.get("adapter").as_string(),
                                       header.get("agent").as_string(),
                                       header.get("model").as_string()};
      return journal::Writer::create(directory_.fd(), identity, header, limits);
    }
    if (writer.error().code != "journal-locked" || std::chrono::steady_clock::now() >= until) {
      return writer;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

// What a gate comes to is durable before anybody can see it in a result.
Gates Finisher::run_gates(std::string skip, std::uint64_t round, journal::Writer& writer) {
  if (!options_.gates) {
    return {};
  }
  GateCall call;
  call.skip = std::move(skip);
  call.round = round;
  call.redactor = options_.redactor;
  call.record = [&writer](const std::string& kind, const std::string& key, const std::string& summary,
                          const json::Value& fields) -> Status {
    const std::string text = json::write(fields);
    journal::Draft draft;
    draft.kind = kind;
    draft.origin.key = key;
    draft.summary = summary;
    draft.fields_json = text;
    HR_CHECK(writer.append(draft, unix_millis_now()));
    HR_TRY(position, writer.commit());
    (void)position;
    return {};
  };
  return options_.gates(directory_.fd(), directory_.header(), call);
}

Result<json::Value> Finisher::body(const wire::ExitSlot& slot, const Journaled& seen, journal::Writer& writer,
                                   attempt::Resolution& resolution) {
  attempt::CompletionInput input;
  input.header = directory_.header();
  input.verdict = seen.verdict;
  input.slot = slot;
  input.events = seen.events;
  input.completed_unix_ms = unix_millis_now();
  const attempt::Resolution claimed = attempt::resolve(seen.verdict, slot);
  std::optional<Gates> gates;
  const auto run = [&]() -> const Gates& {
    if (!gates) {
      gates = run_gates(claimed.status == "success" ? "" : "run-not-successful", seen.gate_starts, writer);
      step(Step::gates);
    }
    return *gates;
  };
  Workspace found;
  if (options_.workspace) {
    auto workspace = options_.workspace(directory_.fd(), directory_.header(), run);
    if (workspace.has_value()) {
      found = std::move(workspace).value();
    } else {
      const Error& error = workspace.error();
      // Not retryable: the commits stay in git/, nothing tries again by itself.
      block(found.blockers, "workspace-evidence-failed",
            "what the run left in the workspace could not be read or imported",
            error.code + ": " + error.operation + " " + error.object + ": " + error.detail, false);
      if (!gates) {
        gates = run_gates("evidence-failed", seen.gate_starts, writer);
      }
      found.members.set("verification", gates->verification);
      found.members.set("evidence", gates->evidence);
      found.keep_git = true;
    }
  }
  step(Step::evidence);
  const json::Value envelope = read_envelope();
  input.terminal_requirements = judge({envelope, seen.verdict, claimed, slot, seen.events}, found);
  input.workspace_evidence = std::move(found.members);
  input.blockers = std::move(found.blockers);
  const auto write_body = [&] {
    resolution = attempt::with_blockers(claimed, input.blockers);
    input.resolution = resolution;
    return attempt::completion_body(input);
  };
  json::Value body = write_body();
  // Our own result is held against the rules like anybody's: a success that breaks one is none.
  if (const Status sound = attempt::check_completion(body, envelope);
      sound.has_error() && resolution.status == "success") {
    block(input.blockers, sound.error().code, "the result does not hold to its own rules",
          sound.error().object + ": " + sound.error().detail, false);
    body = write_body();
  }
  if (found.keep_git) {
    body.set("privateGitKept", true);
  }
  return body;
}

// Null when it is not there or cannot be read: what the run did is told all the same.
json::Value Finisher::read_envelope() const {
  auto manifests = open_at(directory_.fd(), "manifests", O_RDONLY | O_DIRECTORY);
  if (manifests.has_error()) {
    return {};
  }
  auto text = read_file_at(manifests.value().get(), "task-envelope.json", attempt::max_document);
  if (text.has_error()) {
    return {};
  }
  auto parsed = json::parse(text.value(), json::Duplicates::refuse, "task-envelope.json");
  return parsed.has_value() ? std::move(parsed).value() : json::Value();
}

Status Finisher::write_terminal(journal::Writer& writer, const attempt::Resolution& resolution,
                                const json::Value& body) {
  json::Value fields = json::Value::object();
  fields.set("status", resolution.status);
  if (!resolution.code.empty()) {
    fields.set("code", resolution.code);
  }
  fields.set("completion", body);
  const std::string text = json::write(fields);
  const std::string summary = attempt::document_text(body.get("summary").as_string(), max_event_summary);
  journal::Draft draft;
  draft.kind = resolution.terminal_kind;
  draft.origin.key = "run.terminal";
  draft.summary = summary;
  draft.fields_json = text;
  HR_CHECK(writer.append(draft, unix_millis_now()));
  HR_TRY(position, writer.commit());
  (void)position;
  return {};
}

Result<json::Value> Finisher::end_run() {
  auto slot = attempt::read_exit_slot(directory_.fd());
  if (slot.has_error() || slot.value().state != wire::exit_ended) {
    return finish_error("attempt-not-ended", directory_.id(),
                        "its exit record does not say that the run is over");
  }
  auto writer = lock_journal();
  if (writer.has_error()) {
    if (writer.error().code == "journal-damaged" || writer.error().code == "journal-unsafe") {
      return end_damaged(slot.value(), writer.error());
    }
    return std::move(writer).error();
  }
  writer.value().set_redactor(options_.redactor);
  step(Step::journal_locked);
  HR_TRY(seen, read_journal(directory_.fd()));
  step(Step::judged);
  if (!seen.terminal) {
    attempt::Resolution resolution;
    HR_TRY(result, body(slot.value(), seen, writer.value(), resolution));
    HR_CHECK(write_terminal(writer.value(), resolution, result));
    // Read back rather than remembered: the first finisher and one that finds the event go the same way from
    // here.
    HR_TRY(again, read_journal(directory_.fd()));
    seen = std::move(again);
  }
  step(Step::terminal_event);
  if (!seen.terminal) {
    return finish_error("terminal-event-missing", directory_.id(),
                        "the terminal event was written and is not there");
  }
  HR_TRY(payload, json::parse(seen.terminal->payload, json::Duplicates::first_wins, "terminal event"));
  HR_TRY(document, attempt::seal_completion(payload.get("completion"), seen.terminal->event_id,
                                            seen.terminal->sequence, seen.terminal->line_hash));
  return write_completion(std::move(document));
}

Result<json::Value> Finisher::end_damaged(const wire::ExitSlot& slot, const Error& damage) {
  attempt::CompletionInput input;
  input.header = directory_.header();
  input.slot = slot;
  input.completed_unix_ms = unix_millis_now();
  input.resolution = {"failed", "run.failed", damage.code, "", damage.detail, "process", false};
  json::Value body = attempt::completion_body(input);
  body.set("privateGitKept", true);
  HR_TRY(digest, seal_document(body));
  (void)digest;
  return write_completion(std::move(body));
}

Result<json::Value> Finisher::write_completion(json::Value document) {
  HR_CHECK(write_file_atomic(directory_.fd(), attempt::completion_name, json::write(document, 2) + "\n"));
  return document;
}

// The database lies two levels up; an attempt directory that was moved elsewhere is not projected into a
// stranger's.
Status Finisher::project() {
  HR_TRY(state, open_state_home(directory_.fd(), directory_.id()));
  HR_TRY(store, store::Store::open(state.get()));
  const json::Value& header = directory_.header();
  store::AttemptRow row;
  row.attempt_id = directory_.id();
  row.task_id = header.get("taskId").as_string();
  row.provider = header.get("provider").as_string();
  row.agent = header.get("agent").as_string();
  row.worktree = header.get("worktree").as_string();
  const std::string& status = completion_.get("status").as_string();
  row.state = status == "success" ? "completed" : status == "interrupted" ? "interrupted" : "failed";
  row.code = completion_.get("code").as_string();
  row.created_unix_ms = header.get("createdUnixMs").as_int().value_or(0);
  row.finished_unix_ms = unix_millis_now();
  HR_CHECK(store.finish_attempt(row));
  const std::string& managed = header.get("worktreeManifestId").as_string();
  if (managed.empty()) {
    return {};
  }
  const Status released = workspace::release_worktree(state.get(), managed, directory_.id());
  // Its time was up and another attempt has it by now, or its manifest is gone or broken: `worktrees list`
  // says so, and no later finisher could do better.
  const bool tolerable = released.has_value() || released.error().code == "lease-not-owner" ||
                         released.error().code.starts_with("worktree-");
  return tolerable && !(released.has_error() && released.error().code == "worktree-locked") ? Status{}
                                                                                            : released;
}

}  // namespace

Status finish_attempt(int attempt_dirfd, const Options& options) {
  Fd own(::fcntl(attempt_dirfd, F_DUPFD_CLOEXEC, 4));
  if (!own.valid()) {
    return errno_error("open attempt", "attempt directory", errno);
  }
  HR_TRY(directory, attempt::Directory::adopt(std::move(own)));
  return Finisher(std::move(directory), options).run();
}

}  // namespace hitchrail::finish
