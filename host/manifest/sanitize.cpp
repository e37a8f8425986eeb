#include <algorithm>

#include "core/secret_shapes.hpp"
#include "core/text.hpp"
#include "manifest/fields.hpp"
#include "manifest/manifest.hpp"

namespace hitchrail::manifest {
namespace {

constexpr std::size_t kMaxDiagnostic = 1000;

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

std::string one_line(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (!is_space(c)) {
      out += c;
    } else if (!out.empty() && out.back() != ' ') {
      out += ' ';
    }
  }
  if (!out.empty() && out.back() == ' ') {
    out.pop_back();
  }
  return out;
}

}  // namespace

std::string sanitize_diagnostic(std::string_view text) {
  std::string clean;
  for (const char c : is_valid_utf8(text) ? std::string(text) : escape_visible(text)) {
    if (c != '\x7f') {
      clean += c;
    }
  }
  return cut_code_points(redact_secret_shapes(one_line(clean)), kMaxDiagnostic);
}

bool looks_like_secret(std::string_view text) {
  const std::string line = one_line(text);
  return redact_secret_shapes(line) != line;
}

}  // namespace hitchrail::manifest
