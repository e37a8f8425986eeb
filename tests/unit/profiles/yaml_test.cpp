#include "profiles/yaml.hpp"

#include <catch2/catch.hpp>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace hitchrail;

namespace {

// "CODE LINE:COLUMN" of the refusal, or the tree as JSON.
std::string read(std::string_view text) {
  auto document = yaml::parse(text, "f", "read test");
  if (document.has_error()) {
    CHECK(document.error().operation == "read test");
    CHECK(document.error().kind == ErrorClass::usage);
    CHECK(document.error().object.substr(0, 2) == "f:");
    return document.error().code + " " + document.error().object.substr(2);
  }
  return json::write(yaml::to_json(document->root));
}

template <class Body>
std::string fields(std::string_view text, Body body) {
  auto document = yaml::parse(text, "f", "read test");
  REQUIRE(document.has_value());
  yaml::Reader reader(*document);
  yaml::Fields root(reader, document->root, "", {"a", "b", "list", "sub"});
  body(root);
  const Status status = reader.status();
  return status.has_error()
             ? status.error().code + " " + status.error().object.substr(2) + " " + status.error().detail
             : "ok";
}

std::string text_field(std::string_view text, yaml::TextRule rule = {}) {
  return fields(text, [&](yaml::Fields& root) { root.text("a", rule); });
}

}  // namespace

TEST_CASE("scalars become null, truth values, integers and text") {
  CHECK(
      read("a: 1\nb: -7\nc: true\nd: \"1\"\ne: 'true'\nf:\ng: ~\nh: 1.5\ni: 0x10\nj: yes\nk: |\n  two\n  "
           "lines\n") ==
      R"({"a":1,"b":-7,"c":true,"d":"1","e":"true","f":null,"g":null,"h":"1.5","i":"0x10","j":"yes","k":"two\nlines\n"})");
  CHECK(read("- [1, {x: y}]\n- {}\n- []\n") == R"([[1,{"x":"y"}],{},[]])");
}

TEST_CASE("what makes a document mean more than it shows is refused where it stands") {
  CHECK(read("a: &x 1\n") == "yaml-anchor 1:4");
  CHECK(read("a: 1\nb: &x {c: 1}\n") == "yaml-anchor 2:4");
  CHECK(read("a: &x 1\nb: *x\n") == "yaml-anchor 1:4");
  CHECK(read("a: *x\n") == "yaml-syntax 1:4");
  CHECK(read("a: !!str 1\n") == "yaml-tag 1:4");
  CHECK(read("a: !foo [1]\n") == "yaml-tag 1:4");
  CHECK(read("<<: {a: 1}\nb: 2\n") == "yaml-merge-key 1:1");
  CHECK(read("a: 1\nb:\n  c: 1\n  c: 2\n") == "yaml-duplicate-key 4:3");
  CHECK(read("a: 1\n\"a\": 2\n") == "yaml-duplicate-key 2:1");
  CHECK(read("? [a]\n: 1\n") == "yaml-key 1:3");
  CHECK(read("~: 1\n") == "yaml-key 1:1");
  CHECK(read("a: 1\n---\nb: 2\n") == "yaml-documents 3:1");
}

TEST_CASE("syntax errors have their place") {
  CHECK(read("a: [1\n").find("yaml-syntax ") == 0);
  CHECK(read("a: 1\n b: 2\n") == "yaml-syntax 2:3");
  CHECK(read("a: \"x\n") == "yaml-syntax 2:1");
  CHECK(read("\ta: 1\n").find("yaml-syntax 1:") == 0);
}

TEST_CASE("an empty file holds no document") {
  CHECK(read("") == "yaml-empty 1:1");
  CHECK(read("# only a comment\n") == "yaml-empty 1:1");
  CHECK(read("---\n...\n") == "yaml-empty 1:1");
}

TEST_CASE("start and end marks of the one document are allowed") {
  CHECK(read("---\na: 1\n...\n") == R"({"a":1})");
  CHECK(read("a: 1") == R"({"a":1})");
  CHECK(read("a: |+\n  x\n\n") == R"({"a":"x\n\n"})");
}

TEST_CASE("bytes that are not UTF-8 and control characters are refused where they stand") {
  CHECK(read("a: 1\nb: \xFF\n") == "yaml-utf8 2:4");
  CHECK(read("\xEF\xBB\xBF"
             "a: 1\n") == "yaml-utf8 1:1");
  CHECK(read(std::string("a\0:\0 \0", 6)) == "yaml-control-character 1:2");
  CHECK(read("a: \x1b[31m\n") == "yaml-control-character 1:4");
}

TEST_CASE("size, number of values and depth are bounded") {
  CHECK(read("a: \"" + std::string(1u << 20, 'x') + "\"") == "yaml-too-large 1:1");
  std::string many;
  for (int i = 0; i < 9'998; ++i) {
    many += "- x\n";
  }
  CHECK(read(many).size() > 10'000);
  CHECK(read(many + "- x\n- x\n") == "yaml-too-many-nodes 10000:3");
  CHECK(read(std::string(32, '[') + std::string(32, ']')) == std::string(32, '[') + std::string(32, ']'));
  CHECK(read(std::string(33, '[') + std::string(33, ']')) == "yaml-depth 1:33");
  CHECK(read(std::string(100'000, '[')).find("yaml-") == 0);
  CHECK(read(std::string(100'000, '{')).find("yaml-") == 0);
  std::string dashes;
  for (int i = 0; i < 20'000; ++i) {
    dashes += "- ";
  }
  CHECK(read(dashes) == "yaml-depth 1:65");
}

TEST_CASE("a field nobody knows is refused with the fields that exist") {
  auto document = yaml::parse("a: 1\nsub:\n  x: 1\n  y: 2\n", "f", "read test");
  yaml::Reader reader(*document);
  yaml::Fields root(reader, document->root, "", {"a", "sub"});
  root.mapping("sub", {"x", "z"});
  REQUIRE(reader.failed());
  const Error error = reader.status().error();
  CHECK(error.code == "yaml-unknown-field");
  CHECK(error.object == "f:4:3");
  CHECK(error.detail == "`sub.y` is not a field here");
  CHECK(error.remedy == "the fields here are: x, z");
}

TEST_CASE("the first error is kept") {
  CHECK(fields("a: [1]\n", [](yaml::Fields& root) {
          root.text("a");
          root.text("b");
        }) == "yaml-type 1:4 `a` must be text, found a list");
}

TEST_CASE("a missing field is named and placed at its mapping") {
  CHECK(text_field("b: x\n") == "yaml-missing-field 1:1 the field `a` is missing");
  CHECK(fields("b: x\n", [](yaml::Fields& root) { root.mapping("sub", {"x"}).text("x"); }) ==
        "yaml-missing-field 1:1 the field `sub` is missing");
  CHECK(fields("sub: {}\n", [](yaml::Fields& root) { root.mapping("sub", {"x"}).text("x"); }) ==
        "yaml-missing-field 1:6 the field `sub.x` is missing");
}

TEST_CASE("text that a reader of YAML may take for something else must be quoted") {
  for (const std::string value : {"1", "1.5", "-3", "1e3", "true", "No", "on", "0x1F", "1_000", "1-2", ".inf",
                                  "~", "+1.5", ".5", "null", "NULL", ".NaN"}) {
    INFO(value);
    CHECK(text_field("a: " + value + "\n").find("yaml-type 1:4") == 0);
    CHECK(text_field("a: \"" + value + "\"\n") == "ok");
  }
  for (const std::string value : {"0.145.0", "x1", "codex-cli 1", "2026-01-02-03", "e", "north", "a.b",
                                  "--version", "~/x", "on-request", "v1", "y"}) {
    INFO(value);
    CHECK(text_field("a: " + value + "\n") == "ok");
  }
}

TEST_CASE("text has bounds and holds no line feeds unless allowed") {
  CHECK(text_field("a: \"\"\n").find("yaml-bounds 1:4") == 0);
  CHECK(text_field("a: abc\n", {.max = 2}).find("yaml-bounds 1:4") == 0);
  CHECK(text_field("a: \"x\\ny\"\n").find("yaml-control-character 1:4") == 0);
  CHECK(text_field("a: \"x\\ny\"\n", {.lines = true}) == "ok");
  CHECK(text_field("a: \"x\\0y\"\n", {.lines = true}).find("yaml-control-character 1:4") == 0);
  CHECK(text_field("a: \"\\x7f\"\n").find("yaml-control-character 1:4") == 0);
}

TEST_CASE("truth values and numbers are only what they are everywhere") {
  const auto boolean = [](std::string_view text) {
    return fields(text, [](yaml::Fields& root) { root.boolean("a"); });
  };
  CHECK(boolean("a: true\n") == "ok");
  CHECK(boolean("a: yes\n").find("yaml-type 1:4") == 0);
  CHECK(boolean("a: \"true\"\n").find("yaml-type 1:4") == 0);
  CHECK(boolean("a: True\n").find("yaml-type 1:4") == 0);
  const auto integer = [](std::string_view text) {
    return fields(text, [](yaml::Fields& root) { root.optional_integer("a", 1, 8); });
  };
  CHECK(integer("a: 8\n") == "ok");
  CHECK(integer("b: 8\n") == "ok");
  CHECK(integer("a: 9\n").find("yaml-bounds 1:4") == 0);
  CHECK(integer("a: 1.0\n").find("yaml-type 1:4") == 0);
  CHECK(integer("a: 0x1\n").find("yaml-type 1:4") == 0);
  CHECK(integer("a: 99999999999999999999\n").find("yaml-type 1:4") == 0);
}

TEST_CASE("lists have bounds, no repetitions, and items of their type") {
  const auto list = [](std::string_view text, yaml::ListRule rule = {}) {
    return fields(text, [&](yaml::Fields& root) { root.texts("list", rule); });
  };
  CHECK(list("list: [x, y]\n") == "ok");
  CHECK(list("b: 1\n") == "ok");
  CHECK(list("b: 1\n", {.min_items = 1}).find("yaml-missing-field 1:1") == 0);
  CHECK(list("list: []\n", {.min_items = 1}).find("yaml-bounds 1:7") == 0);
  CHECK(list("list: [x, y]\n", {.max_items = 1}).find("yaml-bounds 1:7") == 0);
  CHECK(list("list: x\n").find("yaml-type 1:7") == 0);
  CHECK(list("list: [x, 1]\n").find("yaml-type 1:11") == 0);
  CHECK(list("list:\n  - x\n  - y\n  - x\n") == "yaml-bounds 4:5 `list` names `x` twice");
  CHECK(list("list: [x, x]\n", {.unique = false}) == "ok");
  const auto choices = [](std::string_view text) {
    return fields(text, [](yaml::Fields& root) { root.choices("list", {}, {"x", "y"}); });
  };
  CHECK(choices("list: [y, x]\n") == "ok");
  CHECK(choices("list: [y, z]\n") == "yaml-bounds 1:11 `list` cannot hold `z`");
}

TEST_CASE("a choice is one of the values") {
  CHECK(fields("a: x\n", [](yaml::Fields& root) { root.choice("a", {"x", "y"}); }) == "ok");
  CHECK(fields("a: z\n", [](yaml::Fields& root) {
          root.choice("a", {"x", "y"});
        }) == "yaml-bounds 1:4 `a` cannot be `z`");
}

TEST_CASE("lists of mappings name the item in their errors") {
  CHECK(fields("list:\n  - x: one\n  - y: two\n", [](yaml::Fields& root) { root.mappings("list", {"x"}); }) ==
        "yaml-unknown-field 3:5 `list[1].y` is not a field here");
  CHECK(fields("list: [x]\n", [](yaml::Fields& root) { root.mappings("list", {"x"}); }) ==
        "yaml-type 1:8 `list[0]` must be a mapping, found `x`");
}

TEST_CASE("foreign text in messages is made visible") {
  CHECK(fields("a: \"\\e[31m\\u202e\"\n", [](yaml::Fields& root) {
          root.choice("a", {"x"});
        }).find("yaml-control-character") == 0);
  CHECK(fields("a: \"\\u202ex\"\n", [](yaml::Fields& root) { root.choice("a", {"x"}); }) ==
        "yaml-bounds 1:4 `a` cannot be `\\u202ex`");
}

TEST_CASE("a file that cannot be read is an error of its own, a link is not followed") {
  std::string directory = (std::filesystem::temp_directory_path() / "hitchrail-yaml-XXXXXX").string();
  REQUIRE(::mkdtemp(directory.data()) != nullptr);
  std::ofstream(directory + "/real.yaml") << "a: 1\n";
  std::filesystem::create_symlink("real.yaml", directory + "/link.yaml");
  std::ofstream(directory + "/big.yaml") << std::string((1u << 20) + 1, '#');
  CHECK(yaml::read_file(directory + "/real.yaml", "read test").has_value());
  CHECK(yaml::read_file(directory + "/none.yaml", "read test").error().code == "enoent");
  CHECK(yaml::read_file(directory + "/link.yaml", "read test").error().code == "eloop");
  CHECK(yaml::read_file(directory + "/big.yaml", "read test").error().code == "yaml-too-large");
  CHECK(yaml::read_file(directory, "read test").error().code == "not-a-regular-file");
  std::filesystem::remove_all(directory);
}
