// What the real program printed (plugins/codex-cli/fixtures, see record.py there), through the whole life of
// a session.

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "driver.hpp"
#include "json_view.hpp"

using namespace hitchrail::codex_cli;
using namespace hitchrail::codex_cli::test;

namespace {

std::optional<std::string> read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return std::nullopt;
  }
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

struct Fixture {
  std::string name, stdout_bytes, stderr_bytes;
  std::optional<std::string> session, last_message;
  std::uint32_t exit_kind = HR_EXIT_CODE;
  int exit_value = 0;
};

Fixture load(const std::string& name) {
  const std::filesystem::path folder =
      std::filesystem::path(HITCHRAIL_SOURCE_DIR) / "plugins/codex-cli/fixtures" / name;
  Fixture out;
  out.name = name;
  REQUIRE(read_file(folder / "stdout.jsonl"));
  out.stdout_bytes = *read_file(folder / "stdout.jsonl");
  out.stderr_bytes = read_file(folder / "stderr.txt").value_or("");
  out.session = read_file(folder / "session.jsonl");
  out.last_message = read_file(folder / "last-message");
  const std::string exit = read_file(folder / "exit.json").value();
  const json::View view(exit);
  out.exit_kind = view.get("kind").equals("code") ? HR_EXIT_CODE : HR_EXIT_SIGNAL;
  out.exit_value = static_cast<int>(view.get("value").count().value());
  return out;
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(HITCHRAIL_SOURCE_DIR) /
                                                               "plugins/codex-cli/fixtures")) {
    if (entry.is_directory()) {
      out.push_back(entry.path().filename().string());
    }
  }
  return out;
}

std::vector<std::string> lines(const std::string& bytes) {
  std::vector<std::string> out;
  std::istringstream in(bytes);
  for (std::string line; std::getline(in, line);) {
    out.push_back(line);
  }
  return out;
}

std::string resume_launch(const std::string& thread) {
  std::string launch = default_launch();
  launch.pop_back();
  return launch + R"(,"conversation":{"id":")" + thread + "\"}}";
}

void feed_files(Run& run, const Fixture& fixture) {
  if (fixture.session) {
    for (const std::string& line : lines(*fixture.session)) {
      REQUIRE(run.record(HR_STREAM_FILE_FIRST, line) == HR_OK);
    }
  } else {
    REQUIRE(run.record(HR_STREAM_FILE_FIRST, "", HR_RECORD_ABSENT) == HR_OK);
  }
  REQUIRE(run.record(HR_STREAM_FILE_FIRST + 1, fixture.last_message.value_or(""),
                     fixture.last_message ? 0 : HR_RECORD_ABSENT) == HR_OK);
}

// Everything of a fixture in the order of a run.
void play(Run& run, const Fixture& fixture, bool stop_requested = false) {
  REQUIRE(run.result == HR_OK);
  for (const std::string& line : lines(fixture.stderr_bytes)) {
    REQUIRE(run.record(HR_STREAM_STDERR, line) == HR_OK);
  }
  for (const std::string& line : lines(fixture.stdout_bytes)) {
    REQUIRE(run.stdout_line(line) == HR_OK);
  }
  REQUIRE(run.exit(fixture.exit_kind, fixture.exit_value, stop_requested) == HR_OK);
  feed_files(run, fixture);
  REQUIRE(run.end() == HR_OK);
  REQUIRE(run.heard.verdict);
}

std::vector<std::uint32_t> kinds(const Run& run) {
  std::vector<std::uint32_t> out;
  for (const Event& event : run.heard.events) {
    out.push_back(event.kind);
  }
  return out;
}

Verdict verdict_of(const std::string& name, bool stop_requested = false) {
  Run run(default_launch());
  play(run, load(name), stop_requested);
  return *run.heard.verdict;
}

using Kinds = std::vector<std::uint32_t>;

}  // namespace

TEST_CASE("A command and a patch give each step and a success with the last message") {
  Run run(default_launch());
  play(run, load("a-command-and-a-patch"));
  CHECK(kinds(run) == Kinds{HR_EVENT_CONVERSATION_STARTED, HR_EVENT_PROGRESS, HR_EVENT_REASONING_DELTA,
                            HR_EVENT_MESSAGE_ASSISTANT, HR_EVENT_COMMAND_STARTED, HR_EVENT_COMMAND_COMPLETED,
                            HR_EVENT_PROGRESS, HR_EVENT_FILE_CHANGED, HR_EVENT_MESSAGE_ASSISTANT,
                            HR_EVENT_PROGRESS, HR_EVENT_USAGE_UPDATED});
  const Verdict& verdict = *run.heard.verdict;
  CHECK(verdict.status == HR_VERDICT_SUCCESS);
  CHECK(verdict.code.empty());
  CHECK(verdict.summary == "Done: two notes.");
  CHECK(verdict.continuation_kind == "thread");
  CHECK(verdict.continuation_reference == run.heard.conversations.at(0));
  CHECK(
      verdict.details ==
      R"({"exit":{"kind":"code","value":0},"sessionFile":"read","commandsAsked":2,"workItems":2,)"
      R"("failedItems":0,"notStarted":0,"openItems":0,"truncatedRecords":0,"finalAnswer":"same","findings":[]})");
  // 1000 + 1100 + 1200 tokens in, as the scenario says.
  CHECK(run.last().fields.find(R"({"inputTokens":3300,"cachedInputTokens":2500)") == 0);
}

TEST_CASE("A resumed run has its own usage from the session file, or from the host's memory") {
  const Fixture first = load("a-command-and-a-patch");
  const Fixture fixture = load("b-resumed");
  const std::string thread = json::View(lines(first.stdout_bytes)[0]).get("thread_id").string();
  Run run(resume_launch(thread), HR_LAUNCH_RESUME);
  play(run, fixture);
  CHECK(kinds(run) == Kinds{HR_EVENT_CONVERSATION_RESUMED, HR_EVENT_PROGRESS, HR_EVENT_MESSAGE_ASSISTANT,
                            HR_EVENT_PROGRESS, HR_EVENT_USAGE_UPDATED, HR_EVENT_USAGE_UPDATED});
  CHECK(run.heard.events[4].fields.find(R"({"cumulative":{"inputTokens":4600)") == 0);
  CHECK(run.heard.events[5].fields.find(R"({"inputTokens":1300,"cachedInputTokens":1200)") == 0);
  CHECK(run.heard.events[5].fields.find(R"("source":"session-file")") != std::string::npos);
  CHECK(run.heard.verdict->status == HR_VERDICT_SUCCESS);
  // The commands of the first run are in the same session file; they are not asked for again.
  CHECK(run.heard.verdict->details.find(R"("commandsAsked":0)") != std::string::npos);

  std::string launch = resume_launch(thread);
  launch.resize(launch.size() - 2);
  Run told(launch + R"(,"usage":{"inputTokens":3300,"cachedInputTokens":2500,"outputTokens":102}}})",
           HR_LAUNCH_RESUME);
  play(told, fixture);
  CHECK(kinds(told).size() == 5);
  CHECK(told.last().fields.find(R"({"inputTokens":1300,"cachedInputTokens":1200)") == 0);
}

TEST_CASE("A resumed run that answers with another thread is interrupted and failed") {
  Run run(resume_launch("01a22dc6-0000-7000-8000-000000000000"), HR_LAUNCH_RESUME);
  play(run, load("b-resumed"));
  CHECK(run.heard.events[0].kind == HR_EVENT_RUN_ERROR);
  CHECK(run.heard.conversations.empty());
  CHECK(run.heard.signals == std::vector<int>{2});
  CHECK(run.heard.verdict->status == HR_VERDICT_FAILED);
  CHECK(run.heard.verdict->code == "conversation-mismatch");
  CHECK(run.heard.verdict->continuation_reference.empty());
}

TEST_CASE("A failing command is shown with its code and is no failure of the run") {
  Run run(default_launch());
  play(run, load("failing-command"));
  CHECK(run.heard.events[3].fields.find(R"("exitCode":3,"status":"failed")") != std::string::npos);
  CHECK(run.heard.verdict->status == HR_VERDICT_SUCCESS);
  CHECK(run.heard.verdict->details.find(R"("failedItems":1)") != std::string::npos);
}

TEST_CASE("Strange bytes of a command and of an answer arrive as the program wrote them") {
  Run run(default_launch());
  play(run, load("strange-output"));
  CHECK(run.heard.events[3].fields.find(R"(\u001b[31mred)") != std::string::npos);
  CHECK(run.heard.verdict->status == HR_VERDICT_SUCCESS);
  CHECK(run.heard.verdict->summary.find("\xe2\x80\xa8 \x07 \x1b[1m \"q\" \\ \r\n end \x7f") !=
        std::string::npos);
}

TEST_CASE("A refused request is a failed turn with the provider's message") {
  const Verdict verdict = verdict_of("refused-request");
  CHECK(verdict.status == HR_VERDICT_FAILED);
  CHECK(verdict.code == "turn-failed");
  CHECK(verdict.error.find("scripted: bad request") != std::string::npos);
}

TEST_CASE("A cut stream that recovers shows one retry and ends well") {
  Run run(default_launch());
  play(run, load("stream-cut-then-answer"));
  CHECK(run.heard.events[2].kind == HR_EVENT_RUN_ERROR);
  CHECK(run.heard.events[2].fields == R"({"terminal":false,"retry":{"attempt":1,"of":5}})");
  CHECK(run.heard.verdict->status == HR_VERDICT_SUCCESS);
  CHECK(run.heard.verdict->summary == "The whole text.");
}

TEST_CASE("A search and a plan of the real program are mapped item by item") {
  Run search(default_launch());
  play(search, load("web-search"));
  CHECK(kinds(search) == Kinds{HR_EVENT_CONVERSATION_STARTED, HR_EVENT_PROGRESS, HR_EVENT_TOOL_STARTED,
                               HR_EVENT_TOOL_COMPLETED, HR_EVENT_MESSAGE_ASSISTANT, HR_EVENT_PROGRESS,
                               HR_EVENT_USAGE_UPDATED});
  CHECK(search.heard.events[2].item_id == "item_0");
  Run plan(default_launch());
  play(plan, load("plan"));
  CHECK(plan.heard.events[2].provider_type == "item.started.todo_list");
  CHECK(plan.heard.verdict->status == HR_VERDICT_SUCCESS);
}

TEST_CASE(
    "A sub-agent of the real program is a tool, and its own session file is not taken for the thread's") {
  Run run(default_launch());
  play(run, load("sub-agent"));
  CHECK(kinds(run) == Kinds{HR_EVENT_CONVERSATION_STARTED, HR_EVENT_PROGRESS, HR_EVENT_TOOL_STARTED,
                            HR_EVENT_TOOL_COMPLETED, HR_EVENT_COMMAND_STARTED, HR_EVENT_COMMAND_COMPLETED,
                            HR_EVENT_MESSAGE_ASSISTANT, HR_EVENT_PROGRESS, HR_EVENT_USAGE_UPDATED});
  CHECK(run.heard.verdict->status == HR_VERDICT_SUCCESS);
}

TEST_CASE("A command that the stream never ends is told as detached at the exit") {
  Run run(default_launch());
  play(run, load("command-without-an-end"));
  CHECK(run.last().kind == HR_EVENT_COMMAND_DETACHED);
  CHECK(run.last().item_id == "item_0");
  CHECK(run.heard.verdict->details.find(R"("openItems":1)") != std::string::npos);
}

TEST_CASE("Work that was asked for and never shown is no success, though the program says so and exits 0") {
  for (const char* name : {"dead-sandbox", "refused-patch"}) {
    const Fixture fixture = load(name);
    REQUIRE(fixture.exit_value == 0);
    REQUIRE(fixture.stdout_bytes.find("turn.completed") != std::string::npos);
    const Verdict verdict = verdict_of(name);
    CHECK(verdict.status == HR_VERDICT_PARTIAL);
    CHECK(verdict.code == "codex-commands-without-items");
  }
}

TEST_CASE("A command that the program's own sandbox failed to start is no success") {
  const auto code_with = [](const std::string& command, const std::string& output) {
    Fixture fixture = load("failing-command");
    std::string changed;
    for (const std::string& line : lines(fixture.stdout_bytes)) {
      const bool end = line.find("\"item.completed\"") != std::string::npos &&
                       line.find("\"command_execution\"") != std::string::npos;
      changed +=
          (end ? R"({"type":"item.completed","item":{"id":"item_0","type":"command_execution","command":")" +
                     command + R"(","aggregated_output":")" + output +
                     R"(","exit_code":1,"status":"failed"}})"
               : line) +
          "\n";
    }
    fixture.stdout_bytes = changed;
    Run run(default_launch());
    play(run, fixture);
    return run.heard.verdict->code;
  };
  CHECK(code_with("make", "bwrap: No permissions to create new namespace\\n") == "codex-inner-sandbox");
  CHECK(code_with("make", "make: bwrap: no such target\\n").empty());
  CHECK(code_with("bwrap --help", "bwrap: unknown option\\n").empty());
}

TEST_CASE("A final answer that the stream lost is no success") {
  Fixture fixture = load("a-command-and-a-patch");
  std::string shorter;
  for (const std::string& line : lines(fixture.stdout_bytes)) {
    shorter += line.find("Done: two notes.") == std::string::npos ? line + "\n" : "";
  }
  fixture.stdout_bytes = shorter;
  Run run(default_launch());
  play(run, fixture);
  CHECK(run.heard.verdict->status == HR_VERDICT_PARTIAL);
  CHECK(run.heard.verdict->code == "codex-final-answer-missing");
  SECTION("and the session file alone tells it too") {
    fixture.last_message.reset();
    Run again(default_launch());
    play(again, fixture);
    CHECK(again.heard.verdict->code == "codex-final-answer-missing");
  }
}

TEST_CASE("A run whose session file is gone is no success") {
  Fixture fixture = load("a-command-and-a-patch");
  fixture.session.reset();
  Run run(default_launch());
  play(run, fixture);
  CHECK(run.heard.verdict->status == HR_VERDICT_PARTIAL);
  CHECK(run.heard.verdict->code == "codex-session-file-missing");
}

TEST_CASE(
    "No terminal record is an interruption when a stop was asked for, else a failure that says what is "
    "known") {
  CHECK(verdict_of("interrupted", true).status == HR_VERDICT_INTERRUPTED);
  const Verdict failed = verdict_of("killed-in-the-stream");
  CHECK(failed.status == HR_VERDICT_FAILED);
  CHECK(failed.code == "no-terminal-record");
  CHECK(failed.error.find("signal 9") != std::string::npos);
  CHECK(failed.summary == "First words.");

  Run run(default_launch());
  REQUIRE(run.record(HR_STREAM_STDERR, "Reading prompt from stdin...") == HR_OK);
  REQUIRE(run.record(HR_STREAM_STDERR, "Error: no rollout found") == HR_OK);
  REQUIRE(run.exit(HR_EXIT_CODE, 1) == HR_OK);
  REQUIRE(run.end() == HR_OK);
  CHECK(run.heard.verdict->error ==
        "codex ended with exit code 1 and without a terminal record: Error: no rollout found");
}

TEST_CASE("A control that interrupts makes the end an interruption") {
  Run run(default_launch());
  for (const std::string& line : lines(load("interrupted").stdout_bytes)) {
    REQUIRE(run.stdout_line(line) == HR_OK);
  }
  REQUIRE(run.control(1, HR_CONTROL_INTERRUPT) == HR_OK);
  REQUIRE(run.exit(HR_EXIT_CODE, 1) == HR_OK);
  REQUIRE(run.end() == HR_OK);
  CHECK(run.heard.verdict->status == HR_VERDICT_INTERRUPTED);
}

TEST_CASE("The exit code decides nothing") {
  Fixture fixture = load("a-command-and-a-patch");
  fixture.exit_value = 101;
  Run good(default_launch());
  play(good, fixture);
  CHECK(good.heard.verdict->status == HR_VERDICT_SUCCESS);
  fixture = load("refused-request");
  fixture.exit_value = 0;
  Run bad(default_launch());
  play(bad, fixture);
  CHECK(bad.heard.verdict->status == HR_VERDICT_FAILED);
}

TEST_CASE("A session that is thrown away and taken up after every record says exactly the same") {
  REQUIRE(names().size() >= 13);
  for (const std::string& name : names()) {
    INFO(name);
    const Fixture fixture = load(name);
    Run whole(default_launch());
    play(whole, fixture);
    Run torn(default_launch(), HR_LAUNCH_NEW, true);
    play(torn, fixture);
    CHECK(torn.heard.events == whole.heard.events);
    CHECK(torn.heard.conversations == whole.heard.conversations);
    CHECK(*torn.heard.verdict == *whole.heard.verdict);
  }
}

TEST_CASE("No event of a recorded run leaves out what the record said") {
  // Each string of a record's item is somewhere in the event: in its text, its fields, its item id or the raw
  // record.
  for (const std::string& name : names()) {
    for (const std::string& line : lines(load(name).stdout_bytes)) {
      Run run(default_launch());
      REQUIRE(run.stdout_line(line) == HR_OK);
      const Event& event = run.heard.events.front();
      for (json::View::Walker walker(json::View(line).get("item")); walker.next();) {
        const std::string value = walker.value().string();
        const bool kept = event.raw == line || event.text == value || event.item_id == value ||
                          event.fields.find(walker.value().raw()) != std::string::npos ||
                          event.provider_type.find(value) != std::string::npos;
        INFO(name << ": " << line);
        CHECK(kept);
      }
    }
  }
}
