#include "manifest/fields.hpp"

#include <algorithm>
#include <utility>

#include "core/canonical.hpp"
#include "core/text.hpp"
#include "manifest/manifest.hpp"

namespace hitchrail::manifest {
namespace {

constexpr std::size_t kMaxPath = 4096;

bool is_alnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}
bool is_alpha(char c) {
  return is_alnum(c) && !(c >= '0' && c <= '9');
}

bool contains(const std::vector<std::string_view>& list, std::string_view item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

}  // namespace

Error invalid_field(std::string field, std::string detail) {
  return Error{ErrorClass::usage, "manifest-invalid", "build document",
               std::move(field),  std::move(detail),  ""};
}

void Fields::fail(std::string field, std::string detail) {
  if (!failed_) {
    failed_ = true;
    error_ = invalid_field(std::move(field), std::move(detail));
  }
}

Status Fields::status() const {
  return failed_ ? Status(error_) : Status{};
}

std::string Fields::optional_text(std::string field, std::string_view value, std::size_t max) {
  if (value.size() > max) {
    fail(std::move(field), std::to_string(value.size()) + " bytes, at most " + std::to_string(max));
  } else if (!is_valid_utf8(value)) {
    fail(std::move(field), "not valid UTF-8");
  } else if (value.find('\x7f') != std::string_view::npos) {
    fail(std::move(field), "it has the character U+007F");
  }
  return std::string(value);
}

std::string Fields::text(std::string field, std::string_view value, std::size_t max) {
  if (value.empty()) {
    fail(std::move(field), "empty");
    return {};
  }
  return optional_text(std::move(field), value, max);
}

std::string Fields::token(std::string field, std::string_view value) {
  const bool good = !value.empty() && value.size() <= 120 && is_alpha(value.front()) &&
                    std::all_of(value.begin(), value.end(), [](char c) {
                      return is_alnum(c) || std::string_view("._:/-").find(c) != std::string_view::npos;
                    });
  if (!good) {
    fail(std::move(field), "a letter, then letters, digits and ._:/- (at most 120) are needed");
  }
  return std::string(value);
}

std::string Fields::hex64(std::string field, std::string_view value) {
  const bool good = value.size() == 64 && std::all_of(value.begin(), value.end(), [](char c) {
                      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
                    });
  if (!good) {
    fail(std::move(field), "64 lower-case hexadecimal digits are needed");
  }
  return std::string(value);
}

json::Value Fields::path(std::string field, std::string_view value) {
  if (value.empty() || value.size() > kMaxPath || value.find('\0') != std::string_view::npos) {
    fail(std::move(field), "a path of 1 to 4096 bytes is needed");
  }
  return path_value(value);
}

void Fields::one_of(std::string field, std::string_view value, const std::vector<std::string_view>& choices) {
  if (!contains(choices, value)) {
    std::string all;
    for (const std::string_view choice : choices) {
      all += (all.empty() ? "" : ", ") + std::string(choice);
    }
    fail(std::move(field), "one of " + all + " is needed");
  }
}

void Fields::at_most(std::string field, std::size_t count, std::size_t max) {
  if (count > max) {
    fail(std::move(field), std::to_string(count) + " entries, at most " + std::to_string(max));
  }
}

void Fields::no_secret(std::string field, std::string_view value) {
  if (!failed_ && looks_like_secret(value)) {
    failed_ = true;
    error_ = Error{ErrorClass::refused,
                   "manifest-secret",
                   "build document",
                   std::move(field),
                   "the text has the shape of a secret, and this document is kept",
                   "hand secrets over by environment or credential file, never as an argument"};
  }
}

json::Value string_array(const std::vector<std::string>& items) {
  std::vector<json::Value> out(items.begin(), items.end());
  return json::Value::array(std::move(out));
}

std::vector<std::string> as_set(std::vector<std::string> items) {
  for (std::string& item : items) {
    const std::size_t from = item.find_first_not_of(" \t\r\n");
    const std::size_t to = item.find_last_not_of(" \t\r\n");
    item = from == std::string::npos ? std::string() : item.substr(from, to - from + 1);
  }
  std::sort(items.begin(), items.end());
  items.erase(std::unique(items.begin(), items.end()), items.end());
  if (!items.empty() && items.front().empty()) {
    items.erase(items.begin());
  }
  return items;
}

std::string without_run_directory(std::string_view text, std::string_view path) {
  std::string out;
  if (path.empty()) {
    return std::string(text);
  }
  while (true) {
    const std::size_t at = text.find(path);
    if (at == std::string_view::npos) {
      return out.append(text);
    }
    const std::size_t end = at + path.size();
    // "/runs/a1" is not in "/runs/a12".
    const bool whole = end == text.size() || (!is_alnum(text[end]) && text[end] != '-' && text[end] != '_');
    out.append(text.substr(0, at)).append(whole ? std::string_view("<attempt>") : path);
    text.remove_prefix(end);
  }
}

json::Value without_run_directories(const json::Value& value, std::string_view path) {
  if (value.is_string()) {
    return without_run_directory(value.as_string(), path);
  }
  json::Value out = value;
  for (json::Value& item : out.items()) {
    item = without_run_directories(item, path);
  }
  for (json::Member& member : out.members()) {
    member.second = without_run_directories(member.second, path);
  }
  return out;
}

json::Value object_of(std::vector<json::Member> members) {
  std::erase_if(members, [](const json::Member& member) { return member.second.is_null(); });
  return json::Value::object(std::move(members));
}

Status check_shape(const json::Value& document, std::string_view schema,
                   const std::vector<std::string_view>& required,
                   const std::vector<std::string_view>& optional) {
  if (!document.is_object() || document.get("schemaVersion").as_string() != schema) {
    return invalid_field("schemaVersion", "not a " + std::string(schema) + " document");
  }
  for (const std::string_view name : required) {
    if (document.find(name) == nullptr) {
      return invalid_field(std::string(name), "the member is missing");
    }
  }
  for (const auto& [name, value] : document.members()) {
    if (!contains(required, name) && !contains(optional, name)) {
      return invalid_field(name, "the member is unknown");
    }
  }
  return verify_document(document);
}

std::string cut_code_points(std::string_view text, std::size_t max) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool starts = (static_cast<unsigned char>(text[i]) & 0xc0U) != 0x80U;
    if (starts && ++count > max) {
      return std::string(text.substr(0, i));
    }
  }
  return std::string(text);
}

}  // namespace hitchrail::manifest
