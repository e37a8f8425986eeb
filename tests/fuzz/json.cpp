// The JSON entry point against itself: the line check against the parser, the parser against the writer, and
// every tree through the canonical form.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/canonical.hpp"
#include "core/json.hpp"
#include "core/text.hpp"

using namespace hitchrail;

namespace {

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

// The line check knows numbers only up to 290 digits or an exponent of 290; see json_line.cpp.
bool has_extreme_number(const json::Value& value) {
  if (value.is_number()) {
    const std::string& text = value.number_text();
    return text.size() > 280 || text.find_first_of("eE") != std::string::npos;
  }
  for (const json::Value& item : value.items()) {
    if (has_extreme_number(item)) {
      return true;
    }
  }
  for (const json::Member& member : value.members()) {
    if (has_extreme_number(member.second)) {
      return true;
    }
  }
  return false;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto lenient = json::parse(text, json::Duplicates::first_wins);
  const auto strict = json::parse(text, json::Duplicates::refuse);
  const bool line = json::is_valid_line(text);
  require(!line || lenient.has_value());
  require(!strict.has_value() || lenient.has_value());
  if (!lenient.has_value()) {
    require(!lenient.error().code.empty());
    return 0;
  }
  require(is_valid_utf8(text));
  if (text.find('\n') == std::string_view::npos && !has_extreme_number(*lenient)) {
    // A number dropped as the second value of a key may be extreme as well.
    require(line || !strict.has_value());
  }
  const std::string written = json::write(*lenient);
  const auto again = json::parse(written, json::Duplicates::refuse);
  require(again.has_value() && *again == *lenient);
  require(json::write(*again) == written);
  require(json::parse(json::write(*lenient, 2), json::Duplicates::refuse).value() == *lenient);
  if (const auto canonical = canonicalize(*lenient)) {
    const auto reread = json::parse(*canonical, json::Duplicates::refuse);
    require(reread.has_value() && canonicalize(*reread).value() == *canonical);
  }
  (void)document_digest(*lenient);
  return 0;
}
