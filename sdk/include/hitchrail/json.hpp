#pragma once
// Optional, header-only. Reading JSON without building a tree: `valid` checks a text once, a View walks it
// afterwards by spans of the same text. Records of the harness are up to 8 MiB and mostly one long string, so
// copying or indexing them would cost more than everything else the adapter does.
//
// Promises: one pass for syntax, UTF-8 and depth, without recursion; of a repeated key the first counts;
// numbers keep their text; a View of anything absent or of another type answers "nothing", never throws and
// never reads outside its text. Refuses: depth over 64, invalid UTF-8, raw control characters in strings,
// anything after the value.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hitchrail::sdk::json {

inline constexpr unsigned max_depth = 64;

// True when text is exactly one JSON value, white space around it allowed.
inline bool valid(std::string_view text);
class Index;
// The same, and in the same pass the members of the outermost object and of the objects in it.
inline bool valid(std::string_view text, Index& index);
inline bool valid_utf8(std::string_view text);

// Appends text as a quoted JSON string; text must be valid UTF-8.
inline void append_quoted(std::string& out, std::string_view text);

class View {
 public:
  View() = default;
  // `text` must have passed `valid`.
  explicit View(std::string_view text);

  // The same for a text known to be without white space around it.
  static View exact(std::string_view text) {
    View view;
    view.text_ = text;
    return view;
  }

  [[nodiscard]] std::string_view raw() const { return text_; }
  [[nodiscard]] bool present() const { return !text_.empty(); }
  [[nodiscard]] bool is_object() const { return present() && text_.front() == '{'; }
  [[nodiscard]] bool is_array() const { return present() && text_.front() == '['; }
  [[nodiscard]] bool is_string() const { return present() && text_.front() == '"'; }
  [[nodiscard]] bool is_null() const { return text_ == "null"; }
  [[nodiscard]] bool is_true() const { return text_ == "true"; }

  // The first member of that name.
  [[nodiscard]] View get(std::string_view key) const;
  // A string's content. `scratch` is used only when the string has escapes; the result lives as long as both.
  // A surrogate without its other half becomes U+FFFD.
  std::string_view string(std::string& scratch) const;
  [[nodiscard]] std::string string() const;
  // A string equal to `expected`.
  [[nodiscard]] bool equals(std::string_view expected) const;
  // An integer from 0 to 2^53.
  [[nodiscard]] std::optional<std::uint64_t> count() const;

  // Walks members or elements: for (Walker w(view); w.next();) { w.key(), w.value() }.
  class Walker;

 private:
  std::string_view text_;
};

class View::Walker {
 public:
  explicit Walker(View container);
  bool next();
  [[nodiscard]] bool key_is(std::string_view name) const;
  [[nodiscard]] std::string key() const;
  [[nodiscard]] View value() const { return value_; }

 private:
  std::string_view text_;
  std::size_t at_ = 1;
  bool object_ = false;
  std::string_view key_;  // with its quotes
  View value_;
};

// Members of two levels, in their order. One that does not fit any more makes the index incomplete.
class Index {
 public:
  struct Member {
    std::string_view key;  // between its quotes, as written
    View value;
    bool escaped = false;  // the key has escapes
    int parent = -1;       // the member of the outermost object that holds this one; -1: it is one of those
    [[nodiscard]] bool key_is(std::string_view name) const;
  };
  static constexpr std::size_t capacity = 48;

  void clear() {
    size_ = 0;
    complete_ = true;
  }
  [[nodiscard]] bool complete() const { return complete_; }
  [[nodiscard]] const Member* begin() const { return members_.data(); }
  [[nodiscard]] const Member* end() const { return members_.data() + size_; }

 private:
  friend class Checker;
  std::array<Member, capacity> members_;
  std::size_t size_ = 0;
  bool complete_ = true;
};

}  // namespace hitchrail::sdk::json

#include <hitchrail/json_impl.hpp>  // NOLINT: definitions, kept apart for the reader
