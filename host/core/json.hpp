#pragma once
// The one JSON entry point of the host. A small tree of ours; RapidJSON stays inside json.cpp, which parses
// iteratively with UTF-8 and depth (<= 64) checked in the same pass, so that neither parsing nor writing can
// exhaust the stack.
//
// Promises: object members keep their order; numbers keep their text (integers within ±2^53 also as int64).
// Strict parsing refuses duplicate keys (our own documents); lenient keeps the first of a repeated key
// (provider records). Refuses: invalid UTF-8, depth > 64, trailing bytes, and more than ParseLimits allow.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/result.hpp"

namespace hitchrail::json {

enum class Type { null, boolean, number, string, array, object };

class Value;
using Member = std::pair<std::string, Value>;

class Value {
 public:
  Value() = default;  // null
  Value(std::nullptr_t) {}
  Value(bool b);
  Value(int i) : Value(static_cast<std::int64_t>(i)) {}
  Value(unsigned i) : Value(static_cast<std::int64_t>(i)) {}
  Value(std::int64_t i);
  Value(std::uint64_t i);
  Value(const char* s) : Value(std::string(s)) {}
  Value(std::string_view s) : Value(std::string(s)) {}
  Value(std::string s);
  static Value number_text(std::string text);  // a number exactly as a provider wrote it
  static Value array(std::vector<Value> items = {});
  static Value object(std::vector<Member> members = {});

  [[nodiscard]] Type type() const { return type_; }
  [[nodiscard]] bool is_null() const { return type_ == Type::null; }
  [[nodiscard]] bool is_bool() const { return type_ == Type::boolean; }
  [[nodiscard]] bool is_number() const { return type_ == Type::number; }
  [[nodiscard]] bool is_string() const { return type_ == Type::string; }
  [[nodiscard]] bool is_array() const { return type_ == Type::array; }
  [[nodiscard]] bool is_object() const { return type_ == Type::object; }

  // Accessors of a wrong type give the default, never throw: callers validate with the typed readers below.
  [[nodiscard]] bool as_bool(bool otherwise = false) const;
  [[nodiscard]] std::optional<std::int64_t> as_int() const;  // nullopt unless an integer within int64
  [[nodiscard]] const std::string& as_string() const;        // "" unless a string
  [[nodiscard]] const std::string& number_text() const;      // the number's text, "" unless a number
  [[nodiscard]] const std::vector<Value>& items() const;     // empty unless an array
  [[nodiscard]] const std::vector<Member>& members() const;  // empty unless an object
  std::vector<Value>& items();
  std::vector<Member>& members();

  [[nodiscard]] const Value* find(std::string_view key) const;  // nullptr when absent or not an object
  [[nodiscard]] const Value& get(std::string_view key) const;   // a null value when absent
  void set(std::string key, Value value);                       // replaces or appends; makes null an object
  bool erase(std::string_view key);
  void push(Value value);  // makes null an array

  bool operator==(const Value& other) const;  // members in any order, numbers by text

 private:
  Type type_ = Type::null;
  bool bool_ = false;
  std::string text_;  // string content or number text
  std::vector<Value> items_;
  std::vector<Member> members_;
};

enum class Duplicates { refuse, first_wins };

struct ParseLimits {
  std::size_t max_bytes = 64u << 20;
  std::size_t max_values = 4'000'000;
};

// Error codes: json-syntax, json-depth, json-utf8, json-duplicate-key, json-too-large. object = `what` (a
// file or record name).
Result<Value> parse(std::string_view text, Duplicates duplicates, std::string_view what = "document",
                    const ParseLimits& limits = {});

// True when text is one valid JSON value (UTF-8, depth <= max_depth, itself at most 64) without line feeds;
// no tree is built.
bool is_valid_line(std::string_view text, int max_depth = 64);

// Compact, members in their order. `indent` > 0 for people.
std::string write(const Value& value, int indent = 0);
// Appends a quoted JSON string; invalid UTF-8 becomes U+FFFD. ESC, C0 and DEL are \u-escaped.
void append_quoted(std::string& out, std::string_view text);

}  // namespace hitchrail::json
