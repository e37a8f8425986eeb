#include "core/canonical.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "core/text.hpp"

namespace hitchrail {
namespace {

constexpr std::int64_t kMaxExact = std::int64_t{1} << 53;
constexpr int kMaxDepth = 64;

enum class Form { rfc, document };

Error unsupported(std::string object, std::string detail) {
  return Error{ErrorClass::usage, "canonical-unsupported", "write canonical form",
               std::move(object), std::move(detail),       ""};
}

// UTF-16 order from UTF-8 bytes: the same as code point order, except that the two-unit characters (lead F0
// and above) come before U+E000..U+FFFF (lead EE and EF). Continuation bytes never have those values.
bool utf16_less(std::string_view a, std::string_view b) {
  const std::size_t common = std::min(a.size(), b.size());
  std::size_t at = 0;
  while (at < common && a[at] == b[at]) {
    ++at;
  }
  if (at == common) {
    return a.size() < b.size();
  }
  const auto weight = [](char c) {
    const unsigned byte = static_cast<unsigned char>(c);
    return byte == 0xEE || byte == 0xEF ? byte + 0x100 : byte;
  };
  return weight(a[at]) < weight(b[at]);
}

// ECMAScript's Number::toString from the shortest digits that read back as the same double.
std::string es_number(double number) {
  if (number == 0) {
    return "0";
  }
  std::array<char, 40> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), std::fabs(number),
                                 std::chars_format::scientific)
                       .ptr;
  const std::string_view text(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
  const std::size_t mark = text.find('e');
  std::string digits(text.substr(0, 1));
  if (mark > 2) {
    digits += text.substr(2, mark - 2);
  }
  int exponent = std::atoi(text.data() + mark + 1);
  const int count = static_cast<int>(digits.size());
  const int point = exponent + 1;  // digits before the decimal point
  std::string out = number < 0 ? "-" : "";
  if (point >= count && point <= 21) {
    out += digits + std::string(static_cast<std::size_t>(point - count), '0');
  } else if (point > 0 && point <= 21) {
    out += digits.substr(0, static_cast<std::size_t>(point)) + "." +
           digits.substr(static_cast<std::size_t>(point));
  } else if (point > -6 && point <= 0) {
    out += "0." + std::string(static_cast<std::size_t>(-point), '0') + digits;
  } else {
    out += digits.substr(0, 1);
    if (count > 1) {
      out += "." + digits.substr(1);
    }
    out += exponent < 0 ? "e-" : "e+";
    out += std::to_string(std::abs(exponent));
  }
  return out;
}

// What a byte of a string needs: nothing, an escape, a look at the whole text's UTF-8, or a refusal in
// documents.
constexpr unsigned char kPlain = 0, kEscape = 1, kHigh = 2, kDelete = 3;
constexpr std::array<unsigned char, 256> kByteKinds = [] {
  std::array<unsigned char, 256> kinds{};
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    kinds[i] = i < 0x20 || i == '"' || i == '\\' ? kEscape : i >= 0x80 ? kHigh : i == 0x7F ? kDelete : kPlain;
  }
  return kinds;
}();

class CanonicalWriter {
 public:
  explicit CanonicalWriter(Form form, bool without_digest) : form_(form), without_digest_(without_digest) {}

  // The depth is bounded, so recursion is.
  Status value(const json::Value& value, int depth) {
    if (depth > kMaxDepth) {
      return unsupported("value", "values are nested more than 64 deep");
    }
    switch (value.type()) {
      case json::Type::null:
        out += "null";
        return {};
      case json::Type::boolean:
        out += value.as_bool() ? "true" : "false";
        return {};
      case json::Type::number:
        return number(value);
      case json::Type::string:
        return string(value.as_string(), false);
      case json::Type::array:
        return array(value, depth);
      case json::Type::object:
        return object(value, depth);
    }
    return {};
  }

  std::string out;

 private:
  Status number(const json::Value& value) {
    const std::string& text = value.number_text();
    if (form_ == Form::document) {
      const std::optional<std::int64_t> integer = value.as_int();
      // "-0", "+1" and "01" are other texts of the same number; the parser lets none of the last two through.
      if (!integer || *integer > kMaxExact || *integer < -kMaxExact ||
          text.find_first_not_of("-0123456789") != std::string::npos ||
          (text.size() > 1 && text[text[0] == '-' ? 1 : 0] == '0')) {
        return unsupported(escape_cut(text, 40),
                           "a number of a document is an integer within plus or minus 2^53");
      }
      out += text;
      return {};
    }
    double number = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    // Too small a number is reported as out of range although its nearest double is zero or tiny.
    if (error == std::errc::result_out_of_range && stop == text.data() + text.size()) {
      number = std::strtod(text.c_str(), nullptr);
    } else if (error != std::errc() || stop != text.data() + text.size()) {
      return unsupported(escape_cut(text, 40), "this is not a number");
    }
    if (!std::isfinite(number)) {
      return unsupported(escape_cut(text, 40), "no double holds this number");
    }
    out += es_number(number);
    return {};
  }

  // Runs of bytes that stand for themselves are appended whole; only text beyond ASCII is asked for its
  // UTF-8.
  Status string(std::string_view text, bool key) {
    static constexpr char kDigits[] = "0123456789abcdef";
    out.push_back('"');
    std::size_t start = 0;
    bool ascii = true;
    for (std::size_t at = 0; at < text.size(); ++at) {
      const auto byte = static_cast<unsigned char>(text[at]);
      const unsigned char kind = kByteKinds[byte];
      if (kind == kPlain) {
        continue;
      }
      if (kind == kHigh || kind == kDelete) {
        ascii = ascii && kind != kHigh;
        if (form_ == Form::document && (kind == kDelete || key)) {
          return unsupported(escape_cut(text, 40),
                             kind == kHigh ? "a key is not ASCII" : "a string holds U+007F");
        }
        continue;
      }
      out.append(text, start, at - start);
      start = at + 1;
      out.push_back('\\');
      static constexpr std::string_view kFrom = "\"\\\b\f\n\r\t";
      static constexpr std::string_view kTo = "\"\\bfnrt";
      const std::size_t known = kFrom.find(text[at]);
      if (known != std::string_view::npos) {
        out.push_back(kTo[known]);
      } else {
        out += "u00";
        out.push_back(kDigits[byte >> 4]);
        out.push_back(kDigits[byte & 15]);
      }
    }
    if (!ascii && !is_valid_utf8(text)) {
      return unsupported(escape_cut(text, 40), "a string is not valid UTF-8");
    }
    out.append(text, start, text.size() - start);
    out.push_back('"');
    return {};
  }

  Status array(const json::Value& value, int depth) {
    out.push_back('[');
    bool first = true;
    for (const json::Value& item : value.items()) {
      if (!first) {
        out.push_back(',');
      }
      first = false;
      HR_CHECK(this->value(item, depth + 1));
    }
    out.push_back(']');
    return {};
  }

  Status object(const json::Value& value, int depth) {
    const std::vector<json::Member>& members = value.members();
    // Most objects of a document are small: their order needs no memory of its own.
    std::array<const json::Member*, 48> small;
    std::vector<const json::Member*> large;
    std::span<const json::Member*> order;
    if (members.size() <= small.size()) {
      order = {small.data(), members.size()};
    } else {
      large.resize(members.size());
      order = large;
    }
    std::size_t count = 0;
    for (const json::Member& member : members) {
      if (depth != 1 || !without_digest_ || member.first != "digest") {
        order[count++] = &member;
      }
    }
    order = order.first(count);
    const auto less = [](const json::Member* a, const json::Member* b) {
      return utf16_less(a->first, b->first);
    };
    if (!std::is_sorted(order.begin(), order.end(), less)) {
      std::sort(order.begin(), order.end(), less);
    }
    out.push_back('{');
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i > 0) {
        if (order[i]->first == order[i - 1]->first) {
          return unsupported(escape_cut(order[i]->first, 40), "a key appears twice");
        }
        out.push_back(',');
      }
      HR_CHECK(string(order[i]->first, true));
      out.push_back(':');
      HR_CHECK(this->value(order[i]->second, depth + 1));
    }
    out.push_back('}');
    return {};
  }

  Form form_;
  bool without_digest_;
};

Result<std::string> canonical(const json::Value& value, Form form, bool without_digest) {
  CanonicalWriter writer(form, without_digest);
  HR_CHECK(writer.value(value, 1));
  return std::move(writer.out);
}

void drop_path(json::Value& value, std::string_view path) {
  json::Value* at = &value;
  while (true) {
    const std::size_t dot = path.find('.');
    if (dot == std::string_view::npos) {
      at->erase(path);
      return;
    }
    json::Value* next = nullptr;
    for (json::Member& member : at->members()) {
      if (member.first == path.substr(0, dot)) {
        next = &member.second;
      }
    }
    if (next == nullptr) {
      return;
    }
    at = next;
    path.remove_prefix(dot + 1);
  }
}

}  // namespace

std::string sha256_hex(std::string_view bytes) {
  // Fetched once: the lookup by name costs more than hashing a journal line.
  static EVP_MD* const algorithm = ::EVP_MD_fetch(nullptr, "SHA256", nullptr);
  thread_local const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(::EVP_MD_CTX_new(),
                                                                                ::EVP_MD_CTX_free);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  if (algorithm == nullptr || !context || ::EVP_DigestInit_ex2(context.get(), algorithm, nullptr) != 1 ||
      ::EVP_DigestUpdate(context.get(), bytes.data(), bytes.size()) != 1 ||
      ::EVP_DigestFinal_ex(context.get(), digest.data(), &size) != 1) {
    std::abort();  // evidence without a hash must not be written
  }
  return hex_encode({reinterpret_cast<const char*>(digest.data()), size});
}

std::string sha256_prefixed(std::string_view bytes) {
  return "sha256:" + sha256_hex(bytes);
}

Result<std::string> canonicalize(const json::Value& value) {
  return canonical(value, Form::rfc, false);
}

Result<std::string> material_digest(const json::Value& document, std::span<const std::string_view> drop) {
  if (drop.empty()) {
    HR_TRY(text, canonical(document, Form::document, true));
    return sha256_prefixed(text);
  }
  json::Value copy = document;
  for (const std::string_view path : drop) {
    drop_path(copy, path);
  }
  HR_TRY(text, canonical(copy, Form::document, true));
  return sha256_prefixed(text);
}

Result<std::string> document_digest(const json::Value& document) {
  return material_digest(document, {});
}

Result<std::string> seal_document(json::Value& document) {
  document.erase("digest");
  HR_TRY(digest, document_digest(document));
  document.set("digest", digest);
  return digest;
}

Status verify_document(const json::Value& document) {
  HR_TRY(digest, document_digest(document));
  const json::Value& stated = document.get("digest");
  if (stated.as_string() == digest) {
    return {};
  }
  const std::string found = stated.is_string() ? escape_cut(stated.as_string(), 80) : "none";
  return Error{ErrorClass::refused,
               "digest-mismatch",
               "verify document",
               escape_cut(document.get("schema").as_string(), 80),
               "the document says " + found + " and its content gives " + digest,
               "the document was changed after it was made: make it again"};
}

json::Value path_value(std::string_view path) {
  // What a terminal would not show as it is, is not written as text either.
  if (escape_visible(path) == path) {
    return path;
  }
  return json::Value::object({{"base64", base64_encode(path)}});
}

Result<std::string> path_text(const json::Value& value) {
  const Error invalid{ErrorClass::failed,
                      "path-value-invalid",
                      "read path",
                      "path",
                      "it is neither a string nor {\"base64\": …}",
                      ""};
  if (value.is_string()) {
    return value.as_string();
  }
  const json::Value* encoded = value.find("base64");
  if (encoded == nullptr || !encoded->is_string()) {
    return invalid;
  }
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  unsigned bits = 0;
  int have = 0;
  for (const char c : encoded->as_string()) {
    if (c == '=') {
      break;
    }
    const std::size_t digit = digits.find(c);
    if (digit == std::string_view::npos) {
      return invalid;
    }
    bits = (bits << 6 | static_cast<unsigned>(digit)) & 0xffffffU;
    have += 6;
    if (have >= 8) {
      have -= 8;
      out += static_cast<char>((bits >> have) & 0xffU);
    }
  }
  return out;
}

}  // namespace hitchrail
