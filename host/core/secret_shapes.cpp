#include "core/secret_shapes.hpp"

#include <algorithm>
#include <array>

namespace hitchrail {
namespace {

constexpr std::string_view kRedacted = "[REDACTED]";

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_word(char c) {
  return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'z') || c == '_' || c == '-';
}

bool starts_with(std::string_view text, std::size_t at, std::string_view small_letters) {
  return text.size() - at >= small_letters.size() &&
         std::equal(small_letters.begin(), small_letters.end(),
                    text.begin() + static_cast<std::ptrdiff_t>(at),
                    [](char a, char b) { return a == lower(b); });
}

template <class Accept>
std::size_t run_length(std::string_view text, std::size_t at, Accept accept) {
  std::size_t end = at;
  while (end < text.size() && accept(text[end])) {
    ++end;
  }
  return end - at;
}

struct Match {
  std::size_t keep = 0;    // bytes of the match that stay: the name and its sign
  std::size_t length = 0;  // 0: no match
};

Match bearer(std::string_view text, std::size_t at) {
  if (!starts_with(text, at, "bearer ")) {
    return {};
  }
  const std::size_t start = at + 7;
  const std::size_t size = run_length(text, start, [](char c) {
    return is_word(c) || c == '.' || c == '~' || c == '+' || c == '/' || c == '=';
  });
  const std::string_view token = text.substr(start, size);
  // "Bearer authentication" is prose; a token has digits or is long.
  const bool random = std::any_of(token.begin(), token.end(), is_digit) || size >= 20;
  return size >= 8 && random ? Match{7, 7 + size} : Match{};
}

Match known_prefix(std::string_view text, std::size_t at) {
  for (const std::string_view prefix : {"sk-", "ghp_", "github_pat_"}) {
    if (starts_with(text, at, prefix)) {
      const std::size_t size = run_length(text, at + prefix.size(), is_word);
      if (size >= 12) {
        return {0, prefix.size() + size};
      }
    }
  }
  return {};
}

Match assignment(std::string_view text, std::size_t at) {
  static constexpr std::array<std::string_view, 7> kNames{"api_key", "api-key",  "apikey",       "token",
                                                          "secret",  "password", "authorization"};
  for (const std::string_view name : kNames) {
    if (!starts_with(text, at, name)) {
      continue;
    }
    std::size_t sign = at + name.size();
    sign += run_length(text, sign, [](char c) { return c == ' '; });
    if (sign >= text.size() || (text[sign] != '=' && text[sign] != ':')) {
      continue;
    }
    const std::size_t value = sign + 1 + run_length(text, sign + 1, [](char c) { return c == ' '; });
    const std::size_t size = run_length(text, value, [](char c) {
      return c != ' ' && c != '\t' && c != '\n' && c != '"' && c != '\'' && c != ',' && c != '{' && c != '}';
    });
    if (size > 0 && text.substr(value, kRedacted.size()) != kRedacted) {
      return {value - at, value - at + size};
    }
  }
  return {};
}

}  // namespace

std::string redact_secret_shapes(std::string_view text) {
  std::string out;
  std::size_t at = 0;
  while (at < text.size()) {
    const bool word_start = at == 0 || !is_word(text[at - 1]);
    Match match = word_start ? bearer(text, at) : Match{};
    if (match.length == 0 && word_start) {
      match = known_prefix(text, at);
    }
    if (match.length == 0) {
      match = assignment(text, at);
    }
    if (match.length == 0) {
      out.push_back(text[at++]);
      continue;
    }
    out.append(text, at, match.keep);
    out += kRedacted;
    at += match.length;
  }
  return out;
}

bool holds_secret_shape(std::string_view text) {
  return redact_secret_shapes(text) != text;
}

}  // namespace hitchrail
