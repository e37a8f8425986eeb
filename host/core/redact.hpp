#pragma once
// Exact redaction of known secret values (environment and credential files handed in). Shapes come with a
// later issue. A value is also found in its JSON-escaped (once and twice), base64 and base64url (three
// alignments each) and percent-encoded forms; values shorter than 6 bytes are not searched for, which preview
// says (add() returns false). Replacement: [REDACTED:NAME], NAME reduced to letters, digits and "._-".
//
// It works on bytes and knows no JSON: a replacement in a number, or behind a backslash, can leave a text
// that is no longer JSON. Callers that need JSON check again. A value split over two texts is not found.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hitchrail {

class SecretRedactor {
 public:
  static constexpr std::size_t kMinBytes = 6;

  SecretRedactor() = default;
  // False: the value is too short to be searched for.
  bool add(std::string name, std::string value);
  [[nodiscard]] bool empty() const { return needles_.empty(); }
  // One pass for all needles; returns true and the cleaned text in `out` only when something was found.
  bool redact(std::string_view text, std::string& out, std::vector<std::string>* names = nullptr) const;

 private:
  struct Needle {
    std::string name;
    std::string bytes;
  };
  void add_form(const std::string& name, std::string bytes);
  void build();
  [[nodiscard]] const Needle* match_at(std::string_view text, std::size_t start, std::uint32_t hash) const;

  std::vector<Needle> needles_;  // longest first
  // Search by skipping (Wu and Manber): the last three bytes of a window as long as the shortest needle say
  // how far the window may move; 0 means look at the needles of that bucket.
  std::size_t window_ = 0;
  std::vector<std::uint8_t> skip_;
  std::vector<std::vector<std::uint32_t>> buckets_;
};

}  // namespace hitchrail
