#include <catch2/catch.hpp>
#include <csignal>

#include "config.hpp"
#include "driver.hpp"

using namespace hitchrail::codex_cli;
using namespace hitchrail::codex_cli::test;

namespace {

const std::string thread_id = "01a22dc6-dd8b-76b1-a043-7d00bdb2adc9";

std::string with(const std::string& members) {
  std::string launch = default_launch();
  launch.pop_back();
  return launch + "," + members + "}";
}

PlanCopy plan_of(const std::string& launch, std::uint32_t mode = HR_LAUNCH_NEW) {
  Run run(launch, mode);
  REQUIRE(run.result == HR_OK);
  REQUIRE(run.heard.plan);
  return *run.heard.plan;
}

std::string config_of(const std::string& launch) {
  const PlanCopy plan = plan_of(launch);
  REQUIRE(plan.home_files.size() == 1);
  CHECK(plan.home_files[0].path == "codex/config.toml");
  return plan.home_files[0].bytes;
}

// The code with which a launch is refused; nothing was planned.
std::string refusal(const std::string& launch, std::uint32_t mode = HR_LAUNCH_NEW) {
  Run run(launch, mode);
  CHECK(run.result != HR_OK);
  CHECK_FALSE(run.heard.plan);
  return run.heard.fail_code;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("A new conversation below an enforced boundary switches Codex's own sandbox off") {
  const PlanCopy plan = plan_of(default_launch());
  CHECK(plan.argv == std::vector<std::string>{"exec", "--json", "--strict-config", "--skip-git-repo-check",
                                              "--sandbox", "danger-full-access", "--output-last-message",
                                              "/srv/home/last-message", "-"});
  CHECK(plan.input == "the prompt");
  CHECK(plan.flags == HR_PLAN_CLOSE_INPUT);
  CHECK(plan.transport == HR_TRANSPORT_STDIO);
}

TEST_CASE("Without such a boundary its own sandbox stays on, whatever else the request says") {
  for (const char* own : {"\"own\"", "\"Delegated\"", "true", "null", "\"\""}) {
    std::string launch = default_launch();
    const std::string delegated = "\"delegated\"";
    launch.replace(launch.find(delegated), delegated.size(), own);
    CHECK(plan_of(launch).argv[5] == "workspace-write");
  }
}

TEST_CASE("A resume names the thread after every option of exec") {
  const PlanCopy plan = plan_of(with(R"("conversation":{"id":")" + thread_id + "\"}"), HR_LAUNCH_RESUME);
  CHECK(std::vector<std::string>(plan.argv.end() - 3, plan.argv.end()) ==
        std::vector<std::string>{"resume", thread_id, "-"});
}

TEST_CASE("A resume of anything that is no thread's UUID is refused before anything starts") {
  for (const char* id :
       {"", "last", "--last", "01a22dc6-dd8b-76b1-a043-7d00bdb2adc", "01A22DC6-DD8B-76B1-A043-7D00BDB2ADC9",
        "01a22dc6-dd8b-76b1-a043-7d00bdb2adc9 ", "01a22dc6xdd8b-76b1-a043-7d00bdb2adc9"}) {
    CHECK(refusal(with(std::string(R"("conversation":{"id":")") + id + "\"}"), HR_LAUNCH_RESUME) ==
          "conversation-id-invalid");
  }
  CHECK(refusal(default_launch(), HR_LAUNCH_RESUME) == "conversation-id-invalid");
}

TEST_CASE("A fork is refused") {
  CHECK(refusal(default_launch(), HR_LAUNCH_FORK) == "fork-unsupported");
}

TEST_CASE("A launch request that is not one is refused") {
  CHECK(refusal("") == "launch-request-invalid");
  CHECK(refusal("[]") == "launch-request-invalid");
  CHECK(refusal(std::string(100'000, '[')) == "launch-request-invalid");
  CHECK(refusal(R"({"worktree":"relative","home":"/h"})") == "launch-request-invalid");
  CHECK(refusal(R"({"worktree":{"base64":"/w=="},"home":"/h"})") == "launch-request-invalid");
  CHECK(refusal(R"({"worktree":"/w\u0000x","home":"/h"})") == "launch-request-invalid");
  CHECK(refusal(R"({"worktree":"/w"})") == "launch-request-invalid");
  CHECK(refusal(with(R"("model":"a\nb")")) == "launch-request-invalid");
  CHECK(refusal(R"({"worktree":"/w","home":"/h","credentials":["a=b"]})") == "launch-request-invalid");
}

TEST_CASE("The environment is a list of names, credentials come from the host and nowhere else") {
  const PlanCopy plan = plan_of(default_launch());
  std::vector<std::string> names;
  for (const auto& entry : plan.env) {
    names.push_back(entry.name);
  }
  CHECK(names ==
        std::vector<std::string>{"CODEX_HOME", "TERM", "NO_COLOR", "LANG", "LC_ALL", "OPENAI_API_KEY"});
  CHECK(plan.find_env("CODEX_HOME")->source == HR_ENV_HOME);
  CHECK(plan.find_env("CODEX_HOME")->value == "codex");
  CHECK(plan.find_env("OPENAI_API_KEY")->source == HR_ENV_FROM_HOST);
  CHECK(plan.find_env("OPENAI_API_KEY")->value.empty());
}

TEST_CASE("Streams are lines that are cut, not failed, and the program's own files follow the exit") {
  const PlanCopy plan = plan_of(default_launch());
  REQUIRE(plan.streams.size() == 2);
  CHECK(plan.streams[0].stream == HR_STREAM_STDOUT);
  CHECK(plan.streams[0].framing == HR_FRAME_LINES);
  CHECK(plan.streams[0].overflow == HR_OVERFLOW_TRUNCATE);
  CHECK(plan.streams[0].record_cap == 8u << 20);
  CHECK(plan.streams[1].stream == HR_STREAM_STDERR);
  REQUIRE(plan.file_streams.size() == 2);
  CHECK(plan.file_streams[0].pattern == "codex/sessions/*/*/*/rollout-*.jsonl");
  CHECK(plan.file_streams[0].framing == HR_FRAME_LINES);
  CHECK(plan.file_streams[0].flags == HR_FILE_CARRY);
  CHECK(plan.file_streams[1].pattern == "last-message");
  CHECK(plan.file_streams[1].framing == HR_FRAME_WHOLE);
}

TEST_CASE("It is stopped by SIGINT, then by SIGTERM") {
  const PlanCopy plan = plan_of(default_launch());
  REQUIRE(plan.stop.size() == 2);
  CHECK(plan.stop[0].kind == HR_STOP_SIGNAL);
  CHECK(plan.stop[0].signal == SIGINT);
  CHECK(plan.stop[0].wait_ms == 3000);
  CHECK(plan.stop[1].signal == SIGTERM);
  CHECK(plan.stop[1].wait_ms == 2000);
}

TEST_CASE("The configuration of a plain launch is exactly this") {
  CHECK(config_of(default_launch()) == R"(# Written before every launch; changes are lost.
check_for_update_on_startup = false
cli_auth_credentials_store = "file"

[analytics]
enabled = false

[features]
plugins = false
apps = false
hooks = false
shell_snapshot = false

[history]
persistence = "none"

[shell_environment_policy]
exclude = ["OPENAI_API_KEY"]

[projects."/srv/example"]
trust_level = "untrusted"
)");
}

TEST_CASE("A worktree's name cannot leave its quotes in the configuration") {
  const std::string config = config_of(R"({"worktree":"/w/a\"]\nx = 1\\\u007f\u0001\u00e9","home":"/h"})");
  CHECK(contains(
      config,
      "[projects.\"/w/a\\\"]\\u000Ax = 1\\\\\\u007F\\u0001\xc3\xa9\"]\ntrust_level = \"untrusted\"\n"));
}

TEST_CASE("A model goes into the configuration, never into the arguments") {
  const std::string launch = with(R"("model":"--gpt \"x\"")");
  CHECK(contains(config_of(launch), "model = \"--gpt \\\"x\\\"\"\n"));
  for (const std::string& argument : plan_of(launch).argv) {
    CHECK_FALSE(contains(argument, "gpt"));
  }
}

TEST_CASE("Provider options become a model provider named operator") {
  const std::string config = config_of(with(
      R"("providerOptions":{"base_url":"http://127.0.0.1:8080/v1","env_key":"OPENAI_API_KEY","name":"Ours",)"
      R"("wire_api":"responses","request_max_retries":"2","stream_max_retries":3})"));
  CHECK(contains(config, "model_provider = \"operator\"\n"));
  CHECK(contains(config, R"([model_providers.operator]
name = "Ours"
base_url = "http://127.0.0.1:8080/v1"
wire_api = "responses"
env_key = "OPENAI_API_KEY"
request_max_retries = 2
stream_max_retries = 3
)"));
}

TEST_CASE("A provider without a key gets none") {
  const std::string config =
      config_of(with(R"("providerOptions":{"base_url":"https://models.example:8443/v1"})"));
  CHECK_FALSE(contains(config, "env_key"));
  CHECK(contains(config_of(with(R"("providerOptions":{})")), "exclude"));
  CHECK_FALSE(contains(config_of(with(R"("providerOptions":{})")), "model_provider"));
}

TEST_CASE("Provider options that are wrong are refused by name") {
  const auto refused = [](const std::string& options) {
    return refusal(with("\"providerOptions\":" + options));
  };
  CHECK(refused(R"({"base_url":"http://h/v1","http_headers":"x"})") == "provider-option-unknown");
  CHECK(refused(R"({"name":"x"})") == "provider-option-invalid");
  CHECK(refused("[]") == "provider-option-invalid");
  for (const char* url :
       {"", "h/v1", "ftp://h", "http://", "http:///x", "http://u:p@h/v1", "http://h/v1?key=x", "http://h/#a",
        "http://h/ x", "http://h/\\\"", "http://h/\\u00e9", "http://h/\\n"}) {
    INFO(url);
    CHECK(refused(std::string(R"({"base_url":")") + url + "\"}") == "provider-option-invalid");
  }
  for (const char* key : {"HOME", "OPENAI_API_KEY=x", "sk-secret-value", "openai_api_key"}) {
    CHECK(refused(std::string(R"({"base_url":"http://h/v1","env_key":")") + key + "\"}") ==
          "provider-option-invalid");
  }
  CHECK(refused(R"({"base_url":"http://h/v1","wire_api":"chat"})") == "provider-option-invalid");
  CHECK(refused(R"({"base_url":"http://h/v1","request_max_retries":"-1"})") == "provider-option-invalid");
  CHECK(refused(R"({"base_url":"http://h/v1","request_max_retries":1.5})") == "provider-option-invalid");
  CHECK(refused(R"({"base_url":["http://h/v1"]})") == "provider-option-invalid");
}

TEST_CASE("A refusal does not repeat what it refuses") {
  Run run(with(R"("providerOptions":{"base_url":"http://h/v1","env_key":"sk-secret-value"})"));
  CHECK_FALSE(contains(run.heard.fail_text, "sk-secret-value"));
}
