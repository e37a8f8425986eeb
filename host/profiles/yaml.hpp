#pragma once
// Our YAML documents (support profiles, sandbox presets), read strictly into a small tree with positions.
//
// Promises: every refusal is an Error whose object is FILE:LINE:COLUMN (both from 1) and whose detail names
// the field. Refuses: anchors, aliases, tags, merge keys, repeated keys, keys that are not plain text,
// several documents, unknown fields, control characters, what is not UTF-8, more than 1 MiB, 10,000 nodes or
// 32 levels; and in text fields what a YAML reader may take for something else (an unquoted number, true,
// null, yes, …).
//
//   HR_TRY(document, yaml::read_file(path, "read profile"));
//   yaml::Reader reader(document);
//   yaml::Fields root(reader, document.root, "", {"id", "launch"});   // any other field is an error
//   profile.id = root.text("id", {.max = 120});
//   yaml::Fields launch = root.mapping("launch", {"args"});
//   profile.args = launch.texts("args", {.max_items = 64, .max = 500});
//   HR_CHECK(reader.status());                                        // the first error, if any

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.hpp"
#include "core/result.hpp"

namespace hitchrail::yaml {

struct Mark {
  int line = 0;  // from 1; 0 = not known, and left out of messages
  int column = 0;
};

enum class Kind { null, scalar, sequence, mapping };

struct Node;
struct Entry;

struct Node {
  Kind kind = Kind::null;
  Mark at;
  std::string text;     // of a scalar
  bool quoted = false;  // a quoted or block scalar: always text
  std::vector<Node> items;
  std::vector<Entry> entries;
};

struct Entry {
  std::string key;
  Mark at;
  Node value;
};

struct Document {
  std::string file;
  std::string operation;  // of errors: "read profile"
  Node root;
};

Result<Document> parse(std::string_view text, std::string file, std::string operation);
// A regular file; a link in the last component is not followed.
Result<Document> read_file(const std::string& path, std::string operation);

// Plain scalars as null, booleans, integers or text; everything quoted as text.
json::Value to_json(const Node& node);

// Collects the first error of a reading.
class Reader {
 public:
  explicit Reader(const Document& document) : document_(&document) {}
  // Codes: yaml-type, yaml-missing-field, yaml-unknown-field, yaml-bounds, or the caller's own.
  void fail(Mark at, std::string code, std::string detail, std::string remedy = "",
            ErrorClass kind = ErrorClass::usage);
  [[nodiscard]] bool failed() const { return error_.has_value(); }
  [[nodiscard]] Status status() const;

 private:
  const Document* document_;
  std::optional<Error> error_;
};

// Bounds in bytes; text fields may hold line feeds only with `lines`.
struct TextRule {
  std::size_t min = 1;
  std::size_t max = 1000;
  bool lines = false;
};
struct ListRule {
  std::size_t min_items = 0;
  std::size_t max_items = 64;
  std::size_t max = 500;  // of each item
  bool unique = true;
};

// The fields of one mapping. Once the reader has failed every call returns an empty value.
class Fields {
 public:
  // `path` is the dotted name of this mapping in messages, "" at the top. A node that is no mapping, and a
  // field that is not listed, are errors.
  Fields(Reader& reader, const Node& node, std::string path, std::initializer_list<std::string_view> allowed);

  [[nodiscard]] bool has(std::string_view key) const { return find(key) != nullptr; }
  [[nodiscard]] const Node* find(std::string_view key) const;
  [[nodiscard]] Mark mark(std::string_view key) const;         // of the value; of the mapping when absent
  [[nodiscard]] std::string name(std::string_view key) const;  // "launch.args"

  // Required unless said otherwise.
  std::string text(std::string_view key, TextRule rule = {});
  std::string optional_text(std::string_view key, TextRule rule = {});  // "" when absent
  std::string choice(std::string_view key, std::initializer_list<std::string_view> values);
  bool boolean(std::string_view key);
  std::optional<bool> optional_boolean(std::string_view key);
  std::optional<std::int64_t> optional_integer(std::string_view key, std::int64_t min, std::int64_t max);
  std::vector<std::string> texts(std::string_view key,
                                 ListRule rule = {});  // absent is an empty list when min_items is 0
  std::vector<std::string> choices(std::string_view key, ListRule rule,
                                   std::initializer_list<std::string_view> values);
  Fields mapping(std::string_view key, std::initializer_list<std::string_view> allowed);
  // The items of a list of mappings; absent is an empty list.
  std::vector<Fields> mappings(std::string_view key, std::initializer_list<std::string_view> allowed,
                               std::size_t max_items = 16);

 private:
  const Node* required(std::string_view key);
  std::string text_of(const Node& node, const std::string& name, const TextRule& rule);

  Reader* reader_;
  const Node* node_;
  std::string path_;
};

}  // namespace hitchrail::yaml
