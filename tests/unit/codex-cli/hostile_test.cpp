// The harness may print anything. Every line is an event, no hook fails, the session stays small.

#include <catch2/catch.hpp>
#include <random>
#include <regex>

#include "driver.hpp"
#include "json_view.hpp"
#include "state.hpp"

using namespace hitchrail::codex_cli;
using namespace hitchrail::codex_cli::test;

namespace {

constexpr std::size_t snapshot_bound = 64 * 1024;

const std::vector<std::string> seeds{
    R"({"type":"thread.started","thread_id":"01a22dc6-dd8b-76b1-a043-7d00bdb2adc9"})",
    R"({"type":"turn.completed","usage":{"input_tokens":10,"cached_input_tokens":4,"output_tokens":5}})",
    R"({"type":"turn.failed","error":{"message":"x"}})",
    R"x({"type":"error","message":"Reconnecting... 1/5 (x)"})x",
    R"({"type":"item.started","item":{"id":"item_0","type":"command_execution","command":"ls","aggregated_output":"","exit_code":null,"status":"in_progress"}})",
    R"({"type":"item.completed","item":{"id":"item_0","type":"web_search","id":"ws","query":"q","action":{"type":"other"}}})",
    R"({"type":"item.completed","item":{"id":"item_1","type":"agent_message","text":"caf\u00e9"}})",
    R"({"type":"item.completed","item":{"id":"item_2","type":"file_change","changes":[{"path":"/w/a","kind":"add"}],"status":"failed"}})"};

std::string mutated(std::mt19937& random) {
  std::string text = seeds[random() % seeds.size()];
  for (std::size_t i = random() % 4; i > 0 && !text.empty(); --i) {
    const std::size_t at = random() % text.size();
    switch (random() % 4) {
      case 0:
        text[at] = static_cast<char>(random() % 256);
        break;
      case 1:
        text.erase(at, random() % 8);
        break;
      case 2:
        text.insert(at, text.substr(random() % text.size(), random() % 24));
        break;
      default:
        text.resize(at);
        break;
    }
  }
  return text;
}

}  // namespace

TEST_CASE("Mutated records are one lawful event each and never a failure") {
  const std::regex lawful_kind("[a-z][a-z0-9]*([._-][a-z0-9]+)+");
  std::mt19937 random(145);
  for (int session = 0; session < 200; ++session) {
    Run run(default_launch());
    for (int line = 0; line < 100; ++line) {
      const std::string record = mutated(random);
      const std::size_t before = run.heard.events.size();
      INFO("session " << session << " line " << line << ": " << record);
      REQUIRE(run.stdout_line(record, random() % 8 == 0 ? HR_RECORD_UNTERMINATED : 0) == HR_OK);
      REQUIRE(run.heard.events.size() > before);
      for (std::size_t i = before; i < run.heard.events.size(); ++i) {
        const Event& event = run.heard.events[i];
        REQUIRE((event.fields.empty() || (json::valid(event.fields) && event.fields.front() == '{')));
        REQUIRE(json::valid_utf8(event.text));
        REQUIRE(json::valid_utf8(event.summary));
        REQUIRE((event.kind != HR_EVENT_NAMED || std::regex_match(event.kind_name, lawful_kind)));
        REQUIRE(event.kind_name.size() <= 120);
      }
    }
    REQUIRE(run.exit(static_cast<std::uint32_t>(random() % 4), 1) == HR_OK);
    for (int line = 0; line < 20; ++line) {
      REQUIRE(run.record(HR_STREAM_FILE_FIRST, mutated(random)) == HR_OK);
    }
    REQUIRE(run.end() == HR_OK);
    REQUIRE(run.heard.verdict);
    REQUIRE(json::valid(run.heard.verdict->details));
    REQUIRE((run.heard.verdict->status != HR_VERDICT_FAILED || !run.heard.verdict->error.empty()));
  }
}

TEST_CASE("Whatever is printed, the snapshot stays below 64 KiB") {
  Run run(default_launch());
  const std::string long_text(100'000, 'x');
  REQUIRE(run.stdout_line(R"({"type":"thread.started","thread_id":")" + long_text + "\"}") == HR_OK);
  for (int i = 0; i < 1000; ++i) {
    REQUIRE(run.stdout_line(R"({"type":"item.started","item":{"id":")" + std::to_string(i) + long_text +
                            R"(","type":"command_execution"}})") == HR_OK);
  }
  REQUIRE(run.stdout_line(R"({"type":"error","message":")" + long_text + "\"}") == HR_OK);
  REQUIRE(run.stdout_line(R"({"type":"turn.failed","error":{"message":")" + long_text + "\"}}") == HR_OK);
  REQUIRE(run.stdout_line(R"({"type":"item.completed","item":{"type":"agent_message","text":")" + long_text +
                          "\"}}") == HR_OK);
  REQUIRE(run.record(HR_STREAM_STDERR, long_text) == HR_OK);
  CHECK(run.snapshot().size() < snapshot_bound);
  const auto state = decode(run.snapshot());
  REQUIRE(state);
  CHECK(state->open.size() == kept_open_items);
  CHECK(state->open_unlisted == 1000 - kept_open_items);
  CHECK(encode(*state) == run.snapshot());
}

TEST_CASE("Texts are cut between characters") {
  Run run(default_launch());
  std::string text;
  while (text.size() < kept_text * 2) {
    text += "\xf0\x9f\x98\x80";
  }
  for (int shift = 0; shift < 4; ++shift) {
    REQUIRE(run.stdout_line(R"({"type":"item.completed","item":{"id":"i","type":"agent_message","text":")" +
                            std::string(static_cast<std::size_t>(shift), 'x') + text + "\"}}") == HR_OK);
    REQUIRE(run.record(HR_STREAM_STDERR, std::string(static_cast<std::size_t>(shift), 'x') + text) == HR_OK);
    const auto state = decode(run.snapshot());
    REQUIRE(state);
    CHECK(json::valid_utf8(state->answer_text));
    CHECK(json::valid_utf8(state->stderr_tail));
    CHECK(state->answer_text.size() <= kept_text);
    CHECK(state->stderr_tail.size() <= kept_stderr);
  }
}

TEST_CASE("A snapshot that was touched is refused or read, never a crash; every shorter one is refused") {
  Run run(default_launch());
  for (const std::string& seed : seeds) {
    REQUIRE(run.stdout_line(seed) == HR_OK);
  }
  const std::string good = run.snapshot();
  for (std::size_t size = 0; size < good.size(); ++size) {
    CHECK_FALSE(decode(std::string_view(good).substr(0, size)));
  }
  CHECK_FALSE(decode(good + "x"));
  std::mt19937 random(7);
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string bad = good;
    bad[random() % bad.size()] = static_cast<char>(random() % 256);
    refused += decode(bad) ? 0 : 1;
  }
  CHECK(refused > 1000);
}

TEST_CASE("A foreign snapshot is refused with a reason") {
  HostContext context{nullptr, {}};
  Heard heard;
  context.heard = &heard;
  const hr_host host = make_host(context);
  hr_reattach request{};
  request.struct_size = sizeof request;
  request.state = HR_STATE_OPEN;
  const std::string bytes = "codex-cli/2\nwhatever";
  request.snapshot = {bytes.data(), bytes.size()};
  hr_session* session = nullptr;
  CHECK(hitchrail_adapter_entry()->reattach(&host, &request, &session) == HR_E_ARGUMENT);
  CHECK(heard.fail_code == "snapshot-invalid");
  CHECK(session == nullptr);
}

TEST_CASE("A session file of another thread is not believed, and a success without one is none") {
  Run run(default_launch());
  REQUIRE(run.stdout_line(seeds[0]) == HR_OK);
  REQUIRE(run.stdout_line(seeds[6]) == HR_OK);
  REQUIRE(run.stdout_line(R"({"type":"turn.completed"})") == HR_OK);
  REQUIRE(run.exit(HR_EXIT_CODE, 0) == HR_OK);
  REQUIRE(run.record(HR_STREAM_FILE_FIRST, R"({"type":"session_meta","payload":{"id":"another"}})") == HR_OK);
  REQUIRE(
      run.record(HR_STREAM_FILE_FIRST,
                 R"({"type":"response_item","payload":{"type":"function_call","name":"exec_command"}})") ==
      HR_OK);
  REQUIRE(run.record(HR_STREAM_FILE_FIRST + 1, "caf\xc3\xa9") == HR_OK);
  REQUIRE(run.end() == HR_OK);
  CHECK(run.heard.verdict->details.find(R"("sessionFile":"foreign")") != std::string::npos);
  CHECK(run.heard.verdict->details.find("commandsAsked") == std::string::npos);
  CHECK(run.heard.verdict->status == HR_VERDICT_PARTIAL);
  CHECK(run.heard.verdict->code == "codex-session-file-missing");
}

TEST_CASE("A session file without its first record is not believed either") {
  Run run(default_launch());
  REQUIRE(run.stdout_line(R"({"type":"turn.completed"})") == HR_OK);
  REQUIRE(run.exit(HR_EXIT_CODE, 0) == HR_OK);
  REQUIRE(run.record(HR_STREAM_FILE_FIRST, R"({"type":"event_msg","payload":{"type":"task_started"}})") ==
          HR_OK);
  REQUIRE(run.end() == HR_OK);
  CHECK(run.heard.verdict->code == "codex-session-file-missing");
  CHECK(run.heard.verdict->details.find(R"("sessionFile":"unreadable")") != std::string::npos);
}

TEST_CASE("A sub-agent's session file in the place of the thread's leaves the requests unchecked") {
  Run run(default_launch());
  REQUIRE(run.stdout_line(seeds[0]) == HR_OK);
  REQUIRE(run.stdout_line(seeds[6]) == HR_OK);
  REQUIRE(run.stdout_line(R"({"type":"turn.completed"})") == HR_OK);
  REQUIRE(run.exit(HR_EXIT_CODE, 0) == HR_OK);
  REQUIRE(run.record(HR_STREAM_FILE_FIRST, R"({"type":"session_meta","payload":{"id":"another","session_id":)"
                                           R"("01a22dc6-dd8b-76b1-a043-7d00bdb2adc9"}})") == HR_OK);
  REQUIRE(run.record(HR_STREAM_FILE_FIRST + 1, "caf\xc3\xa9") == HR_OK);
  REQUIRE(run.end() == HR_OK);
  CHECK(run.heard.verdict->status == HR_VERDICT_SUCCESS);
  CHECK(run.heard.verdict->details.find(R"("sessionFile":"of a sub-agent")") != std::string::npos);
}
