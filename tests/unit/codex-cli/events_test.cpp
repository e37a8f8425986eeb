#include <catch2/catch.hpp>
#include <csignal>

#include "driver.hpp"
#include "events.hpp"

using namespace hitchrail::codex_cli;
using namespace hitchrail::codex_cli::test;

namespace {

const std::string thread_id = "01a22dc6-dd8b-76b1-a043-7d00bdb2adc9";

Run begun() {
  return Run(default_launch());
}

// The one event a record becomes.
Event map(const std::string& record) {
  Run run = begun();
  REQUIRE(run.stdout_line(record) == HR_OK);
  REQUIRE(run.heard.events.size() == 1);
  return run.last();
}

std::string item(const std::string& phase, const std::string& members) {
  return R"({"type":"item.)" + phase + R"(","item":{)" + members + "}}";
}

}  // namespace

TEST_CASE("thread.started names the conversation") {
  Run run = begun();
  REQUIRE(run.stdout_line(R"({"type":"thread.started","thread_id":")" + thread_id + "\"}") == HR_OK);
  CHECK(run.heard.conversations == std::vector<std::string>{thread_id});
  CHECK(run.last().kind == HR_EVENT_CONVERSATION_STARTED);
  CHECK(run.last().provider_type == "thread.started");
  CHECK(run.last().fields == "{\"conversationId\":\"" + thread_id + "\"}");
  CHECK(run.last().raw.empty());
}

TEST_CASE("turn.started is progress") {
  const Event event = map(R"({"type":"turn.started"})");
  CHECK(event.kind == HR_EVENT_PROGRESS);
  CHECK(event.provider_type == "turn.started");
}

TEST_CASE("turn.completed is progress and the run's usage") {
  Run run = begun();
  REQUIRE(run.stdout_line(
              R"({"type":"turn.completed","usage":{"input_tokens":10,"cached_input_tokens":4,)"
              R"("cache_write_input_tokens":1,"output_tokens":5,"reasoning_output_tokens":2}})") == HR_OK);
  REQUIRE(run.heard.events.size() == 2);
  CHECK(run.heard.events[0].kind == HR_EVENT_PROGRESS);
  CHECK_FALSE(run.heard.events[0].raw.empty());
  CHECK(run.heard.events[1].kind == HR_EVENT_USAGE_UPDATED);
  const std::string usage =
      R"("inputTokens":10,"cachedInputTokens":4,"cacheWriteInputTokens":1,"outputTokens":5,)"
      R"("reasoningOutputTokens":2,"totalTokens":15)";
  CHECK(run.heard.events[1].fields == "{" + usage + ",\"cumulative\":{" + usage + "},\"source\":\"stream\"}");
}

TEST_CASE("A turn.completed whose usage is no usage is only progress") {
  for (const char* usage :
       {"null", "{}", R"({"input_tokens":"10","output_tokens":1})",
        R"({"input_tokens":-1,"output_tokens":1})", R"({"input_tokens":1e3,"output_tokens":1})", "[]"}) {
    CHECK(map(std::string(R"({"type":"turn.completed","usage":)") + usage + "}").kind == HR_EVENT_PROGRESS);
  }
}

TEST_CASE("turn.failed is a terminal error with its message") {
  const Event event = map(R"({"type":"turn.failed","error":{"message":"no \"luck\""}})");
  CHECK(event.kind == HR_EVENT_RUN_ERROR);
  CHECK(event.text == "no \"luck\"");
  CHECK(event.fields == R"({"terminal":true})");
  CHECK(event.raw.empty());
}

TEST_CASE("An error record is not terminal, and a reconnect says which of how many it is") {
  CHECK(map(R"({"type":"error","message":"x"})").fields == R"({"terminal":false})");
  const Event retry = map(R"x({"type":"error","message":"Reconnecting... 2/5 (stream closed)"})x");
  CHECK(retry.kind == HR_EVENT_RUN_ERROR);
  CHECK(retry.fields == R"({"terminal":false,"retry":{"attempt":2,"of":5}})");
  for (const char* message : {"Reconnecting... ", "Reconnecting... 2", "Reconnecting... 2/",
                              "Reconnecting... a/5 ", "Reconnecting... 99999/5 ", "Reconnecting... 2/5"}) {
    CHECK(map(std::string(R"({"type":"error","message":")") + message + "\"}").fields ==
          R"({"terminal":false})");
  }
}

TEST_CASE("agent_message is the assistant's message, without a second copy of its text") {
  const Event event = map(item("completed", R"("id":"item_1","type":"agent_message","text":"Hi \u00e9\n")"));
  CHECK(event.kind == HR_EVENT_MESSAGE_ASSISTANT);
  CHECK(event.provider_type == "item.completed.agent_message");
  CHECK(event.item_id == "item_1");
  CHECK(event.text == "Hi \xc3\xa9\n");
  CHECK(event.raw.empty());
  CHECK(event.fields.empty());
}

TEST_CASE("reasoning is reasoning") {
  const Event event = map(item("completed", R"("id":"item_0","type":"reasoning","text":"**Look**")"));
  CHECK(event.kind == HR_EVENT_REASONING_DELTA);
  CHECK(event.text == "**Look**");
}

TEST_CASE("command_execution starts and completes with the provider's own values") {
  const std::string command = R"("command":"/bin/bash -lc 'ls \"a\"'")";
  const Event started =
      map(item("started", R"("id":"item_2","type":"command_execution",)" + command +
                              R"(,"aggregated_output":"","exit_code":null,"status":"in_progress")"));
  CHECK(started.kind == HR_EVENT_COMMAND_STARTED);
  CHECK(started.summary == "/bin/bash -lc 'ls \"a\"'");
  CHECK(started.fields == "{" + command + R"(,"output":"","exitCode":null,"status":"in_progress"})");
  const Event completed =
      map(item("completed", R"("id":"item_2","type":"command_execution",)" + command +
                                R"(,"aggregated_output":"x\u001b","exit_code":3,"status":"failed")"));
  CHECK(completed.kind == HR_EVENT_COMMAND_COMPLETED);
  CHECK(completed.fields == "{" + command + R"(,"output":"x\u001b","exitCode":3,"status":"failed"})");
}

TEST_CASE("file_change is a change when it completed, progress before") {
  const std::string members =
      R"("id":"item_3","type":"file_change","changes":[{"path":"/w/a","kind":"add"},{"path":"/w/b","kind":"delete"}],)";
  const Event started = map(item("started", members + R"("status":"in_progress")"));
  CHECK(started.kind == HR_EVENT_PROGRESS);
  const Event completed = map(item("completed", members + R"("status":"completed")"));
  CHECK(completed.kind == HR_EVENT_FILE_CHANGED);
  CHECK(completed.summary == "add /w/a, delete /w/b");
  CHECK(completed.fields ==
        R"({"changes":[{"path":"/w/a","kind":"add"},{"path":"/w/b","kind":"delete"}],"status":"completed"})");
}

TEST_CASE("mcp_tool_call keeps arguments, result and error as they were written") {
  const std::string members =
      R"("id":"item_4","type":"mcp_tool_call","server":"tiny","tool":"add","arguments":{"a":2.50,"b":[1]},)"
      R"("result":{"content":[{"type":"text","text":"5"}],"structured_content":null},"error":null,"status":"completed")";
  const Event event = map(item("completed", members));
  CHECK(event.kind == HR_EVENT_TOOL_COMPLETED);
  CHECK(event.summary == "tiny.add");
  CHECK(event.fields.find(R"("arguments":{"a":2.50,"b":[1]})") != std::string::npos);
  CHECK(event.fields.find(R"("error":null)") != std::string::npos);
  CHECK(map(item("started", members)).kind == HR_EVENT_TOOL_STARTED);
}

TEST_CASE("web_search has two ids: the first is the item's") {
  const Event event = map(item(
      "completed",
      R"("id":"item_0","type":"web_search","id":"ws_1","query":"q","action":{"type":"search","query":"q"})"));
  CHECK(event.kind == HR_EVENT_TOOL_COMPLETED);
  CHECK(event.item_id == "item_0");
  CHECK(event.fields ==
        R"({"tool":"web_search","searchId":"ws_1","query":"q","action":{"type":"search","query":"q"}})");
  CHECK(event.raw.empty());
}

TEST_CASE("todo_list is progress in all its phases") {
  for (const char* phase : {"started", "updated", "completed"}) {
    const Event event =
        map(item(phase, R"("id":"item_0","type":"todo_list","items":[{"text":"one","completed":true}])"));
    CHECK(event.kind == HR_EVENT_PROGRESS);
    CHECK(event.fields == R"({"items":[{"text":"one","completed":true}]})");
  }
}

TEST_CASE("An error item is a warning") {
  const Event event = map(item("completed", R"("id":"item_0","type":"error","message":"unknown model")"));
  CHECK(event.kind == HR_EVENT_RUN_ERROR);
  CHECK(event.text == "unknown model");
  CHECK(event.fields == R"({"terminal":false,"severity":"warning"})");
}

TEST_CASE("collab_tool_call is a tool that names the threads it concerns") {
  const Event event =
      map(item("completed", R"("id":"item_0","type":"collab_tool_call","tool":"spawn_agent",)"
                            R"("sender_thread_id":"a","receiver_thread_ids":["b"],"prompt":"say hi",)"
                            R"("agents_states":{"b":{"status":"running"}},"status":"completed")"));
  CHECK(event.kind == HR_EVENT_TOOL_COMPLETED);
  CHECK(event.summary == "spawn_agent: say hi");
  CHECK(event.fields ==
        R"({"tool":"spawn_agent","senderThreadId":"a","receiverThreadIds":["b"],"prompt":"say hi",)"
        R"("agentsStates":{"b":{"status":"running"}},"status":"completed"})");
  CHECK(event.raw.empty());
}

TEST_CASE("An update of an item that is never updated is progress, kept by its members") {
  const Event event = map(item("updated", R"("id":"item_0","type":"command_execution","command":"x")"));
  CHECK(event.kind == HR_EVENT_PROGRESS);
  CHECK(event.fields == R"({"command":"x"})");
}

TEST_CASE("Unknown members and repeated ones keep the raw record beside the known ones") {
  const std::string record =
      item("completed", R"("id":"item_1","type":"agent_message","text":"Hi","phase":"final")");
  const Event event = map(record);
  CHECK(event.kind == HR_EVENT_MESSAGE_ASSISTANT);
  CHECK(event.raw == record);
  CHECK_FALSE(map(R"({"type":"turn.started","extra":1})").raw.empty());
  CHECK_FALSE(map(R"({"type":"error","message":"a","message":"b"})").raw.empty());
  CHECK(map(R"({"type":"error","message":"a","message":"b"})").text == "a");
  CHECK_FALSE(map(item("completed", R"("id":"i","type":"agent_message","text":"a","text":"b")")).raw.empty());
}

TEST_CASE("Unknown item types and record types become kinds of this adapter, with the raw record") {
  const Event unknown_item = map(item("completed", R"("id":"item_9","type":"Foo Bar.baz_2")"));
  CHECK(unknown_item.kind == HR_EVENT_NAMED);
  CHECK(unknown_item.kind_name == "codex-cli.item.foo-bar.baz_2");
  CHECK(unknown_item.item_id == "item_9");
  CHECK_FALSE(unknown_item.raw.empty());
  CHECK(map(R"({"type":"session.updated","x":1})").kind_name == "codex-cli.session.updated");
  CHECK(map(item("deleted", R"("id":"item_9","type":"reasoning")")).kind_name ==
        "codex-cli.item.deleted.reasoning");
  CHECK(map(R"({"type":"item.completed","item":3})").kind_name == "codex-cli.item.completed");
  CHECK(map(R"({"type":"item.completed","item":{}})").kind_name == "codex-cli.item.unnamed");
}

TEST_CASE("A kind made of a foreign name is always a lawful kind") {
  CHECK(named_kind("codex-cli.", "") == "codex-cli.unnamed");
  CHECK(named_kind("codex-cli.", "\x1b[31m\n") == "codex-cli.31m");
  CHECK(named_kind("codex-cli.", "...") == "codex-cli.unnamed");
  CHECK(named_kind("codex-cli.", "a..b__c--d ") == "codex-cli.a.b_c-d");
  CHECK(named_kind("codex-cli.", "\xc3\xa9") == "codex-cli.unnamed");
  CHECK(named_kind("codex-cli.", std::string(500, 'a')).size() == 120);
  CHECK(named_kind("codex-cli.", std::string(109, 'a') + ".b") == "codex-cli." + std::string(109, 'a'));
}

TEST_CASE("Objects without a type, other JSON and lines that are not JSON are kept") {
  CHECK(map(R"({"x":1})").kind == HR_EVENT_PROVIDER_UNKNOWN);
  CHECK(map(R"({"type":7})").kind == HR_EVENT_PROVIDER_UNKNOWN);
  for (const char* line :
       {"Reading...", "", "[1]", "42", "\"text\"", "{\"type\":\"turn.started\"", "\xff\xfe", "null"}) {
    const Event event = map(line);
    CHECK(event.kind == HR_EVENT_STREAM_STDOUT);
    CHECK(event.flags == HR_EVENT_RAW_RECORD);
    CHECK(event.raw == line);
  }
}

TEST_CASE("Depth 64 is a record, depth 65 a line that is not JSON") {
  const auto nested = [](std::size_t inner) {
    return R"({"type":"x","v":)" + std::string(inner, '[') + std::string(inner, ']') + "}";
  };
  CHECK(map(nested(63)).kind == HR_EVENT_NAMED);
  CHECK(map(nested(64)).kind == HR_EVENT_STREAM_STDOUT);
  CHECK(map(std::string(200'000, '[')).kind == HR_EVENT_STREAM_STDOUT);
  CHECK(map(nested(1'000'000)).kind == HR_EVENT_STREAM_STDOUT);
}

TEST_CASE("A message of 1.5 MB is one event and a small snapshot") {
  Run run = begun();
  const std::string text(1'500'000, 'x');
  REQUIRE(run.stdout_line(
              item("completed", R"("id":"item_0","type":"agent_message","text":")" + text + "\"")) == HR_OK);
  CHECK(run.last().text == text);
  CHECK(run.snapshot().size() < 64 * 1024);
}

TEST_CASE("A record cut at its cap is reported and never taken for a record") {
  Run run = begun();
  REQUIRE(run.stdout_line(R"({"type":"turn.completed"})", HR_RECORD_TRUNCATED) == HR_OK);
  CHECK(run.last().kind == HR_EVENT_RUN_ERROR);
  CHECK(run.last().fields ==
        R"({"code":"codex-record-truncated","terminal":false,"offset":0,"keptBytes":25})");
}

TEST_CASE("stderr is kept line by line, bytes that are no text as the raw record") {
  Run run = begun();
  REQUIRE(run.record(HR_STREAM_STDERR, "ERROR codex_core: x") == HR_OK);
  CHECK(run.last().kind == HR_EVENT_STREAM_STDERR);
  CHECK(run.last().text == "ERROR codex_core: x");
  REQUIRE(run.record(HR_STREAM_STDERR, "\xff") == HR_OK);
  CHECK(run.last().text.empty());
  CHECK(run.last().raw == "\xff");
}

TEST_CASE("A second thread.started of the same thread begins nothing, one of another ends the run") {
  Run run = begun();
  const std::string started = R"({"type":"thread.started","thread_id":")" + thread_id + "\"}";
  REQUIRE(run.stdout_line(started) == HR_OK);
  REQUIRE(run.stdout_line(started) == HR_OK);
  CHECK(run.last().kind == HR_EVENT_PROGRESS);
  CHECK(run.heard.conversations.size() == 1);
  REQUIRE(run.stdout_line(R"({"type":"thread.started","thread_id":"another"})") == HR_OK);
  CHECK(run.last().kind == HR_EVENT_RUN_ERROR);
  CHECK(run.heard.signals == std::vector<int>{SIGINT});
}

TEST_CASE("An unknown stream is refused") {
  Run run = begun();
  CHECK(run.record(99, "x") == HR_E_ARGUMENT);
  CHECK(run.heard.fail_code == "unknown-stream");
}

TEST_CASE("Interrupt and shutdown are a SIGINT, everything else is impossible") {
  Run run = begun();
  REQUIRE(run.control(1, HR_CONTROL_STEER) == HR_OK);
  REQUIRE(run.control(2, HR_CONTROL_FOLLOW_UP) == HR_OK);
  CHECK(run.heard.signals.empty());
  REQUIRE(run.control(3, HR_CONTROL_INTERRUPT) == HR_OK);
  CHECK(run.heard.signals == std::vector<int>{SIGINT});
  CHECK(run.heard.control_results ==
        std::vector<std::pair<std::uint64_t, std::uint32_t>>{
            {1, HR_CONTROL_IMPOSSIBLE}, {2, HR_CONTROL_IMPOSSIBLE}, {3, HR_CONTROL_DELIVERED}});
}

TEST_CASE("A record with more members than can be indexed is mapped by the first ones and kept whole") {
  std::string members = R"("id":"item_0","type":"agent_message","text":"Hi")";
  for (int i = 0; i < 100; ++i) {
    members += ",\"m" + std::to_string(i) + "\":1";
  }
  const Event event = map(item("completed", members));
  CHECK(event.kind == HR_EVENT_MESSAGE_ASSISTANT);
  CHECK(event.text == "Hi");
  CHECK(event.raw == item("completed", members));
}
