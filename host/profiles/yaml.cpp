#include "profiles/yaml.hpp"

#include <fcntl.h>
#include <yaml-cpp/anchor.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "core/file.hpp"
#include "core/text.hpp"

namespace hitchrail::yaml {
namespace {

constexpr std::size_t kMaxBytes = 1u << 20;
constexpr std::size_t kMaxNodes = 10'000;
constexpr std::size_t kMaxDepth = 32;

// A document that was not YAML has no places.
std::string place(const std::string& file, Mark at) {
  return at.line == 0
             ? escape_visible(file)
             : escape_visible(file) + ":" + std::to_string(at.line) + ":" + std::to_string(at.column);
}

Error make_error(const Document& document, Mark at, std::string code, std::string detail,
                 std::string remedy) {
  return Error{ErrorClass::usage,        std::move(code),   document.operation,
               place(document.file, at), std::move(detail), std::move(remedy)};
}

// Thrown out of yaml-cpp's callbacks, which cannot stop it otherwise; never leaves this file.
struct Refused {
  Mark at;
  const char* code;
  std::string detail;
};

Mark mark_of(const YAML::Mark& mark) {
  return {mark.line + 1, mark.column + 1};
}

class TreeBuilder : public YAML::EventHandler {
 public:
  Node root;

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    begin(mark, "?", anchor);
    Node node;
    node.at = mark_of(mark);
    add(std::move(node));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw Refused{mark_of(mark), "yaml-alias", "aliases (*name) are not allowed"};
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    begin(mark, tag, anchor);
    Node node;
    node.kind = Kind::scalar;
    node.at = mark_of(mark);
    node.text = value;
    node.quoted = tag == "!";
    add(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Kind::sequence);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Kind::mapping);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    Node node;
    std::optional<Entry> pending;  // of a mapping: the key whose value comes next
  };

  void begin(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    const Mark at = mark_of(mark);
    if (anchor != YAML::NullAnchor) {
      throw Refused{at, "yaml-anchor", "anchors (&name) are not allowed"};
    }
    if (!tag.empty() && tag != "?" && tag != "!") {
      throw Refused{at, "yaml-tag", "tags (!type) are not allowed"};
    }
    if (++nodes_ > kMaxNodes) {
      throw Refused{at, "yaml-too-many-nodes", "there are more than 10000 values"};
    }
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Kind kind) {
    begin(mark, tag, anchor);
    if (open_.size() == kMaxDepth) {
      throw Refused{mark_of(mark), "yaml-depth", "values are nested more than 32 deep"};
    }
    if (expects_key()) {
      throw Refused{mark_of(mark), "yaml-key", "a key must be plain text"};
    }
    open_.emplace_back();
    open_.back().node.kind = kind;
    open_.back().node.at = mark_of(mark);
  }

  void close() {
    Node node = std::move(open_.back().node);
    open_.pop_back();
    place_value(std::move(node));
  }

  [[nodiscard]] bool expects_key() const {
    return !open_.empty() && open_.back().node.kind == Kind::mapping && !open_.back().pending;
  }

  void add(Node&& node) {
    if (!expects_key()) {
      place_value(std::move(node));
      return;
    }
    if (node.kind != Kind::scalar) {
      throw Refused{node.at, "yaml-key", "a key must be plain text"};
    }
    if (node.text == "<<") {
      throw Refused{node.at, "yaml-merge-key", "merge keys (<<) are not allowed"};
    }
    for (const Entry& entry : open_.back().node.entries) {
      if (entry.key == node.text) {
        throw Refused{node.at, "yaml-duplicate-key",
                      "the field `" + escape_cut(node.text, 80) + "` stands already in line " +
                          std::to_string(entry.at.line)};
      }
    }
    open_.back().pending = Entry{std::move(node.text), node.at, {}};
  }

  void place_value(Node&& node) {
    if (open_.empty()) {
      root = std::move(node);
    } else if (open_.back().node.kind == Kind::sequence) {
      open_.back().node.items.push_back(std::move(node));
    } else {
      open_.back().pending->value = std::move(node);
      open_.back().node.entries.push_back(std::move(*open_.back().pending));
      open_.back().pending.reset();
    }
  }

  std::vector<Open> open_;
  std::size_t nodes_ = 0;
};

Mark position_of(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  return {static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1,
          static_cast<int>(before.size() - line_start) + 1};
}

// yaml-cpp guesses other encodings and lets control characters through: both are settled before it sees the
// text.
std::optional<Refused> check_bytes(std::string_view text) {
  if (text.substr(0, 3) == "\xEF\xBB\xBF") {
    return Refused{{1, 1}, "yaml-utf8", "the file begins with a byte order mark"};
  }
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text, i);
    if (length == 0) {
      return Refused{position_of(text, i), "yaml-utf8", "the file is not valid UTF-8"};
    }
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte < 0x20 && byte != '\n' && byte != '\t' && byte != '\r') || byte == 0x7F) {
      return Refused{position_of(text, i), "yaml-control-character", "the file holds a control character"};
    }
    i += length;
  }
  return std::nullopt;
}

bool is_integer(std::string_view text) {
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) {
    text.remove_prefix(1);
  }
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Plain scalars that some YAML reader takes for a number, a date part, a truth value or nothing.
bool is_ambiguous(std::string_view text) {
  static constexpr std::array<std::string_view, 9> kWords{"true", "false", "yes", "no",  "on",
                                                          "off",  "null",  "~",   ".nan"};
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  if (text.empty() || std::find(kWords.begin(), kWords.end(), lower) != kWords.end()) {
    return true;
  }
  std::string_view digits = lower;
  if (digits.front() == '-' || digits.front() == '+') {
    digits.remove_prefix(1);
  }
  if (digits == ".inf" || digits.substr(0, 2) == "0x" || digits.substr(0, 2) == "0o") {
    return true;
  }
  // One dot at most: "1.5" and "1e3" are numbers, "0.145.0" is none.
  const bool number = !digits.empty() &&
                      digits.find_first_not_of("0123456789._e+-") == std::string_view::npos &&
                      digits.find_first_of("0123456789") != std::string_view::npos;
  return number && std::count(digits.begin(), digits.end(), '.') <= 1 &&
         digits.find_first_of("0123456789") <= 1 && std::count(digits.begin(), digits.end(), '-') <= 1;
}

std::string describe(const Node& node) {
  switch (node.kind) {
    case Kind::null:
      return "nothing";
    case Kind::sequence:
      return "a list";
    case Kind::mapping:
      return "a mapping";
    case Kind::scalar:
      break;
  }
  return "`" + escape_cut(node.text, 40) + "`";
}

std::string listed(std::initializer_list<std::string_view> words) {
  std::string out;
  for (const std::string_view word : words) {
    out += (out.empty() ? "" : ", ") + std::string(word);
  }
  return out;
}

}  // namespace

Result<Document> parse(std::string_view text, std::string file, std::string operation) {
  Document document{std::move(file), std::move(operation), {}};
  const auto refuse = [&](const Refused& refused) {
    return make_error(document, refused.at, refused.code, refused.detail, "");
  };
  if (text.size() > kMaxBytes) {
    return refuse({{1, 1}, "yaml-too-large", "the file is larger than 1 MiB"});
  }
  if (const auto refused = check_bytes(text)) {
    return refuse(*refused);
  }
  try {
    // yaml-cpp takes a quote that is still open at the last line feed for closed; the end mark makes it an
    // error.
    std::istringstream stream(std::string(text) +
                              (text.empty() || text.back() == '\n' ? "...\n" : "\n...\n"));
    YAML::Parser parser(stream);
    TreeBuilder builder;
    if (!parser.HandleNextDocument(builder) || builder.root.kind == Kind::null) {
      return refuse({{1, 1}, "yaml-empty", "the file holds no document"});
    }
    document.root = std::move(builder.root);
    TreeBuilder second;
    if (parser.HandleNextDocument(second)) {
      return refuse({second.root.at, "yaml-documents", "the file holds more than one document"});
    }
  } catch (const Refused& refused) {
    return refuse(refused);
  } catch (const YAML::Exception& error) {
    return refuse({mark_of(error.mark), "yaml-syntax", escape_cut(error.msg, 200)});
  } catch (const std::exception& error) {
    return refuse({{1, 1}, "yaml-syntax", escape_cut(error.what(), 200)});
  }
  return document;
}

Result<Document> read_file(const std::string& path, std::string operation) {
  auto text = read_file_at(AT_FDCWD, path, kMaxBytes);
  if (text.has_error()) {
    Error error = std::move(text).error();
    if (error.code == "file-too-large") {
      return parse(std::string(kMaxBytes + 1, ' '), path, std::move(operation));
    }
    error.operation = std::move(operation);
    error.object = path;
    return error;
  }
  return parse(*text, path, std::move(operation));
}

json::Value to_json(const Node& node) {
  switch (node.kind) {
    case Kind::null:
      return nullptr;
    case Kind::scalar:
      break;
    case Kind::sequence: {
      json::Value list = json::Value::array();
      for (const Node& item : node.items) {
        list.push(to_json(item));
      }
      return list;
    }
    case Kind::mapping: {
      json::Value object = json::Value::object();
      for (const Entry& entry : node.entries) {
        object.members().emplace_back(entry.key, to_json(entry.value));
      }
      return object;
    }
  }
  if (!node.quoted && (node.text == "true" || node.text == "false")) {
    return node.text == "true";
  }
  const std::optional<std::int64_t> integer = json::Value::number_text(node.text).as_int();
  if (!node.quoted && integer && std::to_string(*integer) == node.text) {
    return *integer;
  }
  return node.text;
}

void Reader::fail(Mark at, std::string code, std::string detail, std::string remedy, ErrorClass kind) {
  if (!error_) {
    error_ = make_error(*document_, at, std::move(code), std::move(detail), std::move(remedy));
    error_->kind = kind;
  }
}

Status Reader::status() const {
  if (error_) {
    return *error_;
  }
  return {};
}

Fields::Fields(Reader& reader, const Node& node, std::string path,
               std::initializer_list<std::string_view> allowed)
    : reader_(&reader), node_(&node), path_(std::move(path)) {
  if (node.kind != Kind::mapping) {
    reader.fail(node.at, "yaml-type",
                (path_.empty() ? std::string("the document") : "`" + path_ + "`") +
                    " must be a mapping, found " + describe(node));
    return;
  }
  for (const Entry& entry : node.entries) {
    if (std::find(allowed.begin(), allowed.end(), entry.key) == allowed.end()) {
      reader.fail(entry.at, "yaml-unknown-field",
                  "`" + escape_cut(name(entry.key), 120) + "` is not a field here",
                  "the fields here are: " + listed(allowed));
      return;
    }
  }
}

const Node* Fields::find(std::string_view key) const {
  for (const Entry& entry : node_->entries) {
    if (entry.key == key) {
      return &entry.value;
    }
  }
  return nullptr;
}

Mark Fields::mark(std::string_view key) const {
  const Node* node = find(key);
  return node != nullptr ? node->at : node_->at;
}

std::string Fields::name(std::string_view key) const {
  return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

const Node* Fields::required(std::string_view key) {
  const Node* node = find(key);
  if (node == nullptr) {
    reader_->fail(node_->at, "yaml-missing-field", "the field `" + name(key) + "` is missing");
  }
  return node;
}

std::string Fields::text_of(const Node& node, const std::string& name, const TextRule& rule) {
  if (node.kind != Kind::scalar || (!node.quoted && is_ambiguous(node.text))) {
    const bool quote = node.kind == Kind::scalar || node.kind == Kind::null;
    reader_->fail(node.at, "yaml-type", "`" + name + "` must be text, found " + describe(node),
                  quote ? "put the value in quotes" : "");
    return {};
  }
  if (node.text.size() < rule.min || node.text.size() > rule.max) {
    reader_->fail(node.at, "yaml-bounds",
                  "`" + name + "` must have " + std::to_string(rule.min) + " to " + std::to_string(rule.max) +
                      " bytes, found " + std::to_string(node.text.size()));
    return {};
  }
  for (const char c : node.text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && !(rule.lines && c == '\n')) || byte == 0x7F) {
      reader_->fail(node.at, "yaml-control-character",
                    "`" + name + "` holds a control character or a line feed");
      return {};
    }
  }
  return node.text;
}

std::string Fields::text(std::string_view key, TextRule rule) {
  const Node* node = required(key);
  return node != nullptr ? text_of(*node, name(key), rule) : std::string();
}

std::string Fields::optional_text(std::string_view key, TextRule rule) {
  const Node* node = find(key);
  return node != nullptr ? text_of(*node, name(key), rule) : std::string();
}

std::string Fields::choice(std::string_view key, std::initializer_list<std::string_view> values) {
  const Node* node = required(key);
  if (node == nullptr) {
    return {};
  }
  std::string value = text_of(*node, name(key), {});
  if (!reader_->failed() && std::find(values.begin(), values.end(), value) == values.end()) {
    reader_->fail(node->at, "yaml-bounds", "`" + name(key) + "` cannot be " + describe(*node),
                  "one of: " + listed(values));
    return {};
  }
  return value;
}

std::optional<bool> Fields::optional_boolean(std::string_view key) {
  const Node* node = find(key);
  if (node == nullptr) {
    return std::nullopt;
  }
  if (node->kind != Kind::scalar || node->quoted || (node->text != "true" && node->text != "false")) {
    reader_->fail(node->at, "yaml-type",
                  "`" + name(key) + "` must be true or false, found " + describe(*node));
    return std::nullopt;
  }
  return node->text == "true";
}

bool Fields::boolean(std::string_view key) {
  return required(key) != nullptr && optional_boolean(key).value_or(false);
}

std::optional<std::int64_t> Fields::optional_integer(std::string_view key, std::int64_t min,
                                                     std::int64_t max) {
  const Node* node = find(key);
  if (node == nullptr) {
    return std::nullopt;
  }
  const std::optional<std::int64_t> value = json::Value::number_text(node->text).as_int();
  if (node->kind != Kind::scalar || node->quoted || !is_integer(node->text) || !value) {
    reader_->fail(node->at, "yaml-type",
                  "`" + name(key) + "` must be a whole number, found " + describe(*node));
    return std::nullopt;
  }
  if (*value < min || *value > max) {
    reader_->fail(node->at, "yaml-bounds",
                  "`" + name(key) + "` must be from " + std::to_string(min) + " to " + std::to_string(max));
    return std::nullopt;
  }
  return value;
}

std::vector<std::string> Fields::texts(std::string_view key, ListRule rule) {
  const Node* node = rule.min_items > 0 ? required(key) : find(key);
  if (node == nullptr) {
    return {};
  }
  if (node->kind != Kind::sequence) {
    reader_->fail(node->at, "yaml-type", "`" + name(key) + "` must be a list, found " + describe(*node));
    return {};
  }
  if (node->items.size() < rule.min_items || node->items.size() > rule.max_items) {
    reader_->fail(node->at, "yaml-bounds",
                  "`" + name(key) + "` must have " + std::to_string(rule.min_items) + " to " +
                      std::to_string(rule.max_items) + " items, found " + std::to_string(node->items.size()));
    return {};
  }
  std::vector<std::string> values;
  for (const Node& item : node->items) {
    std::string value = text_of(item, name(key), {.min = 1, .max = rule.max});
    if (rule.unique && std::find(values.begin(), values.end(), value) != values.end()) {
      reader_->fail(item.at, "yaml-bounds", "`" + name(key) + "` names " + describe(item) + " twice");
    }
    values.push_back(std::move(value));
  }
  return reader_->failed() ? std::vector<std::string>() : values;
}

std::vector<std::string> Fields::choices(std::string_view key, ListRule rule,
                                         std::initializer_list<std::string_view> values) {
  std::vector<std::string> chosen = texts(key, rule);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    if (std::find(values.begin(), values.end(), chosen[i]) == values.end()) {
      const Node& item = find(key)->items[i];
      reader_->fail(item.at, "yaml-bounds", "`" + name(key) + "` cannot hold " + describe(item),
                    "any of: " + listed(values));
      return {};
    }
  }
  return chosen;
}

Fields Fields::mapping(std::string_view key, std::initializer_list<std::string_view> allowed) {
  static const Node kNothing = [] {
    Node node;
    node.kind = Kind::mapping;
    return node;
  }();
  const Node* node = required(key);
  return {*reader_, node != nullptr ? *node : kNothing, name(key), allowed};
}

std::vector<Fields> Fields::mappings(std::string_view key, std::initializer_list<std::string_view> allowed,
                                     std::size_t max_items) {
  std::vector<Fields> fields;
  const Node* node = find(key);
  if (node == nullptr) {
    return fields;
  }
  if (node->kind != Kind::sequence || node->items.size() > max_items) {
    reader_->fail(node->at, node->kind != Kind::sequence ? "yaml-type" : "yaml-bounds",
                  "`" + name(key) + "` must be a list of at most " + std::to_string(max_items) +
                      " mappings, found " +
                      (node->kind != Kind::sequence ? describe(*node) : std::to_string(node->items.size())));
    return fields;
  }
  for (std::size_t i = 0; i < node->items.size(); ++i) {
    fields.emplace_back(*reader_, node->items[i], name(key) + "[" + std::to_string(i) + "]", allowed);
  }
  return fields;
}

}  // namespace hitchrail::yaml
