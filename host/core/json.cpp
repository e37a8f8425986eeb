#include "core/json.hpp"

#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <new>
#include <numeric>

#include "core/text.hpp"

namespace hitchrail::json {
namespace {

constexpr std::size_t kMaxDepth = 64;
constexpr std::size_t kSortFrom = 16;  // below this many members comparing all pairs is quicker than sorting

const std::string kEmptyText;
const std::vector<Value> kNoItems;
const std::vector<Member> kNoMembers;
const Value kNull;

// Indexes of the members sorted by key, equal keys in document order.
std::vector<std::size_t> sorted_by_key(const std::vector<Member>& members) {
  std::vector<std::size_t> order(members.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return members[a].first < members[b].first; });
  return order;
}

// Indexes of members whose key an earlier member has, ascending.
std::vector<std::size_t> repeated_members(const std::vector<Member>& members) {
  std::vector<std::size_t> repeated;
  if (members.size() < kSortFrom) {
    for (std::size_t i = 1; i < members.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (members[i].first == members[j].first) {
          repeated.push_back(i);
          break;
        }
      }
    }
    return repeated;
  }
  const std::vector<std::size_t> order = sorted_by_key(members);
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (members[order[i]].first == members[order[i - 1]].first) {
      repeated.push_back(order[i]);
    }
  }
  std::sort(repeated.begin(), repeated.end());
  return repeated;
}

// Builds the tree from RapidJSON's events. Depth and UTF-8 are judged here, in the same pass; returning false
// stops the parser, and `code` says why. Decoded strings are checked, not the bytes of the text: the packaged
// version turns a lone \udc00 into bytes that are no UTF-8.
class TreeBuilder {
 public:
  TreeBuilder(Duplicates duplicates, std::size_t max_values)
      : duplicates_(duplicates), values_left_(max_values) {}

  bool Null() { return add(Value()); }
  bool Bool(bool b) { return add(Value(b)); }
  bool Int(int) { return false; }
  bool Uint(unsigned) { return false; }
  bool Int64(std::int64_t) { return false; }
  bool Uint64(std::uint64_t) { return false; }
  bool Double(double) { return false; }
  bool RawNumber(const char* text, rapidjson::SizeType size, bool) {
    return add(Value::number_text(std::string(text, size)));
  }
  bool String(const char* text, rapidjson::SizeType size, bool) {
    return is_utf8({text, size}) && add(Value(std::string(text, size)));
  }
  bool Key(const char* text, rapidjson::SizeType size, bool) {
    if (!is_utf8({text, size})) {
      return false;
    }
    open_.back().members().emplace_back(std::string(text, size), Value());
    return true;
  }
  bool StartObject() { return open(Value::object()); }
  bool StartArray() { return open(Value::array()); }
  bool EndObject(rapidjson::SizeType) {
    std::vector<Member>& members = open_.back().members();
    const std::vector<std::size_t> repeated = repeated_members(members);
    if (!repeated.empty()) {
      if (duplicates_ == Duplicates::refuse) {
        code = "json-duplicate-key";
        detail = "the key \"" + escape_cut(members[repeated.front()].first, 80) + "\" appears twice";
        return false;
      }
      drop(members, repeated);
    }
    return close();
  }
  bool EndArray(rapidjson::SizeType) { return close(); }

  Value root;
  const char* code = "json-syntax";
  std::string detail;

 private:
  static void drop(std::vector<Member>& members, const std::vector<std::size_t>& repeated) {
    auto next = repeated.begin();
    std::size_t kept = 0;
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (next != repeated.end() && *next == i) {
        ++next;
      } else {
        if (kept != i) {
          members[kept] = std::move(members[i]);
        }
        ++kept;
      }
    }
    members.erase(members.begin() + static_cast<std::ptrdiff_t>(kept), members.end());
  }

  bool is_utf8(std::string_view text) {
    if (is_valid_utf8(text)) {
      return true;
    }
    code = "json-utf8";
    detail = "a string is not valid UTF-8";
    return false;
  }

  bool count() {
    if (values_left_ == 0) {
      code = "json-too-large";
      detail = "there are more values than allowed";
      return false;
    }
    --values_left_;
    return true;
  }

  bool add(Value&& value) { return count() && place(std::move(value)); }

  bool open(Value&& container) {
    if (open_.size() == kMaxDepth) {
      code = "json-depth";
      detail = "values are nested more than 64 deep";
      return false;
    }
    if (!count()) {
      return false;
    }
    open_.push_back(std::move(container));
    return true;
  }

  bool close() {
    Value done = std::move(open_.back());
    open_.pop_back();
    return place(std::move(done));
  }

  bool place(Value&& value) {
    if (open_.empty()) {
      root = std::move(value);
    } else if (open_.back().is_array()) {
      open_.back().items().push_back(std::move(value));
    } else {
      open_.back().members().back().second = std::move(value);
    }
    return true;
  }

  std::vector<Value> open_;
  Duplicates duplicates_;
  std::size_t values_left_;
};

std::string position(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto lines = std::count(before.begin(), before.end(), '\n');
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  return "line " + std::to_string(lines + 1) + ", column " + std::to_string(before.size() - line_start + 1);
}

}  // namespace

Value::Value(bool b) : type_(Type::boolean), bool_(b) {}
Value::Value(std::int64_t i) : type_(Type::number), text_(std::to_string(i)) {}
Value::Value(std::uint64_t i) : type_(Type::number), text_(std::to_string(i)) {}
Value::Value(std::string s) : type_(Type::string), text_(std::move(s)) {}

Value Value::number_text(std::string text) {
  Value value;
  value.type_ = Type::number;
  value.text_ = std::move(text);
  return value;
}

Value Value::array(std::vector<Value> items) {
  Value value;
  value.type_ = Type::array;
  value.items_ = std::move(items);
  return value;
}

Value Value::object(std::vector<Member> members) {
  Value value;
  value.type_ = Type::object;
  value.members_ = std::move(members);
  return value;
}

bool Value::as_bool(bool otherwise) const {
  return type_ == Type::boolean ? bool_ : otherwise;
}

std::optional<std::int64_t> Value::as_int() const {
  std::int64_t number = 0;
  const char* end = text_.data() + text_.size();
  if (type_ != Type::number) {
    return std::nullopt;
  }
  const auto [stop, error] = std::from_chars(text_.data(), end, number);
  if (error != std::errc() || stop != end) {
    return std::nullopt;
  }
  return number;
}

const std::string& Value::as_string() const {
  return type_ == Type::string ? text_ : kEmptyText;
}
const std::string& Value::number_text() const {
  return type_ == Type::number ? text_ : kEmptyText;
}
const std::vector<Value>& Value::items() const {
  return type_ == Type::array ? items_ : kNoItems;
}
const std::vector<Member>& Value::members() const {
  return type_ == Type::object ? members_ : kNoMembers;
}
std::vector<Value>& Value::items() {
  return items_;
}
std::vector<Member>& Value::members() {
  return members_;
}

const Value* Value::find(std::string_view key) const {
  for (const Member& member : members()) {
    if (member.first == key) {
      return &member.second;
    }
  }
  return nullptr;
}

const Value& Value::get(std::string_view key) const {
  const Value* found = find(key);
  return found != nullptr ? *found : kNull;
}

void Value::set(std::string key, Value value) {
  if (type_ == Type::null) {
    type_ = Type::object;
  }
  for (Member& member : members_) {
    if (member.first == key) {
      member.second = std::move(value);
      return;
    }
  }
  members_.emplace_back(std::move(key), std::move(value));
}

bool Value::erase(std::string_view key) {
  const auto found = std::find_if(members_.begin(), members_.end(),
                                  [&](const Member& member) { return member.first == key; });
  if (found == members_.end()) {
    return false;
  }
  members_.erase(found);
  return true;
}

void Value::push(Value value) {
  if (type_ == Type::null) {
    type_ = Type::array;
  }
  items_.push_back(std::move(value));
}

bool Value::operator==(const Value& other) const {
  if (type_ != other.type_ || bool_ != other.bool_ || text_ != other.text_ || items_ != other.items_ ||
      members_.size() != other.members_.size()) {
    return false;
  }
  if (members_.size() < kSortFrom) {
    return std::all_of(members_.begin(), members_.end(), [&](const Member& member) {
      const Value* found = other.find(member.first);
      return found != nullptr && *found == member.second;
    });
  }
  const std::vector<std::size_t> mine = sorted_by_key(members_);
  const std::vector<std::size_t> theirs = sorted_by_key(other.members_);
  for (std::size_t i = 0; i < mine.size(); ++i) {
    if (members_[mine[i]] != other.members_[theirs[i]]) {
      return false;
    }
  }
  return true;
}

Result<Value> parse(std::string_view text, Duplicates duplicates, std::string_view what,
                    const ParseLimits& limits) {
  const ErrorClass kind = duplicates == Duplicates::refuse ? ErrorClass::usage : ErrorClass::failed;
  const auto refuse = [&](std::string code, std::string detail) {
    return Error{kind, std::move(code), "parse JSON", std::string(what), std::move(detail), ""};
  };
  if (text.size() > limits.max_bytes) {
    return refuse("json-too-large", "the text is larger than " + std::to_string(limits.max_bytes) + " bytes");
  }
  TreeBuilder builder(duplicates, limits.max_values);
  try {
    rapidjson::MemoryStream stream(text.data(), text.size());
    rapidjson::Reader reader;
    constexpr unsigned kFlags = rapidjson::kParseIterativeFlag | rapidjson::kParseNumbersAsStringsFlag;
    const rapidjson::ParseResult result = reader.Parse<kFlags>(stream, builder);
    if (result.IsError()) {
      const bool ours = result.Code() == rapidjson::kParseErrorTermination;
      const std::string detail = ours ? builder.detail : rapidjson::GetParseError_En(result.Code());
      return refuse(ours ? builder.code : "json-syntax", position(text, result.Offset()) + ": " + detail);
    }
    // The stream shows its end as a NUL byte, so a real NUL in the text looks like the end to the parser.
    if (stream.Tell() != text.size()) {
      return refuse("json-syntax", position(text, stream.Tell()) + ": a NUL byte follows the value");
    }
  } catch (const std::bad_alloc&) {
    return refuse("json-too-large", "not enough memory for this document");
  }
  return std::move(builder.root);
}

void append_quoted(std::string& out, std::string_view text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  const bool valid = is_valid_utf8(text);
  out.push_back('"');
  std::size_t plain = 0;  // start of the bytes that go out as they are
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0x20 && byte != '"' && byte != '\\' && byte != 0x7F && (byte < 0x80 || valid)) {
      continue;
    }
    if (byte >= 0x80) {
      const std::size_t length = utf8_length(text, i);
      if (length > 0) {
        i += length - 1;
        continue;
      }
    }
    out.append(text, plain, i - plain);
    plain = i + 1;
    switch (byte) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (byte >= 0x80) {
          out += "\xEF\xBF\xBD";
        } else {
          out += "\\u00";
          out.push_back(kDigits[byte >> 4]);
          out.push_back(kDigits[byte & 15]);
        }
    }
  }
  out.append(text, plain, text.size() - plain);
  out.push_back('"');
}

namespace {

// One open array or object of the writer: its own stack instead of the machine's, so that no tree can exhaust
// it.
struct OpenContainer {
  const Value* value;
  std::size_t next;
};

class Writer {
 public:
  explicit Writer(int indent) : indent_(static_cast<std::size_t>(std::max(indent, 0))) {}

  std::string run(const Value& value) {
    begin(value);
    while (!open_.empty()) {
      OpenContainer& top = open_.back();
      const bool object = top.value->is_object();
      const std::size_t size = object ? top.value->members().size() : top.value->items().size();
      if (top.next == size) {
        open_.pop_back();
        if (size > 0) {
          line();
        }
        out_.push_back(object ? '}' : ']');
        continue;
      }
      if (top.next > 0) {
        out_.push_back(',');
      }
      line();
      const std::size_t index = top.next++;
      if (object) {
        const Member& member = top.value->members()[index];
        append_quoted(out_, member.first);
        out_ += indent_ > 0 ? ": " : ":";
        begin(member.second);
      } else {
        begin(top.value->items()[index]);
      }
    }
    return std::move(out_);
  }

 private:
  void line() {
    if (indent_ > 0) {
      out_.push_back('\n');
      out_.append(indent_ * open_.size(), ' ');
    }
  }

  void begin(const Value& value) {
    switch (value.type()) {
      case Type::null:
        out_ += "null";
        break;
      case Type::boolean:
        out_ += value.as_bool() ? "true" : "false";
        break;
      case Type::number:
        out_ += value.number_text();
        break;
      case Type::string:
        append_quoted(out_, value.as_string());
        break;
      case Type::array:
        out_.push_back('[');
        open_.push_back({&value, 0});
        break;
      case Type::object:
        out_.push_back('{');
        open_.push_back({&value, 0});
        break;
    }
  }

  std::string out_;
  std::size_t indent_;
  std::vector<OpenContainer> open_;
};

}  // namespace

std::string write(const Value& value, int indent) {
  return Writer(indent).run(value);
}

}  // namespace hitchrail::json
