#include "cli/event_text.hpp"

#include <catch2/catch.hpp>

#include "cli/print.hpp"

using namespace hitchrail;

namespace {
json::Value event(const char* text) {
  return json::parse(text, json::Duplicates::refuse).value();
}
}  // namespace

TEST_CASE("an event line shows control and bidi characters as visible escapes") {
  const auto value = event(R"({"sequence":7,"kind":"command.started",
    "payload":{"summary":"rm \u001b[2J \u202e x\nsecond"}})");
  const std::string line = cli::event_line(value);
  REQUIRE(line.find('\x1b') == std::string::npos);
  REQUIRE(line.find("\xe2\x80\xae") == std::string::npos);
  REQUIRE(line.find('\n') == std::string::npos);
  REQUIRE(line.find("rm ") != std::string::npos);
  REQUIRE(line.find("    7  command.started") == 0);
}

TEST_CASE("a long summary is cut") {
  const auto value = event(
      (R"({"sequence":1,"kind":"progress","payload":{"text":")" + std::string(5000, 'a') + "\"}}").c_str());
  REQUIRE(cli::event_line(value).size() < 200);
}

TEST_CASE("progress remembers step, last command, tokens and the end") {
  cli::Progress progress;
  progress.started_unix_ms = 1000;
  cli::advance(
      progress,
      event(R"({"sequence":1,"kind":"command.completed","payload":{"summary":"make","exitCode":2}})"));
  cli::advance(progress, event(R"({"sequence":2,"kind":"usage.updated","payload":{"totalTokens":1234}})"));
  cli::advance(progress, event(R"({"sequence":3,"kind":"message.assistant","payload":{"text":"hm"}})"));
  const std::string line = cli::progress_line(progress, 3500, 200);
  REQUIRE(line.find("message.assistant") == 0);
  REQUIRE(line.find("make (exit 2)") != std::string::npos);
  REQUIRE(line.find("1234 tokens") != std::string::npos);
  REQUIRE(line.find("2.5 s") != std::string::npos);
  REQUIRE_FALSE(progress.terminal);
  cli::advance(progress, event(R"({"sequence":4,"kind":"run.failed","payload":{}})"));
  REQUIRE(progress.terminal);
}

TEST_CASE("a usage event shows the tokens") {
  const auto value = event(R"({"sequence":3,"kind":"usage.updated","payload":{"totalTokens":1500}})");
  REQUIRE(cli::event_line(value).find("1500 tokens") != std::string::npos);
}

TEST_CASE("a decision of the gate shows what was decided, why and how often") {
  const auto value = event(R"({"sequence":3,"kind":"egress.decision","payload":{"decision":"block",
    "reason":"default-deny","port":443,"count":12}})");
  REQUIRE(cli::event_line(value).find("block default-deny, port 443 (12 times)") != std::string::npos);
}

TEST_CASE("durations are readable") {
  REQUIRE(cli::duration(0) == "0.0 s");
  REQUIRE(cli::duration(59'949) == "59.9 s");
  REQUIRE(cli::duration(184'000) == "3 min 04 s");
  REQUIRE(cli::duration(-5) == "0.0 s");
}
