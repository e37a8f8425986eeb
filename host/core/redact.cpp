#include "core/redact.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "core/text.hpp"

namespace hitchrail {
namespace {

constexpr std::uint32_t kTableSize = 1u << 13;
constexpr std::size_t kBlock = 3;

std::uint32_t block_hash(const char* at) {
  const auto byte = [&](int i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(at[i])); };
  return ((byte(0) << 10) ^ (byte(1) << 5) ^ byte(2)) & (kTableSize - 1);
}

struct EscapeStyle {
  bool slash;        // "/" as "\/"
  bool html;         // < > & as \u003c, as Go writes them
  bool ascii_only;   // everything above ASCII as \uXXXX
  const char* unit;  // format of one UTF-16 unit: hexadecimal digits small or large
};

void append_unit(std::string& out, const char* format, unsigned unit) {
  char buffer[8];
  std::snprintf(buffer, sizeof buffer, format, unit);
  out += buffer;
}

void append_code_point(std::string& out, const EscapeStyle& style, std::string_view bytes) {
  unsigned code = static_cast<unsigned char>(bytes[0]) & (0x7Fu >> bytes.size());
  for (const char c : bytes.substr(1)) {
    code = (code << 6) | (static_cast<unsigned char>(c) & 0x3Fu);
  }
  if (code > 0xFFFF) {
    append_unit(out, style.unit, 0xD800 + ((code - 0x10000) >> 10));
    append_unit(out, style.unit, 0xDC00 + ((code - 0x10000) & 0x3FF));
  } else {
    append_unit(out, style.unit, code);
  }
}

std::string json_escaped(std::string_view value, const EscapeStyle& style) {
  static constexpr std::string_view kFrom = "\"\\\b\f\n\r\t";
  static constexpr std::string_view kTo = "\"\\bfnrt";
  std::string out;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const char c = value[i];
    const auto byte = static_cast<unsigned char>(c);
    const std::size_t known = kFrom.find(c);
    if (known != std::string_view::npos) {
      out.push_back('\\');
      out.push_back(kTo[known]);
    } else if (byte < 0x20 || byte == 0x7F || (style.html && (c == '<' || c == '>' || c == '&'))) {
      append_unit(out, style.unit, byte);
    } else if (c == '/' && style.slash) {
      out += "\\/";
    } else if (byte >= 0x80 && style.ascii_only && utf8_length(value, i) > 0) {
      const std::size_t length = utf8_length(value, i);
      append_code_point(out, style, value.substr(i, length));
      i += length - 1;
    } else {
      out.push_back(c);
    }
  }
  return out;
}

std::string percent_encoded(std::string_view value, std::string_view keep, const char* format, bool plus) {
  std::string out;
  for (const char c : value) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                       keep.find(c) != std::string_view::npos;
    if (plain) {
      out.push_back(c);
    } else if (c == ' ' && plus) {
      out.push_back('+');
    } else {
      append_unit(out, format, static_cast<unsigned char>(c));
    }
  }
  return out;
}

// The characters of the encoding that depend on the value alone when it begins `shift` bytes into a group of
// three.
std::string base64_core(std::string_view value, std::size_t shift) {
  const std::string encoded = base64_encode(std::string(shift, '\0') + std::string(value));
  const std::size_t first = shift == 0 ? 0 : shift + 1;
  const std::size_t last = (shift + value.size()) * 8 / 6;
  return encoded.substr(first, last - first);
}

std::string safe_name(std::string name) {
  std::replace_if(
      name.begin(), name.end(),
      [](char c) {
        return !((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '.' ||
                 c == '_' || c == '-');
      },
      '_');
  return name;
}

}  // namespace

void SecretRedactor::add_form(const std::string& name, std::string bytes) {
  const bool known = std::any_of(needles_.begin(), needles_.end(),
                                 [&](const Needle& needle) { return needle.bytes == bytes; });
  if (!known && bytes.size() >= kMinBytes) {
    needles_.push_back({name, std::move(bytes)});
  }
}

bool SecretRedactor::add(std::string name, std::string value) {
  if (value.size() < kMinBytes) {
    return false;
  }
  name = safe_name(std::move(name));
  add_form(name, value);
  constexpr const char* kSmall = "\\u%04x";
  constexpr const char* kLarge = "\\u%04X";
  for (const EscapeStyle& style :
       {EscapeStyle{false, false, false, kSmall}, EscapeStyle{false, false, false, kLarge},
        EscapeStyle{true, false, false, kSmall}, EscapeStyle{false, true, false, kSmall},
        EscapeStyle{false, false, true, kSmall}, EscapeStyle{false, false, true, kLarge},
        EscapeStyle{true, false, true, kSmall}}) {
    const std::string once = json_escaped(value, style);
    add_form(name, once);
    add_form(name, json_escaped(once, style));  // JSON inside a JSON string, as arguments of tool calls are
  }
  for (std::size_t shift = 0; shift < 3; ++shift) {
    std::string core = base64_core(value, shift);
    add_form(name, core);
    std::replace(core.begin(), core.end(), '+', '-');
    std::replace(core.begin(), core.end(), '/', '_');
    add_form(name, core);
  }
  for (const std::string_view keep : {"-._~", "-._~!'()*"}) {
    add_form(name, percent_encoded(value, keep, "%%%02X", false));
    add_form(name, percent_encoded(value, keep, "%%%02x", false));
  }
  add_form(name, percent_encoded(value, "*-._", "%%%02X", true));  // a submitted form
  build();
  return true;
}

void SecretRedactor::build() {
  std::stable_sort(needles_.begin(), needles_.end(),
                   [](const Needle& a, const Needle& b) { return a.bytes.size() > b.bytes.size(); });
  window_ = std::min<std::size_t>(needles_.back().bytes.size(), 64);
  const std::size_t longest = window_ - kBlock + 1;
  skip_.assign(kTableSize, static_cast<std::uint8_t>(longest));
  buckets_.assign(kTableSize, {});
  for (std::uint32_t n = 0; n < needles_.size(); ++n) {
    const char* bytes = needles_[n].bytes.data();
    for (std::size_t end = kBlock; end <= window_; ++end) {
      const std::uint32_t hash = block_hash(bytes + end - kBlock);
      skip_[hash] = std::min(skip_[hash], static_cast<std::uint8_t>(window_ - end));
    }
    buckets_[block_hash(bytes + window_ - kBlock)].push_back(n);
  }
}

const SecretRedactor::Needle* SecretRedactor::match_at(std::string_view text, std::size_t start,
                                                       std::uint32_t hash) const {
  for (const std::uint32_t n : buckets_[hash]) {
    const Needle& needle = needles_[n];
    if (text.size() - start >= needle.bytes.size() &&
        std::memcmp(text.data() + start, needle.bytes.data(), needle.bytes.size()) == 0) {
      return &needle;
    }
  }
  return nullptr;
}

bool SecretRedactor::redact(std::string_view text, std::string& out, std::vector<std::string>* names) const {
  if (needles_.empty() || text.size() < window_) {
    return false;
  }
  bool found = false;
  std::size_t copied = 0;
  std::size_t end = window_;
  while (end <= text.size()) {
    const std::uint32_t hash = block_hash(text.data() + end - kBlock);
    if (skip_[hash] != 0) {
      end += skip_[hash];
      continue;
    }
    const std::size_t start = end - window_;
    const Needle* needle = match_at(text, start, hash);
    if (needle == nullptr) {
      ++end;
      continue;
    }
    if (!found) {
      out.clear();
      found = true;
    }
    out.append(text, copied, start - copied);
    out += "[REDACTED:" + needle->name + "]";
    if (names != nullptr && std::find(names->begin(), names->end(), needle->name) == names->end()) {
      names->push_back(needle->name);
    }
    copied = start + needle->bytes.size();
    end = copied + window_;
  }
  if (found) {
    out.append(text, copied, text.size() - copied);
  }
  return found;
}

}  // namespace hitchrail
