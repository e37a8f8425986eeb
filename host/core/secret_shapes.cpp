#include "core/secret_shapes.hpp"

#include <algorithm>
#include <array>

namespace hitchrail {
namespace {

constexpr std::size_t kMinToken = 12;
// "password: none" is prose; NAME=abc is not.
constexpr std::size_t kMinNamedValue = 6;
constexpr std::size_t kMinAssignedValue = 3;
constexpr std::string_view kRedacted = "[REDACTED]";
constexpr std::array<std::string_view, 10> kPrefixes = {"sk-",  "ghp_",        "gho_",   "ghu_",  "ghs_",
                                                        "ghr_", "github_pat_", "glpat-", "xoxb-", "xoxp-"};
constexpr std::array<std::string_view, 8> kNames = {"api_key", "api-key",  "apikey",        "token",
                                                    "secret",  "password", "authorization", "private_key"};

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_word(char c) {
  return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'z') || c == '_' || c == '-';
}
bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

bool starts_with(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), text.begin(),
                                                    [](char a, char b) { return lower(a) == lower(b); });
}

template <class Allowed>
std::size_t run_length(std::string_view text, Allowed allowed) {
  return static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), allowed) - text.begin());
}

// Length of a secret that begins at the head of `rest`, and how much of it stays readable; 0 = none.
struct Match {
  std::size_t keep = 0;
  std::size_t size = 0;
};

Match match_scheme(std::string_view rest, std::string_view scheme) {
  if (!starts_with(rest, scheme)) {
    return {};
  }
  const std::string_view token = rest.substr(scheme.size());
  const std::size_t size = run_length(token, [](char c) {
    return is_word(c) || std::string_view(".~+/=").find(c) != std::string_view::npos;
  });
  // "bearer authentication" is prose: a credential has a digit, or a capital inside.
  const std::string_view run = token.substr(0, size);
  const bool digit =
      std::any_of(run.begin(), run.end(), is_digit) ||
      std::any_of(run.begin() + (run.empty() ? 0 : 1), run.end(), [](char c) { return c != lower(c); });
  return size >= 8 && digit ? Match{scheme.size(), scheme.size() + size} : Match{};
}

Match match_prefixed(std::string_view rest) {
  for (const std::string_view prefix : kPrefixes) {
    if (starts_with(rest, prefix)) {
      const std::size_t size = run_length(rest.substr(prefix.size()), is_word);
      if (size >= kMinToken) {
        return {0, prefix.size() + size};
      }
    }
  }
  return {};
}

Match match_named(std::string_view rest) {
  for (const std::string_view name : kNames) {
    if (!starts_with(rest, name)) {
      continue;
    }
    std::string_view value = rest.substr(name.size());
    const std::size_t mark =
        run_length(value, [](char c) { return c == ':' || c == '=' || c == ' ' || c == '"'; });
    if (value.substr(0, mark).find_first_of(":=") == std::string_view::npos) {
      continue;
    }
    const bool assigned = value.substr(0, mark).find('=') != std::string_view::npos;
    value.remove_prefix(mark);
    const std::size_t size = run_length(value, [](char c) {
      return !is_space(c) && std::string_view("\"',{}").find(c) == std::string_view::npos;
    });
    if (size >= (assigned ? kMinAssignedValue : kMinNamedValue) && value.substr(0, size) != kRedacted) {
      return {name.size() + mark, name.size() + mark + size};
    }
  }
  return {};
}

}  // namespace

std::string redact_secret_shapes(std::string_view text) {
  std::string out;
  bool in_word = false;
  while (!text.empty()) {
    Match match;
    if (!in_word) {
      match = match_scheme(text, "bearer ");
      match = match.size != 0 ? match : match_scheme(text, "basic ");
      match = match.size != 0 ? match : match_prefixed(text);
    }
    // "OPENAI_API_KEY=..." has the name at a word's end.
    match = match.size != 0 ? match : match_named(text);
    if (match.size != 0) {
      out.append(text.substr(0, match.keep)).append(kRedacted);
      text.remove_prefix(match.size);
      in_word = true;
      continue;
    }
    in_word = is_word(text.front());
    out += text.front();
    text.remove_prefix(1);
  }
  return out;
}

bool holds_secret_shape(std::string_view text) {
  return redact_secret_shapes(text) != text;
}

}  // namespace hitchrail
