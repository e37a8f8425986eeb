#include <sys/stat.h>

#include "finish_fixture.hpp"

using namespace hitchrail;
using namespace hitchrail::test;
using finish::Options;
using finish::Step;

namespace {

Step die_at = Step::begun;
void die(Step step) {
  if (step == die_at) {
    ::raise(SIGKILL);
  }
}

// A finisher in a process of its own; the wait status.
int finisher(const Ended& ended, const Options& options) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(finish::finish_attempt(ended.directory.fd(), options).has_value() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

int workspace_calls = 0;
Options with_workspace() {
  Options options;
  options.workspace = [](int, const json::Value& header, const auto& gates) -> Result<finish::Workspace> {
    ++workspace_calls;
    CHECK(header.get("attemptId").as_string() == "attempt_ended1");
    finish::Workspace out;
    (void)gates();
    out.members.set("changedFiles", json::Value::array());
    return out;
  };
  return options;
}

const char* const verdict =
    R"({"status":"success","continuation":{"kind":"thread","reference":"th_1"},"details":{"x":1.5}})";

}  // namespace

TEST_CASE(
    "a finished run has one terminal event, a sealed result that names it, no lease and no secret left") {
  Ended ended({}, verdict);
  spit(ended.path("s"), "");
  spit(ended.path("c"), "");
  spit(ended.path("temp/leftover"), "x");
  spit(ended.path("git/HEAD"), "x");
  spit(ended.path("home/session"), "kept");
  must(finish::finish_attempt(ended.directory.fd(), with_workspace()));
  CHECK(state_of(ended.directory) == "completed");
  const auto done = ended.completion();
  must(verify_document(done));
  CHECK(done.get("status").as_string() == "success");
  CHECK(done.get("summary").as_string() == "the final answer");
  CHECK(done.get("continuation").get("reference").as_string() == "th_1");
  CHECK(done.get("journal").get("events").as_int() == 2);
  const auto events = events_of(ended.directory.fd());
  REQUIRE(events.size() == 3);
  CHECK(events[2].kind == "run.completed");
  CHECK(done.get("terminal").get("line").as_string() == events[2].line);
  CHECK(done.get("terminal").get("eventId").as_string() == events[2].id);
  CHECK(done.get("terminal").get("sequence").as_int() == 3);
  CHECK(must(journal::verify(ended.directory.fd())).last_line_hash == events[2].line);
  CHECK(must(list_directory(ended.directory.fd())) ==
        std::vector<std::string>{"completion.json", "exit", "header.json", "home", "journal.jsonl", "lock",
                                 "manifests", "spill"});
  CHECK(slurp(ended.path("home/session")) == "kept");
  auto store = must(store::Store::open(ended.state.fd()));
  CHECK(must(store.leases()).empty());
  CHECK(must(store.attempts()).at(0).state == "completed");
}

TEST_CASE("finishing again changes nothing") {
  Ended ended({}, verdict);
  must(finish::finish_attempt(ended.directory.fd(), with_workspace()));
  const std::string before =
      shape(ended) + slurp(ended.path("completion.json")) + slurp(ended.path("journal.jsonl"));
  must(finish::finish_attempt(ended.directory.fd(), with_workspace()));
  CHECK(shape(ended) + slurp(ended.path("completion.json")) + slurp(ended.path("journal.jsonl")) == before);
}

TEST_CASE("a finisher killed after any step is completed by the next one to the same end") {
  std::string expected;
  {
    Ended whole({}, verdict);
    must(finish::finish_attempt(whole.directory.fd(), with_workspace()));
    expected = shape(whole);
  }
  for (const Step step :
       {Step::begun, Step::journal_locked, Step::judged, Step::gates, Step::evidence, Step::terminal_event,
        Step::completion, Step::database, Step::cleaned, Step::token_removed}) {
    INFO("killed after step " << static_cast<int>(step));
    Ended ended({}, verdict);
    die_at = step;
    Options deadly = with_workspace();
    deadly.after = die;
    REQUIRE(WTERMSIG(finisher(ended, deadly)) == SIGKILL);
    if (step != Step::token_removed) {
      CHECK(state_of(ended.directory) == "needs-recovery:finish-incomplete");
    }
    REQUIRE(finisher(ended, with_workspace()) == 0);
    CHECK(shape(ended) == expected);
  }
}

TEST_CASE("a result that was journaled is what completes, not what would be found later") {
  Ended ended({}, verdict);
  die_at = Step::terminal_event;
  Options deadly = with_workspace();
  deadly.after = die;
  finisher(ended, deadly);
  workspace_calls = 0;
  Options other;
  other.workspace = [](int, const json::Value&, const auto&) -> Result<finish::Workspace> {
    FAIL("the evidence is in the journal already");
    return finish::Workspace{};
  };
  must(finish::finish_attempt(ended.directory.fd(), other));
  CHECK(ended.completion().find("changedFiles") != nullptr);
}

TEST_CASE("verdict and exit are judged as the table says, and the terminal event has the same status") {
  const auto end = [](const SlotSpec& slot, const std::string& claim) {
    Ended ended(slot, claim);
    must(finish::finish_attempt(ended.directory.fd(), {}));
    const auto last = events_of(ended.directory.fd()).back();
    CHECK(last.payload.get("status") == ended.completion().get("status"));
    return last.kind + " " + state_of(ended.directory);
  };
  SlotSpec stopped;
  stopped.stop = wire::stop_asked;
  CHECK(end(stopped, verdict) == "run.interrupted interrupted:stopped");
  SlotSpec crashed;
  crashed.cause = "adapter-crashed";
  CHECK(end(crashed, "") == "run.failed failed:adapter-crashed");
  SlotSpec killed;
  killed.kind = wire::kind_signal;
  killed.value = 9;
  CHECK(end(killed, verdict) == "run.failed failed:exit-by-signal");
  CHECK(end({}, "") == "run.failed failed:no-verdict");
  CHECK(end({}, R"({"status":"failed","code":"provider-error","error":"quota"})") ==
        "run.failed failed:provider-error");
}

TEST_CASE("a long final answer is spilled in the journal and whole in the result") {
  const std::string answer(15'000, 'a');
  Ended ended({}, R"({"status":"success","unused":")" + answer + R"("})");
  must(finish::finish_attempt(ended.directory.fd(), {}));
  CHECK(ended.completion().get("status").as_string() == "success");
  CHECK(state_of(ended.directory) == "completed");
}

TEST_CASE("workspace blockers make a success partial, its failure keeps the private git directory") {
  Ended blocked({}, verdict);
  Options options;
  options.workspace = [](int, const json::Value&, const auto&) -> Result<finish::Workspace> {
    finish::Workspace out;
    out.blockers.push(json::Value::object({{"code", "forbidden-commit-created"}}));
    out.keep_git = true;
    return out;
  };
  must(finish::finish_attempt(blocked.directory.fd(), options));
  CHECK(state_of(blocked.directory) == "failed:forbidden-commit-created");
  CHECK(blocked.completion().get("claimedStatus").as_string() == "success");
  struct stat info {};
  CHECK(::stat(blocked.path("git").c_str(), &info) == 0);

  Ended broken({}, verdict);
  options.workspace = [](int, const json::Value&, const auto&) -> Result<finish::Workspace> {
    return Error{ErrorClass::failed, "git-failed", "import", "x", "it broke \x7f", ""};
  };
  must(finish::finish_attempt(broken.directory.fd(), options));
  CHECK(state_of(broken.directory) == "failed:workspace-evidence-failed");
  CHECK(::stat(broken.path("git").c_str(), &info) == 0);
}

TEST_CASE("an attempt without a journal gets one with its terminal event") {
  SlotSpec slot;
  slot.cause = "start-failed";
  slot.kind = wire::kind_none;
  Ended ended(slot, "");
  ::unlink(ended.path("journal.jsonl").c_str());
  must(finish::finish_attempt(ended.directory.fd(), {}));
  CHECK(state_of(ended.directory) == "failed:start-failed");
  CHECK(events_of(ended.directory.fd()).size() == 1);
}

TEST_CASE("a damaged journal stays as it is and the run is failed by name, the lease freed") {
  Ended ended({}, verdict);
  std::string bytes = slurp(ended.path("journal.jsonl"));
  bytes[bytes.size() / 2] ^= 1;
  spit(ended.path("journal.jsonl"), bytes);
  must(finish::finish_attempt(ended.directory.fd(), {}));
  CHECK(state_of(ended.directory) == "failed:journal-damaged");
  CHECK(slurp(ended.path("journal.jsonl")) == bytes);
  must(verify_document(ended.completion()));
  auto store = must(store::Store::open(ended.state.fd()));
  CHECK(must(store.leases()).empty());
}

TEST_CASE("a run that has not ended is not finished, and nothing of it is touched") {
  SlotSpec slot;
  slot.state = wire::exit_running;
  Ended ended(slot, verdict);
  const auto before = slurp(ended.path("journal.jsonl"));
  const auto refused = finish::finish_attempt(ended.directory.fd(), {});
  CHECK(code_of(refused) == "attempt-not-ended");
  CHECK(slurp(ended.path("journal.jsonl")) == before);
  auto store = must(store::Store::open(ended.state.fd()));
  CHECK(must(store.leases()).size() == 1);
}

TEST_CASE("a journal that is still written is waited for, then refused") {
  Ended ended({}, verdict);
  Options options;
  options.journal_wait_ms = 50;
  auto writer = std::make_optional(must(journal::Writer::open(ended.directory.fd())));
  CHECK(code_of(finish::finish_attempt(ended.directory.fd(), options)) == "journal-locked");
  writer.reset();
  must(finish::finish_attempt(ended.directory.fd(), options));
}

TEST_CASE("login copies are removed, through no link") {
  TempDir state;
  auto fresh = new_attempt("attempt_login1");
  fresh.login_files = {".codex/auth.json", "gone/auth.json", "linked/auth.json", "top.json"};
  auto published = must(must(attempt::Builder::begin(state.fd(), fresh)).publish());
  const std::string home = state / "attempts/attempt_login1/home/";
  REQUIRE(::mkdir((home + ".codex").c_str(), 0700) == 0);
  spit(home + ".codex/auth.json", "secret");
  spit(home + ".codex/config.toml", "kept");
  spit(home + "top.json", "secret");
  spit(state / "auth.json", "somebody else's");
  REQUIRE(::symlink("../../..", (home + "linked").c_str()) == 0);
  published.lock.release();
  must(attempt::write_exit_slot(published.directory.fd(), slot_of({})));
  must(finish::finish_attempt(published.directory.fd(), {}));
  CHECK(slurp(home + ".codex/auth.json").empty());
  CHECK(slurp(home + "top.json").empty());
  CHECK(slurp(home + ".codex/config.toml") == "kept");
  CHECK(slurp(state / "auth.json") == "somebody else's");
}

TEST_CASE("an attempt directory that was moved out of its state home is not projected into another one") {
  Ended ended({}, verdict);
  REQUIRE(::rename(ended.path("").c_str(), (ended.state / "moved").c_str()) == 0);
  CHECK(code_of(finish::finish_attempt(ended.directory.fd(), {})) == "attempt-moved");
}
