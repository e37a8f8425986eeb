// is_valid_line: the check in the journal's hot path. No tree and no RapidJSON: one loop over the bytes,
// eight at a time inside strings. Whatever passes here also passes json::parse (a fuzz target holds the two
// against each other). It is the stricter of the two for numbers beyond the range of a double, which
// RapidJSON judges by its own arithmetic: more than 290 digits or an exponent beyond ±290 are not valid here.

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/json.hpp"
#include "core/text.hpp"

namespace hitchrail::json {
namespace {

constexpr std::uint64_t kOnes = 0x0101010101010101ULL;
constexpr std::uint64_t kHigh = 0x8080808080808080ULL;
constexpr int kMaxDepth = 64;
constexpr int kMaxNumberScale = 290;

// High bit of every byte that is below 0x20, a quote, a backslash or not ASCII. False alarms only in bytes
// after a true one, so zero means none.
std::uint64_t special_bytes(std::uint64_t word) {
  const std::uint64_t quote = word ^ (kOnes * '"');
  const std::uint64_t slash = word ^ (kOnes * '\\');
  return ((word - kOnes * 0x20) | (quote - kOnes) | (slash - kOnes) | word) & kHigh;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

class LineChecker {
 public:
  LineChecker(std::string_view text, int max_depth)
      : at_(text.data()), end_(text.data() + text.size()), max_depth_(max_depth) {}

  bool run() {
    while (true) {
      if (!value()) {
        return false;
      }
      // After a value: close what ends here, then either the next member or item, or the end of the text.
      while (true) {
        space();
        if (depth_ == 0) {
          return at_ == end_;
        }
        if (at_ == end_) {
          return false;
        }
        const char c = *at_++;
        const bool object = in_object();
        if (c == ',') {
          if (object && !key()) {
            return false;
          }
          break;
        }
        if (c != (object ? '}' : ']')) {
          return false;
        }
        --depth_;
      }
    }
  }

 private:
  [[nodiscard]] bool in_object() const { return ((objects_ >> (depth_ - 1)) & 1) != 0; }

  void space() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\r')) {
      ++at_;
    }
  }

  // One scalar or empty container, or the opening of containers down to the first of those.
  bool value() {
    while (true) {
      space();
      if (at_ == end_) {
        return false;
      }
      switch (*at_++) {
        case '"':
          return string();
        case '{':
        case '[': {
          const bool object = at_[-1] == '{';
          if (depth_ == max_depth_) {
            return false;
          }
          const std::uint64_t bit = std::uint64_t{1} << depth_++;
          objects_ = object ? objects_ | bit : objects_ & ~bit;
          space();
          if (at_ != end_ && *at_ == (object ? '}' : ']')) {
            ++at_;
            --depth_;
            return true;
          }
          if (object && !key()) {
            return false;
          }
          continue;
        }
        case 't':
          return word("rue");
        case 'f':
          return word("alse");
        case 'n':
          return word("ull");
        default:
          --at_;
          return number();
      }
    }
  }

  bool key() {
    space();
    if (at_ == end_ || *at_++ != '"' || !string()) {
      return false;
    }
    space();
    return at_ != end_ && *at_++ == ':';
  }

  bool word(std::string_view rest) {
    if (static_cast<std::size_t>(end_ - at_) < rest.size() ||
        std::memcmp(at_, rest.data(), rest.size()) != 0) {
      return false;
    }
    at_ += rest.size();
    return true;
  }

  int digits() {
    const char* start = at_;
    while (at_ != end_ && is_digit(*at_)) {
      ++at_;
    }
    return static_cast<int>(std::min<std::ptrdiff_t>(at_ - start, kMaxNumberScale + 1));
  }

  bool number() {
    if (at_ != end_ && *at_ == '-') {
      ++at_;
    }
    const bool zero = at_ != end_ && *at_ == '0';
    int scale = digits();
    if (scale == 0 || (zero && scale > 1)) {
      return false;
    }
    if (at_ != end_ && *at_ == '.') {
      ++at_;
      const int fraction = digits();
      if (fraction == 0) {
        return false;
      }
      scale += fraction;
    }
    if (at_ != end_ && (*at_ == 'e' || *at_ == 'E')) {
      ++at_;
      if (at_ != end_ && (*at_ == '+' || *at_ == '-')) {
        ++at_;
      }
      if (at_ == end_ || !is_digit(*at_)) {
        return false;
      }
      int exponent = 0;
      for (; at_ != end_ && is_digit(*at_); ++at_) {
        exponent = std::min(exponent * 10 + (*at_ - '0'), kMaxNumberScale + 1);
      }
      scale += exponent;
    }
    return scale <= kMaxNumberScale;
  }

  bool string() {
    while (true) {
      while (end_ - at_ >= 8) {
        std::uint64_t chunk = 0;
        std::memcpy(&chunk, at_, 8);
        const std::uint64_t special = special_bytes(chunk);
        if (special != 0) {
          if constexpr (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) {
            at_ += __builtin_ctzll(special) / 8;
          }
          break;
        }
        at_ += 8;
      }
      if (at_ == end_) {
        return false;
      }
      const auto byte = static_cast<unsigned char>(*at_);
      if (byte == '"') {
        ++at_;
        return true;
      }
      if (byte < 0x20) {
        return false;
      }
      if (byte == '\\') {
        ++at_;
        if (!escape()) {
          return false;
        }
      } else if (byte < 0x80) {
        ++at_;
      } else {
        const std::size_t length = utf8_length({at_, static_cast<std::size_t>(end_ - at_)}, 0);
        if (length == 0) {
          return false;
        }
        at_ += length;
      }
    }
  }

  bool escape() {
    if (at_ == end_) {
      return false;
    }
    switch (*at_++) {
      case '"':
      case '\\':
      case '/':
      case 'b':
      case 'f':
      case 'n':
      case 'r':
      case 't':
        return true;
      case 'u':
        break;
      default:
        return false;
    }
    const int unit = hex4();
    if (unit < 0 || (unit >= 0xDC00 && unit <= 0xDFFF)) {
      return false;
    }
    if (unit < 0xD800 || unit > 0xDFFF) {
      return true;
    }
    if (!word("\\u")) {
      return false;
    }
    const int low = hex4();
    return low >= 0xDC00 && low <= 0xDFFF;
  }

  int hex4() {
    if (end_ - at_ < 4) {
      return -1;
    }
    int unit = 0;
    for (int i = 0; i < 4; ++i) {
      const char c = *at_++;
      const char lower = static_cast<char>(c | 0x20);
      if (is_digit(c)) {
        unit = unit * 16 + (c - '0');
      } else if (lower >= 'a' && lower <= 'f') {
        unit = unit * 16 + (lower - 'a' + 10);
      } else {
        return -1;
      }
    }
    return unit;
  }

  const char* at_;
  const char* end_;
  int max_depth_;
  int depth_ = 0;
  std::uint64_t objects_ = 0;  // bit n: the container at depth n + 1 is an object
};

}  // namespace

bool is_valid_line(std::string_view text, int max_depth) {
  return LineChecker(text, std::min(max_depth, kMaxDepth)).run();
}

}  // namespace hitchrail::json
