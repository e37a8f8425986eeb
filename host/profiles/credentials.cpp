#include "profiles/credentials.hpp"

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>

#include "core/secret_shapes.hpp"

namespace hitchrail::profiles {
namespace {

constexpr const char* kRedacted = "[REDACTED]";

// The flag without its dashes, small letters, "_" and "-" left out; "" when the argument is no flag.
std::string flag_name(std::string_view argument) {
  if (argument.substr(0, 1) != "-") {
    return {};
  }
  argument.remove_prefix(argument.substr(0, 2) == "--" ? 2 : 1);
  std::string name;
  for (const char c : argument.substr(0, argument.find('='))) {
    if (c != '-' && c != '_') {
      name.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
    }
  }
  return name;
}

bool is_credential_flag(std::string_view argument) {
  static constexpr std::array<std::string_view, 9> kNames{"apikey",        "accesstoken", "authtoken",
                                                          "token",         "secret",      "password",
                                                          "authorization", "credential",  "credentials"};
  return std::find(kNames.begin(), kNames.end(), flag_name(argument)) != kNames.end();
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

}  // namespace

bool redact_arguments(std::vector<std::string>& arguments) {
  bool dirty = false;
  bool redact_next = false;
  for (std::string& argument : arguments) {
    if (redact_next) {
      argument = kRedacted;
      redact_next = false;
      dirty = true;
      continue;
    }
    const std::string_view flag = trimmed(argument);
    if (is_credential_flag(flag)) {
      const std::size_t sign = flag.find('=');
      redact_next = sign == std::string_view::npos;
      argument = redact_next ? std::string(flag) : std::string(flag.substr(0, sign + 1)) + kRedacted;
      dirty = true;
    } else if (holds_secret_shape(argument)) {
      argument = redact_secret_shapes(argument);
      dirty = true;
    }
  }
  return dirty;
}

bool redact_command(std::string& command) {
  bool dirty = false;
  if (holds_secret_shape(command)) {
    command = redact_secret_shapes(command);
    dirty = true;
  }
  std::istringstream stream(command);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) {
    words.push_back(std::move(word));
  }
  if (redact_arguments(words)) {
    dirty = true;
    command.clear();
    for (const std::string& word : words) {
      command += (command.empty() ? "" : " ") + word;
    }
  }
  return dirty;
}

}  // namespace hitchrail::profiles
