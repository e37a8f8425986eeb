#include "cli/event_text.hpp"

#include <cstdio>

#include "cli/print.hpp"
#include "core/text.hpp"
#include "journal/reader.hpp"

namespace hitchrail::cli {

namespace {

// Where a provider's own name of the thing is worth more than the summary: the first of these members that is
// a string.
const std::string& first_text(const json::Value& payload) {
  for (const char* key : {"summary", "text", "command", "preview", "message", "detail", "code"}) {
    const std::string& text = payload.get(key).as_string();
    if (!text.empty()) {
      return text;
    }
  }
  return payload.get("providerType").as_string();
}

// "block default-deny, port 443 (12 times)"
std::string egress_text(const json::Value& payload) {
  std::string text = payload.get("decision").as_string() + " " + payload.get("reason").as_string();
  if (const auto port = payload.get("port").as_int()) {
    text += ", port " + std::to_string(*port);
  }
  if (const auto count = payload.get("count").as_int()) {
    text += " (" + std::to_string(*count) + " times)";
  }
  return text;
}

std::string first_line(const std::string& text) {
  const auto end = text.find('\n');
  return end == std::string::npos ? text : text.substr(0, end) + " …";
}

}  // namespace

std::string event_summary(const json::Value& event, std::size_t columns) {
  const json::Value& payload = event.get("payload");
  std::string text = event.get("kind").as_string() == "egress.decision" ? egress_text(payload)
                                                                        : first_line(first_text(payload));
  const json::Value* tokens = payload.find("totalTokens");
  if (tokens != nullptr && tokens->is_number()) {
    text += tokens->number_text() + " tokens";
  }
  const json::Value* exit_value = payload.find("exitCode");
  if (exit_value != nullptr && exit_value->is_number()) {
    text += " (exit " + exit_value->number_text() + ")";
  }
  return escape_cut(text, columns);
}

std::string event_line(const json::Value& event) {
  char head[64];
  std::snprintf(head, sizeof head, "%5lld  ",
                static_cast<long long>(event.get("sequence").as_int().value_or(0)));
  std::string kind = escape_cut(event.get("kind").as_string(), 40);
  if (kind.size() < 24) {
    kind.append(24 - kind.size(), ' ');
  }
  return head + kind + "  " + event_summary(event, 120);
}

void advance(Progress& progress, const json::Value& event) {
  ++progress.events;
  const std::string& kind = event.get("kind").as_string();
  if (kind == "command.started" || kind == "command.completed") {
    progress.last_command = event_summary(event, 60);
  }
  if (kind == "usage.updated") {
    const json::Value& payload = event.get("payload");
    for (const char* key : {"totalTokens", "total_tokens"}) {
      if (auto total = payload.get(key).as_int()) {
        progress.tokens = *total;
      }
    }
  }
  if (kind.rfind("stream.", 0) != 0 && kind.rfind("egress.", 0) != 0 && kind != "usage.updated") {
    progress.step = escape_cut(kind, 30);
  }
  if (journal::is_terminal_kind(kind)) {
    progress.terminal = true;
    progress.terminal_kind = kind;
  }
}

std::string progress_line(const Progress& progress, std::int64_t now_unix_ms, std::size_t columns) {
  std::string text = progress.step.empty() ? "starting" : progress.step;
  if (!progress.last_command.empty()) {
    text += " · " + progress.last_command;
  }
  if (progress.tokens > 0) {
    text += " · " + std::to_string(progress.tokens) + " tokens";
  }
  text += " · " + duration(now_unix_ms - progress.started_unix_ms);
  return escape_cut(text, columns);
}

}  // namespace hitchrail::cli
