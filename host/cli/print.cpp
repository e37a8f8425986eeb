#include "cli/print.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "core/text.hpp"

namespace hitchrail::cli {

bool is_terminal(std::FILE* stream) {
  return ::isatty(::fileno(stream)) == 1;
}

bool colour(std::FILE* stream) {
  const char* no_colour = std::getenv("NO_COLOR");
  return is_terminal(stream) && (no_colour == nullptr || *no_colour == '\0');
}

void out(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

void line(std::string_view text) {
  out(escape_visible(text, true));
  out("\n");
}

void talk(std::string_view text) {
  const std::string safe = escape_visible(text, true) + "\n";
  std::fwrite(safe.data(), 1, safe.size(), stderr);
}

void out_json(const json::Value& value) {
  out(json::write(value, is_terminal(stdout) ? 2 : 0));
  out("\n");
}

namespace {
const char* kind_name(ErrorClass kind) {
  switch (kind) {
    case ErrorClass::failed:
      return "failed";
    case ErrorClass::usage:
      return "usage";
    case ErrorClass::refused:
      return "refused";
    case ErrorClass::environment:
      return "environment";
    case ErrorClass::internal:
      break;
  }
  return "internal";
}
}  // namespace

json::Value error_json(const Error& error) {
  json::Value inner = json::Value::object();
  inner.set("code", error.code);
  inner.set("kind", kind_name(error.kind));
  inner.set("operation", error.operation);
  inner.set("object", error.object);
  inner.set("detail", error.detail);
  if (!error.remedy.empty()) {
    inner.set("remedy", error.remedy);
  }
  json::Value outer = json::Value::object();
  outer.set("error", std::move(inner));
  return outer;
}

int report(const Error& error, bool json) {
  if (json) {
    out_json(error_json(error));
    return exit_code(error.kind);
  }
  const bool red = colour(stderr);
  std::string text = red ? "\x1b[31merror\x1b[0m[" : "error[";
  text += escape_visible(error.code) + "]: " + escape_visible(error.operation);
  if (!error.object.empty()) {
    text += " " + escape_visible(error.object);
  }
  text += ": " + escape_visible(error.detail, true) + "\n";
  if (!error.remedy.empty()) {
    text += "  remedy: " + escape_visible(error.remedy, true) + "\n";
  }
  std::fwrite(text.data(), 1, text.size(), stderr);
  return exit_code(error.kind);
}

void table(const std::vector<std::string>& heads, const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::vector<std::string>> cells;
  cells.reserve(rows.size() + 1);
  cells.push_back(heads);
  for (const auto& row : rows) {
    std::vector<std::string> safe;
    safe.reserve(row.size());
    for (const auto& cell : row) {
      safe.push_back(escape_visible(cell));
    }
    cells.push_back(std::move(safe));
  }
  std::vector<std::size_t> widths(heads.size(), 0);
  for (const auto& row : cells) {
    for (std::size_t i = 0; i < row.size() && i < widths.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  for (const auto& row : cells) {
    std::string text;
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += row[i];
      if (i + 1 < row.size()) {
        text.append(widths[i] - row[i].size() + 2, ' ');
      }
    }
    out(text + "\n");
  }
}

std::string duration(std::int64_t millis) {
  if (millis < 0) {
    millis = 0;
  }
  char buffer[64];
  if (millis < 60'000) {
    std::snprintf(buffer, sizeof buffer, "%lld.%lld s", static_cast<long long>(millis / 1000),
                  static_cast<long long>(millis % 1000 / 100));
  } else {
    std::snprintf(buffer, sizeof buffer, "%lld min %02lld s", static_cast<long long>(millis / 60'000),
                  static_cast<long long>(millis / 1000 % 60));
  }
  return buffer;
}

}  // namespace hitchrail::cli
