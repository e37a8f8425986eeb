#pragma once
// Exact redaction of known secret values (environment and credential files handed in). Shapes come with a later issue.
// A value is also found in its JSON-escaped, base64 (three alignments) and percent-encoded forms; values shorter than 6 bytes are
// not searched for, which preview says. Replacement: [REDACTED:NAME].

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hitchrail {

class SecretRedactor {
 public:
  SecretRedactor() = default;
  void add(std::string name, std::string value);
  [[nodiscard]] bool empty() const { return needles_.empty(); }
  // One pass for all needles; returns true and the cleaned text in `out` only when something was found.
  bool redact(std::string_view text, std::string& out, std::vector<std::string>* names = nullptr) const;

 private:
  struct Needle {
    std::string name;
    std::string bytes;
  };
  std::vector<Needle> needles_;
};

}  // namespace hitchrail
