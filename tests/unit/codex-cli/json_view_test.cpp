#include "json_view.hpp"

#include <catch2/catch.hpp>
#include <random>

// An independent judge of what is JSON; the plugin itself does not use it.
#include <rapidjson/reader.h>

namespace json = hitchrail::sdk::json;
using json::View;

namespace {

bool rapidjson_accepts(const std::string& text) {
  rapidjson::MemoryStream stream(text.data(), text.size());
  rapidjson::BaseReaderHandler<> ignore;
  rapidjson::Reader reader;
  return !reader.Parse<rapidjson::kParseIterativeFlag | rapidjson::kParseValidateEncodingFlag>(stream, ignore)
              .IsError();
}

}  // namespace

TEST_CASE("JSON values are accepted with white space around them") {
  for (const char* text :
       {"{}", "[]", "null", "true", "false", "0", "-1.5e+3", "\"\"", " {\"a\" : [1 , {\"b\":null}]}\r\n",
        "\"\\u00e9\\n\\/\"", "[[],{},[{}]]", "\"caf\xc3\xa9\""}) {
    CHECK(json::valid(text));
  }
}

TEST_CASE("What is not exactly one JSON value is refused") {
  for (const char* text : {"",
                           " ",
                           "{",
                           "[",
                           "{]",
                           "[}",
                           "{}{}",
                           "{} x",
                           "[1,]",
                           "[,1]",
                           "{\"a\"}",
                           "{\"a\":}",
                           "{\"a\":1,}",
                           "{a:1}",
                           "'a'",
                           "nul",
                           "truex",
                           "01",
                           "-",
                           "1.",
                           ".5",
                           "1e",
                           "+1",
                           "\"\\x\"",
                           "\"\\u12g4\"",
                           "\"\\u12\"",
                           "\"a",
                           "\"\n\"",
                           "\"\t\"",
                           "[1 2]",
                           "{\"a\":1 \"b\":2}",
                           "\xef\xbb\xbf{}",
                           "NaN",
                           "Infinity",
                           "// x",
                           "\"\\"}) {
    INFO(text);
    CHECK_FALSE(json::valid(text));
  }
  CHECK_FALSE(json::valid(std::string_view("\"\0\"", 3)));
}

TEST_CASE("Invalid UTF-8 is refused wherever it stands in a string") {
  for (const char* bytes : {"\x80", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                            "\xf8\x88\x80\x80\x80", "\xe2\x82", "\xff", "\xc3"}) {
    for (std::size_t before = 0; before < 17; ++before) {
      const std::string text = std::string(before, 'x') + bytes;
      CHECK_FALSE(json::valid("\"" + text + "\""));
      CHECK_FALSE(json::valid_utf8(text));
    }
  }
  CHECK(json::valid("\"\xf0\x9f\x98\x80\xe2\x80\xa8\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf\""));
}

TEST_CASE("Depth 64 is read, depth 65 refused, and a million brackets cost no stack") {
  const auto nested = [](std::size_t depth, char open, char close) {
    return std::string(depth, open) + std::string(depth, close);
  };
  CHECK(json::valid(nested(64, '[', ']')));
  CHECK_FALSE(json::valid(nested(65, '[', ']')));
  CHECK_FALSE(json::valid(nested(1'000'000, '[', ']')));
  std::string objects;
  for (int i = 0; i < 1'000'000; ++i) {
    objects += "{\"a\":";
  }
  CHECK_FALSE(json::valid(objects));
}

TEST_CASE("Objects and arrays do not mix up their brackets at any depth") {
  CHECK(json::valid("{\"a\":[{\"b\":[{\"c\":1}]}]}"));
  CHECK_FALSE(json::valid("{\"a\":[{\"b\":[{\"c\":1]}]}]}"));
  CHECK_FALSE(json::valid("[{\"a\":1]}"));
}

TEST_CASE("The first of a repeated key is the one that counts") {
  CHECK(View(R"({"id":"item_0","type":"x","id":"other"})").get("id").string() == "item_0");
}

TEST_CASE("A key with escapes is the same key") {
  CHECK(View(R"({"\u0074ype":"x"})").get("type").string() == "x");
  CHECK_FALSE(View(R"({"\u0074ypes":"x"})").get("type").present());
}

TEST_CASE("Members are found behind nested values full of brackets, quotes and backslashes") {
  const View view(R"({"a":{"x":"}]\\\"","y":[1,"]"]},"b":"\\","c" : 7 })");
  CHECK(view.get("a").raw() == R"({"x":"}]\\\"","y":[1,"]"]})");
  CHECK(view.get("b").string() == "\\");
  CHECK(view.get("c").count() == 7u);
  CHECK(view.get("a").get("y").is_array());
}

TEST_CASE("Strings lose their escapes, halves of surrogate pairs become U+FFFD") {
  CHECK(View(R"("a\n\t\"\\\/\b\f\r\u00e9\u20ac\ud83d\ude00")").string() ==
        "a\n\t\"\\/\b\f\r\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
  CHECK(View(R"("\ud83d")").string() == "\xef\xbf\xbd");
  CHECK(View(R"("\ude00x")").string() == "\xef\xbf\xbdx");
  CHECK(View(R"("\ud83d\u0041")").string() ==
        "\xef\xbf\xbd"
        "A");
  CHECK(View(R"("\u0000")").string() == std::string(1, '\0'));
}

TEST_CASE("Nothing is asked of a value of another type in vain") {
  const View number("12");
  CHECK_FALSE(number.get("a").present());
  CHECK(number.string().empty());
  CHECK_FALSE(View::Walker(number).next());
  CHECK_FALSE(View().get("a").get("b").count().has_value());
}

TEST_CASE("Counts are integers within 2^53") {
  CHECK(View("9007199254740992").count() == 9007199254740992u);
  for (const char* text : {"9007199254740993", "-1", "1.0", "1e3", "99999999999999999999", "\"1\"", "null"}) {
    CHECK_FALSE(View(text).count().has_value());
  }
}

TEST_CASE("Quoting gives a string that reads back as the same text") {
  const std::string text = std::string("a\"b\\c\n\x01\x7f\x1b", 10) + "\xc3\xa9";
  std::string quoted;
  json::append_quoted(quoted, text);
  REQUIRE(json::valid(quoted));
  CHECK(View(quoted).string() == text);
}

TEST_CASE("Mutated records are judged as another parser judges them") {
  const std::vector<std::string> seeds{
      R"({"type":"item.completed","item":{"id":"item_2","type":"command_execution","exit_code":0,"x":[1,-2.5e3,{}]}})",
      R"({"a":"caf)"
      "\xc3\xa9"
      R"(\u00e9\n","b":[true,false,null],"c":{"d":{"e":"\\\""}}})",
      R"([{"k":""},[[],[0]],")"
      "\xf0\x9f\x98\x80"
      R"("])"};
  std::mt19937 random(20260101);
  const std::string alphabet = "{}[]\",:\\u0123456789eE+-.tfn \n\x7f\x80\xc3\xa9\xf0";
  int accepted = 0;
  for (int round = 0; round < 200'000; ++round) {
    std::string text = seeds[random() % seeds.size()];
    const std::size_t changes = 1 + random() % 3;
    for (std::size_t i = 0; i < changes; ++i) {
      const std::size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = alphabet[random() % alphabet.size()];
          break;
        case 1:
          text.erase(at, 1 + random() % 3);
          break;
        default:
          text.insert(at, 1, alphabet[random() % alphabet.size()]);
          break;
      }
      if (text.empty()) {
        break;
      }
    }
    // The other parser refuses numbers that no double can hold.
    if (text.find("\\u") != std::string::npos && text.find("\\ud") != std::string::npos) {
      continue;
    }
    const bool ours = json::valid(text);
    accepted += ours ? 1 : 0;
    if (ours != rapidjson_accepts(text)) {
      FAIL("judged differently: " << text << " ours: " << ours);
    }
  }
  CHECK(accepted > 1000);
}

namespace {

// "parent/key=value" for each member of the index.
std::vector<std::string> indexed(const std::string& text) {
  json::Index index;
  std::vector<std::string> out;
  REQUIRE(json::valid(text, index));
  for (const json::Index::Member& member : index) {
    const std::string parent =
        member.parent < 0 ? ""
                          : std::string(index.begin()[static_cast<std::size_t>(member.parent)].key) + "/";
    out.push_back(parent + std::string(member.key) + "=" + std::string(member.value.raw()));
  }
  return out;
}

}  // namespace

TEST_CASE("The index has the members of two levels, deeper ones only as text") {
  CHECK(
      indexed(
          R"({ "a" : 1 , "b":{"c":{"d":{"e":{"f":[{"g":2}]}}},"h":[{"i":3}] , "k":"}" },"l":[{"m":4},5],"n":{}} )") ==
      std::vector<std::string>{"a=1", R"(b={"c":{"d":{"e":{"f":[{"g":2}]}}},"h":[{"i":3}] , "k":"}" })",
                               R"(b/c={"d":{"e":{"f":[{"g":2}]}}})", R"(b/h=[{"i":3}])", R"(b/k="}")",
                               R"(l=[{"m":4},5])", "n={}"});
  CHECK(indexed(R"([{"a":1}])").empty());
  CHECK(indexed("{}").empty());
  CHECK(indexed("7").empty());
}

TEST_CASE("The index keeps repeated keys in their order and knows keys with escapes") {
  json::Index index;
  REQUIRE(json::valid(R"({"\u0069d":1,"id":2,"i\\d":3})", index));
  CHECK(indexed(R"({"id":1,"id":2})") == std::vector<std::string>{"id=1", "id=2"});
  CHECK(index.begin()[0].key_is("id"));
  CHECK(index.begin()[1].key_is("id"));
  CHECK_FALSE(index.begin()[2].key_is("id"));
  CHECK(index.begin()[2].key_is("i\\d"));
}

TEST_CASE("An index that is full says that it is not complete and forgets nothing it has") {
  std::string text = "{";
  for (int i = 0; i < 60; ++i) {
    text += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":{\"x\":" + std::to_string(i) + "}";
  }
  json::Index index;
  REQUIRE(json::valid(text + "}", index));
  CHECK_FALSE(index.complete());
  CHECK(index.end() - index.begin() == static_cast<std::ptrdiff_t>(json::Index::capacity));
  for (const json::Index::Member& member : index) {
    CHECK(member.value.present());
  }
  REQUIRE(json::valid("{}", index));
  CHECK(index.complete());
}
