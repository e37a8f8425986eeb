#include "gate/request.hpp"

#include <algorithm>

namespace hitchrail::gate {
namespace {

bool token_char(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool parse_port(std::string_view text, std::uint16_t& port) {
  if (text.empty() || text.size() > 5 || text[0] == '0') {
    return false;
  }
  std::uint32_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') {
      return false;
    }
    value = value * 10 + static_cast<std::uint32_t>(c - '0');
  }
  port = static_cast<std::uint16_t>(value);
  return value <= 65535;
}

// host ":" port, the only form a CONNECT has.
bool parse_authority(std::string_view text, Head& head) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) {
    return false;
  }
  head.host = text.substr(0, colon);
  const bool bracketed = head.host.front() == '[' && head.host.back() == ']';
  return (bracketed || head.host.find(':') == std::string_view::npos) &&
         parse_port(text.substr(colon + 1), head.port);
}

// `name: value`; control characters, continuation lines and a space before the colon are refused.
bool valid_field(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0 ||
      !std::all_of(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(colon), token_char)) {
    return false;
  }
  return std::none_of(line.begin() + static_cast<std::ptrdiff_t>(colon), line.end(), [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f;
  });
}

Head::State parse_lines(std::string_view lines, Head& head) {
  const std::size_t end = lines.find("\r\n");
  const std::string_view request = lines.substr(0, end);
  const std::size_t first = request.find(' ');
  const std::size_t last = request.rfind(' ');
  if (first == std::string_view::npos || last == first || first == 0 ||
      !std::all_of(request.begin(), request.begin() + static_cast<std::ptrdiff_t>(first), token_char)) {
    return Head::State::bad;
  }
  const std::string_view target = request.substr(first + 1, last - first - 1);
  const std::string_view protocol = request.substr(last + 1);
  const bool printable =
      std::all_of(target.begin(), target.end(), [](char c) { return c > 0x20 && c < 0x7f; });
  if (target.empty() || !printable || (protocol != "HTTP/1.1" && protocol != "HTTP/1.0")) {
    return Head::State::bad;
  }
  if (request.substr(0, first) != "CONNECT") {
    return Head::State::method;
  }
  if (!parse_authority(target, head)) {
    return Head::State::bad;
  }
  lines.remove_prefix(end + 2);
  while (!lines.empty()) {
    const std::size_t stop = lines.find("\r\n");
    if (!valid_field(lines.substr(0, stop))) {
      return Head::State::bad;
    }
    lines.remove_prefix(stop + 2);
  }
  return Head::State::connect;
}

}  // namespace

Head parse_head(std::string_view bytes, std::size_t& scanned) {
  Head head;
  const std::string_view looked_at = bytes.substr(0, max_head);
  const std::size_t from = scanned < 3 ? 0 : scanned - 3;
  const std::size_t end = looked_at.find("\r\n\r\n", from);
  scanned = looked_at.size();
  if (end == std::string_view::npos) {
    head.state = bytes.size() >= max_head ? Head::State::too_large : Head::State::more;
    return head;
  }
  head.size = end + 4;
  head.state = parse_lines(bytes.substr(0, end + 2), head);
  return head;
}

}  // namespace hitchrail::gate
