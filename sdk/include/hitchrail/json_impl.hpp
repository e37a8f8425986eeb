#pragma once
// Definitions of json.hpp; include that.

#include <array>
#include <bit>
#include <cstring>

namespace hitchrail::sdk::json {
namespace detail {

constexpr std::uint64_t each_byte(unsigned char byte) {
  return 0x0101010101010101ull * byte;
}

// The high bit of a byte is set where the word's byte is below `limit` (limit at most 0x80). Bytes from 0x80
// on are not marked by it, and a borrow may mark a byte above a true one: callers look at the lowest mark
// only.
constexpr std::uint64_t marks_below(std::uint64_t word, unsigned char limit) {
  return (word - each_byte(limit)) & ~word & each_byte(0x80);
}

constexpr std::uint64_t marks_equal(std::uint64_t word, unsigned char byte) {
  return marks_below(word ^ each_byte(byte), 1);
}

static_assert(std::endian::native == std::endian::little, "the lowest mark is the first byte");

inline std::uint64_t load(const char* from) {
  std::uint64_t word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

inline bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}
inline bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

inline int hex_value(char c) {
  if (is_digit(c)) {
    return c - '0';
  }
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// Four hexadecimal digits at `at`, or -1.
inline int hex4(std::string_view text, std::size_t at) {
  if (text.size() < at + 4) {
    return -1;
  }
  int value = 0;
  for (std::size_t i = at; i < at + 4; ++i) {
    const int digit = hex_value(text[i]);
    if (digit < 0) {
      return -1;
    }
    value = value * 16 + digit;
  }
  return value;
}

// Length of the well-formed UTF-8 sequence of two to four bytes at `at`, or 0.
inline std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const std::size_t left = text.size() - at;
  const unsigned char first = byte(0);
  std::size_t length = 0;
  unsigned char low = 0x80;
  unsigned char high = 0xbf;
  if (first >= 0xc2 && first <= 0xdf) {
    length = 2;
  } else if (first >= 0xe0 && first <= 0xef) {
    length = 3;
    low = first == 0xe0 ? 0xa0 : 0x80;
    high = first == 0xed ? 0x9f : 0xbf;
  } else if (first >= 0xf0 && first <= 0xf4) {
    length = 4;
    low = first == 0xf0 ? 0x90 : 0x80;
    high = first == 0xf4 ? 0x8f : 0xbf;
  }
  if (length == 0 || left < length || byte(1) < low || byte(1) > high) {
    return 0;
  }
  for (std::size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) {
      return 0;
    }
  }
  return length;
}

// Skips the plain ASCII of a string: the first position whose byte is a quote, a backslash, a control
// character or above 0x7f.
inline std::size_t skip_plain(std::string_view text, std::size_t at) {
  while (at + 8 <= text.size()) {
    const std::uint64_t word = load(text.data() + at);
    const std::uint64_t marks =
        marks_equal(word, '"') | marks_equal(word, '\\') | marks_below(word, 0x20) | (word & each_byte(0x80));
    if (marks != 0) {
      return at + static_cast<std::size_t>(std::countr_zero(marks)) / 8;
    }
    at += 8;
  }
  while (at < text.size()) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte == '"' || byte == '\\' || byte < 0x20 || byte > 0x7f) {
      break;
    }
    ++at;
  }
  return at;
}

constexpr std::size_t npos = std::string_view::npos;

// The position after the string that begins with the quote at `at`, or npos when it is not well formed.
inline std::size_t check_string(std::string_view text, std::size_t at, bool& escaped) {
  ++at;
  for (;;) {
    at = skip_plain(text, at);
    if (at >= text.size()) {
      return npos;
    }
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte == '"') {
      return at + 1;
    }
    if (byte == '\\') {
      escaped = true;
      if (at + 1 >= text.size()) {
        return npos;
      }
      const char escape = text[at + 1];
      if (escape == 'u') {
        if (hex4(text, at + 2) < 0) {
          return npos;
        }
        at += 6;
      } else if (escape != '\0' && std::strchr("\"\\/bfnrt", escape) != nullptr) {
        at += 2;
      } else {
        return npos;
      }
    } else if (byte < 0x20) {
      return npos;
    } else {
      const std::size_t length = utf8_length(text, at);
      if (length == 0) {
        return npos;
      }
      at += length;
    }
  }
}

// The position after the digits from `at` on; npos when there is none.
inline std::size_t check_digits(std::string_view text, std::size_t at) {
  const std::size_t begin = at;
  while (at < text.size() && is_digit(text[at])) {
    ++at;
  }
  return at == begin ? npos : at;
}

inline std::size_t check_number(std::string_view text, std::size_t at) {
  if (text[at] == '-') {
    ++at;
  }
  if (at < text.size() && text[at] == '0') {
    ++at;
  } else if ((at = check_digits(text, at)) == npos) {
    return npos;
  }
  if (at < text.size() && text[at] == '.') {
    if ((at = check_digits(text, at + 1)) == npos) {
      return npos;
    }
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) {
      ++at;
    }
    at = check_digits(text, at);
  }
  return at;
}

inline std::size_t check_scalar(std::string_view text, std::size_t at) {
  if (text[at] == '"') {
    bool escaped = false;
    return check_string(text, at, escaped);
  }
  for (const std::string_view word : {"true", "false", "null"}) {
    if (text.substr(at, word.size()) == word) {
      return at + word.size();
    }
  }
  return text[at] == '-' || is_digit(text[at]) ? check_number(text, at) : npos;
}

inline std::size_t skip_space(std::string_view text, std::size_t at) {
  while (at < text.size() && is_space(text[at])) {
    ++at;
  }
  return at;
}

}  // namespace detail
using namespace detail;  // NOLINT: one namespace in two files

// One step of the grammar at a time; which brackets are open is a bit each.
class Checker {
 public:
  Checker(std::string_view text, Index* index) : text_(text), index_(index) {}

  bool run() {
    at_ = skip_space(text_, 0);
    if (!value()) {
      return false;
    }
    while (depth_ > 0) {
      at_ = skip_space(text_, at_);
      if (at_ >= text_.size() || !inside()) {
        return false;
      }
    }
    return skip_space(text_, at_) == text_.size();
  }

 private:
  static constexpr unsigned indexed_depth = 2;

  [[nodiscard]] bool in_object() const { return (objects_ & 1u) != 0; }

  // After a value inside a container, or right after its opening bracket (fresh_).
  bool inside() {
    const char c = text_[at_];
    if (c == (in_object() ? '}' : ']')) {
      objects_ >>= 1;
      --depth_;
      ++at_;
      fresh_ = false;
      value_ended();
      return true;
    }
    if (!fresh_) {
      if (c != ',') {
        return false;
      }
      at_ = skip_space(text_, at_ + 1);
    }
    return (!in_object() || key()) && value();
  }

  bool key() {
    if (at_ >= text_.size() || text_[at_] != '"') {
      return false;
    }
    const std::size_t begin = at_ + 1;
    bool escaped = false;
    at_ = check_string(text_, at_, escaped);
    if (at_ == npos) {
      return false;
    }
    if (index_ != nullptr && depth_ <= indexed_depth) {
      member(text_.substr(begin, at_ - begin - 1), escaped);
    }
    at_ = skip_space(text_, at_);
    if (at_ >= text_.size() || text_[at_] != ':') {
      return false;
    }
    at_ = skip_space(text_, at_ + 1);
    if (depth_ <= indexed_depth) {
      value_begin_[depth_] = at_;
    }
    return true;
  }

  bool value() {
    if (at_ >= text_.size()) {
      return false;
    }
    if (text_[at_] == '{' || text_[at_] == '[') {
      if (depth_ == max_depth) {
        return false;
      }
      objects_ = (objects_ << 1) | (text_[at_] == '{' ? 1u : 0u);
      ++depth_;
      ++at_;
      fresh_ = true;
      return true;
    }
    fresh_ = false;
    at_ = check_scalar(text_, at_);
    if (at_ == npos) {
      return false;
    }
    value_ended();
    return true;
  }

  void member(std::string_view name, bool escaped) {
    open_[depth_] = -1;
    const int parent = depth_ == 1 ? -1 : open_[1];
    if (depth_ == indexed_depth && (parent < 0 || (objects_ & 2u) == 0)) {
      return;  // an object inside an array
    }
    if (index_->size_ == Index::capacity) {
      index_->complete_ = false;
      return;
    }
    open_[depth_] = static_cast<int>(index_->size_);
    index_->members_[index_->size_++] = {name, View(), escaped, parent};
  }

  // The value at at_ has just ended inside the container of depth_.
  void value_ended() {
    if (index_ != nullptr && depth_ >= 1 && depth_ <= indexed_depth && in_object() && open_[depth_] >= 0) {
      const std::size_t begin = value_begin_[depth_];
      index_->members_[static_cast<std::size_t>(open_[depth_])].value =
          View::exact(text_.substr(begin, at_ - begin));
    }
  }

  std::string_view text_;
  Index* index_;
  std::size_t at_ = 0;
  std::uint64_t objects_ = 0;  // bit 0: the innermost container is an object
  unsigned depth_ = 0;
  bool fresh_ = false;
  std::array<int, indexed_depth + 1> open_{-1, -1, -1};  // the member whose value is being read, by depth
  std::array<std::size_t, indexed_depth + 1> value_begin_{};
};

namespace detail {

// Position after the string at `at` in a text that is known to be valid.
inline std::size_t pass_string(std::string_view text, std::size_t at) {
  ++at;
  while (at < text.size()) {
    if (at + 8 <= text.size()) {
      const std::uint64_t word = load(text.data() + at);
      const std::uint64_t marks = marks_equal(word, '"') | marks_equal(word, '\\');
      if (marks == 0) {
        at += 8;
        continue;
      }
      at += static_cast<std::size_t>(std::countr_zero(marks)) / 8;
    }
    if (text[at] == '"') {
      return at + 1;
    }
    at += text[at] == '\\' ? 2 : 1;
  }
  return text.size();
}

// Position after the value at `at` in a text that is known to be valid.
inline std::size_t pass_value(std::string_view text, std::size_t at) {
  if (text[at] == '"') {
    return pass_string(text, at);
  }
  std::size_t depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = pass_string(text, at);
      continue;
    }
    if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      if (depth == 0) {
        return at;
      }
      if (--depth == 0) {
        return at + 1;
      }
    } else if (depth == 0 && (c == ',' || is_space(c))) {
      return at;
    }
    ++at;
  }
  return at;
}

inline void append_utf8(std::string& out, std::uint32_t code) {
  if (code < 0x80) {
    out.push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out.push_back(static_cast<char>(0xc0 | (code >> 6)));
    out.push_back(static_cast<char>(0x80 | (code & 0x3f)));
  } else if (code < 0x10000) {
    out.push_back(static_cast<char>(0xe0 | (code >> 12)));
    out.push_back(static_cast<char>(0x80 | ((code >> 6) & 0x3f)));
    out.push_back(static_cast<char>(0x80 | (code & 0x3f)));
  } else {
    out.push_back(static_cast<char>(0xf0 | (code >> 18)));
    out.push_back(static_cast<char>(0x80 | ((code >> 12) & 0x3f)));
    out.push_back(static_cast<char>(0x80 | ((code >> 6) & 0x3f)));
    out.push_back(static_cast<char>(0x80 | (code & 0x3f)));
  }
}

inline bool is_high_surrogate(int unit) {
  return unit >= 0xd800 && unit <= 0xdbff;
}
inline bool is_low_surrogate(int unit) {
  return unit >= 0xdc00 && unit <= 0xdfff;
}

// Appends what the escape at body[at] (a backslash) stands for; gives the position after it.
inline std::size_t append_escape(std::string& out, std::string_view body, std::size_t at) {
  const char kind = at + 1 < body.size() ? body[at + 1] : '\\';
  if (kind == 'u') {
    const int unit = hex4(body, at + 2);
    if (is_high_surrogate(unit) && body.substr(at + 6, 2) == "\\u") {
      const int low = hex4(body, at + 8);
      if (is_low_surrogate(low)) {
        append_utf8(out, 0x10000u + ((static_cast<std::uint32_t>(unit) - 0xd800u) << 10) +
                             (static_cast<std::uint32_t>(low) - 0xdc00u));
        return at + 12;
      }
    }
    const bool lone = unit < 0 || is_high_surrogate(unit) || is_low_surrogate(unit);
    append_utf8(out, lone ? 0xfffdu : static_cast<std::uint32_t>(unit));
    return at + 6;
  }
  constexpr std::string_view names = "bfnrt";
  constexpr std::string_view bytes = "\b\f\n\r\t";
  const std::size_t index = names.find(kind);
  out.push_back(index == npos ? kind : bytes[index]);
  return at + 2;
}

inline void unescape(std::string& out, std::string_view body) {
  out.reserve(out.size() + body.size());
  std::size_t at = 0;
  while (at < body.size()) {
    const void* slash = std::memchr(body.data() + at, '\\', body.size() - at);
    const std::size_t end = slash == nullptr
                                ? body.size()
                                : static_cast<std::size_t>(static_cast<const char*>(slash) - body.data());
    out.append(body, at, end - at);
    at = end == body.size() ? end : append_escape(out, body, end);
  }
}

inline std::string_view string_body(std::string_view quoted) {
  return quoted.size() < 2 ? std::string_view() : quoted.substr(1, quoted.size() - 2);
}

// Whether the string written as `body` between its quotes is `expected`.
inline bool body_equals(std::string_view body, std::string_view expected) {
  if (body == expected && expected.find('\\') == npos) {
    return true;
  }
  // A character needs at most six bytes when escaped.
  if (body.size() > 6 * expected.size() || body.find('\\') == npos) {
    return false;
  }
  std::string text;
  unescape(text, body);
  return text == expected;
}

}  // namespace detail

inline bool valid(std::string_view text) {
  return Checker(text, nullptr).run();
}

inline bool valid(std::string_view text, Index& index) {
  index.clear();
  return Checker(text, &index).run();
}

inline bool Index::Member::key_is(std::string_view name) const {
  return escaped ? body_equals(key, name) : key == name;
}

inline bool valid_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    if (at + 8 <= text.size() && (load(text.data() + at) & each_byte(0x80)) == 0) {
      at += 8;
    } else if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
    } else {
      const std::size_t length = utf8_length(text, at);
      if (length == 0) {
        return false;
      }
      at += length;
    }
  }
  return true;
}

inline void append_quoted(std::string& out, std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  out.push_back('"');
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\u00";
      out.push_back(digits[byte >> 4]);
      out.push_back(digits[byte & 15u]);
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
}

inline View::View(std::string_view text) {
  const std::size_t begin = skip_space(text, 0);
  std::size_t end = text.size();
  while (end > begin && is_space(text[end - 1])) {
    --end;
  }
  text_ = text.substr(begin, end - begin);
}

inline View View::get(std::string_view key) const {
  if (is_object()) {
    for (Walker walker(*this); walker.next();) {
      if (walker.key_is(key)) {
        return walker.value();
      }
    }
  }
  return {};
}

inline std::string_view View::string(std::string& scratch) const {
  if (!is_string()) {
    return {};
  }
  const std::string_view body = string_body(text_);
  if (body.find('\\') == npos) {
    return body;
  }
  scratch.clear();
  unescape(scratch, body);
  return scratch;
}

inline std::string View::string() const {
  std::string scratch;
  return std::string(string(scratch));
}

inline bool View::equals(std::string_view expected) const {
  return is_string() && body_equals(string_body(text_), expected);
}

inline std::optional<std::uint64_t> View::count() const {
  if (text_.empty() || text_.size() > 16) {
    return std::nullopt;
  }
  std::uint64_t value = 0;
  for (const char c : text_) {
    if (!is_digit(c)) {
      return std::nullopt;
    }
    value = value * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return value <= (1ull << 53) ? std::optional(value) : std::nullopt;
}

inline View::Walker::Walker(View container) : object_(container.is_object()) {
  if (object_ || container.is_array()) {
    text_ = container.raw();
  }
}

inline bool View::Walker::next() {
  at_ = skip_space(text_, at_);
  if (at_ < text_.size() && text_[at_] == ',') {
    at_ = skip_space(text_, at_ + 1);
  }
  if (at_ >= text_.size() || text_[at_] == '}' || text_[at_] == ']') {
    return false;
  }
  if (object_) {
    const std::size_t end = pass_string(text_, at_);
    key_ = text_.substr(at_, end - at_);
    at_ = skip_space(text_, end);
    at_ = skip_space(text_, at_ + 1);  // the colon
    if (at_ >= text_.size()) {
      return false;
    }
  }
  const std::size_t end = pass_value(text_, at_);
  value_ = View(text_.substr(at_, end - at_));
  at_ = end;
  return true;
}

inline bool View::Walker::key_is(std::string_view name) const {
  return body_equals(string_body(key_), name);
}

inline std::string View::Walker::key() const {
  std::string text;
  unescape(text, string_body(key_));
  return text;
}

}  // namespace hitchrail::sdk::json
