#include "core/json.hpp"

#include <catch2/catch.hpp>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace hitchrail;
using json::Duplicates;

namespace {

std::string code_of(std::string_view text, Duplicates duplicates = Duplicates::refuse,
                    const json::ParseLimits& limits = {}) {
  auto parsed = json::parse(text, duplicates, "test", limits);
  return parsed.has_error() ? parsed.error().code : "accepted";
}

json::Value parsed(std::string_view text, Duplicates duplicates = Duplicates::refuse) {
  auto result = json::parse(text, duplicates);
  REQUIRE(result.has_value());
  return *result;
}

std::string nested(std::size_t depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

// Runs `body` in a child with a stack of 256 KiB; true when it came back in one piece.
template <class Body>
bool survives_small_stack(Body body) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit stack{256u << 10, 256u << 10};
    ::setrlimit(RLIMIT_STACK, &stack);
    ::_exit(body() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

TEST_CASE("every kind of value survives parsing and writing") {
  const std::string text =
      R"({"z":null,"a":[true,false,0,-7,1.50,1e3],"s":"\"\\/\b\f\n\r\t\u00e9\ud83d\ude00","o":{"k":{}}, "e":[]})";
  const json::Value value = parsed(text);
  CHECK(json::write(value) ==
        "{\"z\":null,\"a\":[true,false,0,-7,1.50,1e3],\"s\":\"\\\"\\\\/\\b\\f\\n\\r\\t\u00e9\U0001F600\","
        "\"o\":{\"k\":{}},\"e\":[]}");
  CHECK(parsed(json::write(value)) == value);
  CHECK(parsed(json::write(value, 2)) == value);
  CHECK(value.get("a").items().at(3).as_int() == -7);
  CHECK_FALSE(value.get("a").items().at(4).as_int().has_value());
  CHECK(value.get("a").items().at(4).number_text() == "1.50");
}

TEST_CASE("numbers keep the text a provider wrote") {
  for (const std::string text :
       {"12345678901234567890123", "0.10", "-0", "1E+2", "0.000000000000000000000001"}) {
    CHECK(json::write(parsed(text)) == text);
  }
  CHECK(parsed("9223372036854775807").as_int() == INT64_MAX);
  CHECK_FALSE(parsed("9223372036854775808").as_int().has_value());
}

TEST_CASE("a number no double can hold is refused, not changed") {
  CHECK(code_of("1e400") == "json-syntax");
}

TEST_CASE("64 levels are accepted and 65 are refused") {
  CHECK(code_of(nested(64)) == "accepted");
  CHECK(code_of(nested(65)) == "json-depth");
  CHECK(json::is_valid_line(nested(64)));
  CHECK_FALSE(json::is_valid_line(nested(65)));
}

TEST_CASE("a million brackets are refused on a small stack") {
  const std::string arrays(1'000'000, '[');
  std::string objects;
  for (int i = 0; i < 300'000; ++i) {
    objects += "{\"a\":";
  }
  CHECK(survives_small_stack([&] {
    return code_of(arrays) == "json-depth" && code_of(objects) == "json-depth" &&
           !json::is_valid_line(arrays) && !json::is_valid_line(objects);
  }));
}

TEST_CASE("a tree built too deep by hand is written without the machine's stack") {
  json::Value* deep = new json::Value(json::Value::array());
  for (int i = 0; i < 5'000; ++i) {
    json::Value outer = json::Value::array();
    outer.push(std::move(*deep));
    *deep = std::move(outer);
  }
  CHECK(json::write(*deep) == nested(5'001));
  delete deep;
}

TEST_CASE("a repeated key is refused strictly and the first wins leniently") {
  CHECK(code_of(R"({"a":1,"b":{"c":1,"c":2}})") == "json-duplicate-key");
  CHECK(json::write(parsed(R"({"a":1,"b":2,"a":3,"a":4,"c":5})", Duplicates::first_wins)) ==
        R"({"a":1,"b":2,"c":5})");
  // The same key by another spelling.
  CHECK(code_of(R"({"a":1,"\u0061":2})") == "json-duplicate-key");
  std::string many = "{";
  for (int i = 0; i < 40; ++i) {
    many += "\"k" + std::to_string(i % 30) + "\":" + std::to_string(i) + ",";
  }
  many.back() = '}';
  CHECK(code_of(many) == "json-duplicate-key");
  const json::Value kept = parsed(many, Duplicates::first_wins);
  CHECK(kept.members().size() == 30);
  CHECK(kept.get("k5").as_int() == 5);
}

TEST_CASE("a hundred thousand keys in one object are checked in reasonable time") {
  std::string many = "{";
  for (int i = 0; i < 100'000; ++i) {
    many += "\"k" + std::to_string(i) + "\":0,";
  }
  many.back() = '}';
  CHECK(parsed(many) == parsed(many));
}

TEST_CASE("what is not UTF-8 is refused, raw or escaped") {
  CHECK(code_of("\"\xC3\x28\"") == "json-utf8");
  CHECK(code_of("{\"\xFF\":1}") == "json-utf8");
  CHECK(code_of("\"\xED\xA0\x80\"") == "json-utf8");      // a surrogate in UTF-8
  CHECK(code_of("\"\xC0\xAF\"") == "json-utf8");          // overlong
  CHECK(code_of("\"\xF4\x90\x80\x80\"") == "json-utf8");  // above U+10FFFF
  CHECK(code_of("\"\\udc00\"") == "json-utf8");           // a lone low surrogate
  CHECK(code_of("\"\\ud800\"") == "json-syntax");         // a lone high surrogate
  CHECK(code_of("\"\\ud800x\"") == "json-syntax");
}

TEST_CASE("trailing bytes, NUL bytes and empty texts are refused") {
  for (const std::string& text :
       {std::string("{} {}"), std::string("1,"), std::string(), std::string("  "), std::string("1\0", 2),
        std::string("{}\0{", 4), std::string("\"a\0b\"", 5), std::string("[1,]"), std::string("{\"a\"}"),
        std::string("01"), std::string("+1"), std::string("nul"), std::string("// c\n1"),
        std::string("\xEF\xBB\xBF{}"), std::string("\"\t\""), std::string("NaN"), std::string("'a'")}) {
    INFO(text);
    CHECK(code_of(text) == "json-syntax");
    CHECK_FALSE(json::is_valid_line(text));
  }
}

TEST_CASE("a syntax error names line and column") {
  const auto result = json::parse("{\n  \"a\": 1,\n  b\n}", Duplicates::refuse, "plan.json");
  REQUIRE(result.has_error());
  CHECK(result.error().object == "plan.json");
  CHECK(result.error().kind == ErrorClass::usage);
  CHECK(result.error().detail.find("line 3, column 3") == 0);
}

TEST_CASE("limits on bytes and values hold") {
  CHECK(code_of("[1,2,3]", Duplicates::refuse, {.max_bytes = 6, .max_values = 10}) == "json-too-large");
  CHECK(code_of("[1,2,3]", Duplicates::refuse, {.max_bytes = 7, .max_values = 3}) == "json-too-large");
  CHECK(code_of("[1,2,3]", Duplicates::refuse, {.max_bytes = 7, .max_values = 4}) == "accepted");
}

TEST_CASE("a valid line is one JSON value without line feeds") {
  for (const std::string text :
       {"{}", "[]", " [ 1 , {\"a\" : [ ] } ] ", "\"\\ud83d\\ude00 \xE2\x80\xA8\"", "-0.5e-3", "true",
        "{\"a\":{\"b\":[null,false]},\"c\":\"d\"}", "\"01234567\\\"89abcdef\""}) {
    INFO(text);
    CHECK(json::is_valid_line(text));
    CHECK(code_of(text, Duplicates::first_wins) == "accepted");
  }
  for (const std::string text :
       {"{\n}",     "[1\n]", "\"a\nb\"", "[1 2]",   "{\"a\":1,}",  "{,}",         "[,]",
        "{1:2}",    "]",     "[}",       "\"\\x\"", "\"\\u12G4\"", "\"\\udc00\"", "\"\\ud800\\u0041\"",
        "\"\x80\"", "\"abc", "\"abc\\",  "1.",      "1e",          "-",           ".5",
        "tru",      "1e291"}) {
    INFO(text);
    CHECK_FALSE(json::is_valid_line(text));
  }
}

TEST_CASE("a special byte is found at every offset of a word") {
  for (std::size_t i = 0; i < 40; ++i) {
    for (const std::string bad : {"\x01", "\x1F", "\xFF", "\""}) {
      std::string text = "\"" + std::string(40, 'x') + "\"";
      text.replace(i + 1, 1, bad);
      INFO(i << " " << int(static_cast<unsigned char>(bad[0])));
      CHECK_FALSE(json::is_valid_line(text));
    }
    std::string text = "\"" + std::string(40, 'x') + "\"";
    text.replace(i + 1, 1, "\\n");
    CHECK(json::is_valid_line(text));
    text.replace(i + 1, 2, "\u00e9");
    CHECK(json::is_valid_line(text));
  }
}

TEST_CASE("quoting escapes controls and DEL and replaces bytes that are not UTF-8") {
  std::string out;
  json::append_quoted(out, std::string("a\x1b\x7f\0\"\\\n\xFFz\xC3", 10) + "\u00e9");
  CHECK(out == "\"a\\u001b\\u007f\\u0000\\\"\\\\\\n\uFFFDz\uFFFD\u00e9\"");
}

TEST_CASE("an accessor of the wrong type gives the default") {
  const json::Value value = parsed(R"({"s":"x","n":1})");
  CHECK(value.get("n").as_string().empty());
  CHECK_FALSE(value.get("s").as_int().has_value());
  CHECK(value.get("s").items().empty());
  CHECK(value.get("missing").get("deeper").is_null());
  CHECK(value.find("missing") == nullptr);
}

TEST_CASE("setting replaces, appends, and makes an object of null") {
  json::Value value;
  value.set("b", 1);
  value.set("a", "x");
  value.set("b", json::Value::array());
  value.set("u", std::uint64_t{18446744073709551615u});
  CHECK(json::write(value) == R"({"b":[],"a":"x","u":18446744073709551615})");
  CHECK(value.erase("b"));
  CHECK_FALSE(value.erase("b"));
}

TEST_CASE("equality ignores the order of members and nothing else") {
  CHECK(parsed(R"({"a":1,"b":[1,2]})") == parsed(R"({"b":[1,2],"a":1})"));
  CHECK_FALSE(parsed(R"({"a":1})") == parsed(R"({"a":1.0})"));
  CHECK_FALSE(parsed("[1,2]") == parsed("[2,1]"));
  CHECK_FALSE(parsed(R"({"a":1})") == parsed(R"({"b":1})"));
  CHECK_FALSE(parsed("\"1\"") == parsed("1"));
  CHECK_FALSE(parsed("{}") == parsed("[]"));
}
