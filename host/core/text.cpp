#include "core/text.hpp"

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace hitchrail {
namespace {

constexpr std::uint64_t kHighBits = 0x8080808080808080ULL;

struct Decoded {
  char32_t code = 0;
  std::size_t length = 0;  // 0: the byte at this place does not begin valid UTF-8
};

// Well-formed sequences of Unicode table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF.
Decoded decode_utf8(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const std::size_t left = text.size() - at;
  const unsigned lead = byte(0);
  if (lead < 0x80) {
    return {lead, 1};
  }
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || left < length) {
    return {};
  }
  unsigned low = 0x80;
  unsigned high = 0xBF;
  if (lead == 0xE0) {
    low = 0xA0;
  } else if (lead == 0xED) {
    high = 0x9F;
  } else if (lead == 0xF0) {
    low = 0x90;
  } else if (lead == 0xF4) {
    high = 0x8F;
  }
  if (byte(1) < low || byte(1) > high) {
    return {};
  }
  char32_t code = lead & (0x7Fu >> length);
  code = (code << 6) | (byte(1) & 0x3Fu);
  for (std::size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xC0u) != 0x80) {
      return {};
    }
    code = (code << 6) | (byte(i) & 0x3Fu);
  }
  return {code, length};
}

struct Range {
  char32_t first;
  char32_t last;
};

// Bidi controls, zero-width and otherwise invisible characters, line separators, variation selectors, tags.
constexpr std::array<Range, 20> kHidden{
    {{0x80, 0x9F},       {0xAD, 0xAD},       {0x34F, 0x34F},     {0x61C, 0x61C},     {0x115F, 0x1160},
     {0x17B4, 0x17B5},   {0x180B, 0x180F},   {0x200B, 0x200F},   {0x2028, 0x202E},   {0x2060, 0x206F},
     {0x3164, 0x3164},   {0xFE00, 0xFE0F},   {0xFEFF, 0xFEFF},   {0xFFA0, 0xFFA0},   {0xFFF0, 0xFFFB},
     {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF}, {0xF0000, 0xFFFFF}, {0x100000, 0x10FFFF}}};

bool is_hidden(char32_t code) {
  for (const Range& range : kHidden) {
    if (code < range.first) {
      return false;
    }
    if (code <= range.last) {
      return true;
    }
  }
  return false;
}

void append_format(std::string& out, const char* format, unsigned value) {
  char buffer[16];
  const int n = std::snprintf(buffer, sizeof buffer, format, value);
  out.append(buffer, static_cast<std::size_t>(n));
}

}  // namespace

std::size_t utf8_length(std::string_view text, std::size_t at) {
  return decode_utf8(text, at).length;
}

bool is_valid_utf8(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size()) {
    while (i + 8 <= text.size()) {
      std::uint64_t word = 0;
      std::memcpy(&word, text.data() + i, 8);
      if ((word & kHighBits) != 0) {
        break;
      }
      i += 8;
    }
    if (i >= text.size()) {
      return true;
    }
    const Decoded decoded = decode_utf8(text, i);
    if (decoded.length == 0) {
      return false;
    }
    i += decoded.length;
  }
  return true;
}

std::string escape_visible(std::string_view text, bool keep_newlines) {
  std::string out;
  out.reserve(text.size());
  std::size_t i = 0;
  while (i < text.size()) {
    const Decoded decoded = decode_utf8(text, i);
    if (decoded.length == 0) {
      append_format(out, "\\x%02x", static_cast<unsigned char>(text[i]));
      ++i;
      continue;
    }
    const char32_t code = decoded.code;
    if (code < 0x20 || code == 0x7F) {
      if (code == '\n' && keep_newlines) {
        out.push_back('\n');
      } else if (code == '\n') {
        out += "\\n";
      } else if (code == '\t') {
        out += "\\t";
      } else if (code == '\r') {
        out += "\\r";
      } else {
        append_format(out, "\\x%02x", code);
      }
    } else if (is_hidden(code)) {
      append_format(out, code > 0xFFFF ? "\\U%08x" : "\\u%04x", code);
    } else {
      out.append(text.substr(i, decoded.length));
    }
    i += decoded.length;
  }
  return out;
}

std::string escape_cut(std::string_view text, std::size_t columns) {
  // One code point becomes at least one column, so more than columns * 4 bytes of input are never needed.
  const bool long_input = text.size() / 4 > columns;
  std::string escaped = escape_visible(long_input ? text.substr(0, columns * 4 + 4) : text);
  std::size_t count = 0;
  std::size_t cut = 0;  // where the text ends when one column is kept for the ellipsis
  for (std::size_t i = 0; i < escaped.size(); ++i) {
    if ((static_cast<unsigned char>(escaped[i]) & 0xC0u) == 0x80) {
      continue;
    }
    if (columns > 0 && count == columns - 1) {
      cut = i;
    }
    ++count;
  }
  if (count <= columns && !long_input) {
    return escaped;
  }
  if (columns == 0) {
    return {};
  }
  escaped.resize(cut);
  escaped += "\u2026";
  return escaped;
}

std::string base64_encode(std::string_view bytes) {
  static constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t left = bytes.size() - i;
    std::uint32_t group = static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i])) << 16;
    if (left > 1) {
      group |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i + 1])) << 8;
    }
    if (left > 2) {
      group |= static_cast<unsigned char>(bytes[i + 2]);
    }
    out.push_back(kAlphabet[group >> 18]);
    out.push_back(kAlphabet[(group >> 12) & 63]);
    out.push_back(left > 1 ? kAlphabet[(group >> 6) & 63] : '=');
    out.push_back(left > 2 ? kAlphabet[group & 63] : '=');
  }
  return out;
}

std::string hex_encode(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out.push_back(kDigits[byte >> 4]);
    out.push_back(kDigits[byte & 15]);
  }
  return out;
}

}  // namespace hitchrail
