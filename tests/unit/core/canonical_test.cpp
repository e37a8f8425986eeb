#include "core/canonical.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>

#include "core/text.hpp"

using namespace hitchrail;

namespace {

json::Value parsed(std::string_view text) {
  auto result = json::parse(text, json::Duplicates::refuse);
  REQUIRE(result.has_value());
  return *result;
}

std::string canonical(std::string_view text) {
  auto result = canonicalize(parsed(text));
  REQUIRE(result.has_value());
  return *result;
}

std::string document_code(std::string_view text) {
  auto result = document_digest(parsed(text));
  return result.has_error() ? result.error().code : "accepted";
}

// The digest as an operator checks it, with jq and sha256sum.
std::string digest_by_jq(const std::string& document) {
  std::string directory = (std::filesystem::temp_directory_path() / "hitchrail-jq-XXXXXX").string();
  REQUIRE(::mkdtemp(directory.data()) != nullptr);
  const std::string file = directory + "/document.json";
  std::ofstream(file) << document;
  const std::string command = "jq -cSj 'del(.digest)' '" + file + "' | sha256sum";
  FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 65> hex{};
  const std::size_t got = std::fread(hex.data(), 1, 64, pipe);
  ::pclose(pipe);
  std::filesystem::remove_all(directory);
  REQUIRE(got == 64);
  return "sha256:" + std::string(hex.data(), 64);
}

}  // namespace

TEST_CASE("numbers have the ECMAScript form of RFC 8785, appendix B") {
  struct Vector {
    std::uint64_t bits;
    const char* text;
  };
  for (const Vector& vector : {Vector{0x0000000000000000, "0"},
                               {0x8000000000000000, "0"},
                               {0x0000000000000001, "5e-324"},
                               {0x8000000000000001, "-5e-324"},
                               {0x7fefffffffffffff, "1.7976931348623157e+308"},
                               {0xffefffffffffffff, "-1.7976931348623157e+308"},
                               {0x4340000000000000, "9007199254740992"},
                               {0xc340000000000000, "-9007199254740992"},
                               {0x4430000000000000, "295147905179352830000"},
                               {0x44b52d02c7e14af5, "9.999999999999997e+22"},
                               {0x44b52d02c7e14af6, "1e+23"},
                               {0x44b52d02c7e14af7, "1.0000000000000001e+23"},
                               {0x444b1ae4d6e2ef4e, "999999999999999700000"},
                               {0x444b1ae4d6e2ef4f, "999999999999999900000"},
                               {0x444b1ae4d6e2ef50, "1e+21"},
                               {0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"},
                               {0x3eb0c6f7a0b5ed8d, "0.000001"},
                               {0x41b3de4355555553, "333333333.3333332"},
                               {0x41b3de4355555554, "333333333.33333325"},
                               {0x41b3de4355555555, "333333333.3333333"},
                               {0x41b3de4355555556, "333333333.3333334"},
                               {0x41b3de4355555557, "333333333.33333343"},
                               {0xbecbf647612f3696, "-0.0000033333333333333333"},
                               {0x43143ff3c1cb0959, "1424953923781206.2"}}) {
    char buffer[64];
    std::snprintf(buffer, sizeof buffer, "%.17g", std::bit_cast<double>(vector.bits));
    const auto result = canonicalize(json::Value::number_text(buffer));
    INFO(buffer);
    REQUIRE(result.has_value());
    CHECK(*result == vector.text);
  }
}

TEST_CASE("a number without a finite double is refused") {
  for (const char* text : {"1e999", "nan", "inf", "", "1x", "0x10"}) {
    INFO(text);
    const auto result = canonicalize(json::Value::number_text(text));
    REQUIRE(result.has_error());
    CHECK(result.error().code == "canonical-unsupported");
  }
  CHECK(canonicalize(json::Value::number_text("1e-999")).value() == "0");
}

TEST_CASE("the example of RFC 8785, section 3.2.2") {
  CHECK(canonical(R"({
    "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
    "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
    "literals": [null, true, false]
  })") ==
        "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],"
        "\"string\":\"\u20ac$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}");
}

TEST_CASE("keys are sorted by UTF-16 units, as in RFC 8785, section 3.2.3") {
  CHECK(
      canonical(
          R"({"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One",
                      "\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin"})") ==
      "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u0080\":\"Control\",\"\u00f6\":\"Latin\","
      "\"\u20ac\":\"Euro Sign\",\"\U0001F600\":\"Emoji: Grinning Face\","
      "\"\ufb33\":\"Hebrew Letter Dalet With Dagesh\"}");
  CHECK(canonical(R"({"aa":1,"a":2,"b":3,"":4})") == R"({"":4,"a":2,"aa":1,"b":3})");
}

TEST_CASE("a document's digest is what jq and sha256sum compute") {
  const std::string document =
      "{\"schema\":\"x/"
      "v1\",\"digest\":\"sha256:0\",\"z\":[1,-2,0,9007199254740992,-9007199254740992,true,null],"
      "\"a\":{\"Z\":\"\",\"_\":1,\"a\":[],\"b\":{}},"
      "\"text\":\"\\u0000\\u0001\\b\\t\\n\\u000b\\f\\r\\u001f \\\"\\\\/<>&' \u00e9 \u20ac \U0001F600 \u2028 "
      "\uFFFD\"}";
  const auto digest = document_digest(parsed(document));
  REQUIRE(digest.has_value());
  CHECK(*digest == digest_by_jq(document));
  CHECK(*digest != digest_by_jq("{}"));
}

TEST_CASE("a document holds only what jq writes the same way") {
  CHECK(document_code(R"({"a":9007199254740992})") == "accepted");
  CHECK(document_code(R"({"a":9007199254740993})") == "canonical-unsupported");
  CHECK(document_code(R"({"a":-9007199254740993})") == "canonical-unsupported");
  CHECK(document_code(R"({"a":1.0})") == "canonical-unsupported");
  CHECK(document_code(R"({"a":1e2})") == "canonical-unsupported");
  CHECK(document_code(R"({"a":-0})") == "canonical-unsupported");
  CHECK(document_code("{\"\u00e9\":1}") == "canonical-unsupported");
  CHECK(document_code("{\"a\":\"\u007f\"}") == "canonical-unsupported");
  CHECK(document_code("{\"a\":{\"b\":[\"\u007f\"]}}") == "canonical-unsupported");
}

TEST_CASE("a tree with invalid UTF-8, a repeated key or endless depth is refused") {
  CHECK(canonicalize(json::Value("\xFF")).has_error());
  CHECK(canonicalize(json::Value::object({{"a", 1}, {"a", 2}})).has_error());
  json::Value deep;
  for (int i = 0; i < 100; ++i) {
    json::Value outer = json::Value::array();
    outer.push(std::move(deep));
    deep = std::move(outer);
  }
  CHECK(canonicalize(deep).error().code == "canonical-unsupported");
}

TEST_CASE("sealing puts the digest last and verifying finds every change") {
  json::Value document = parsed(R"({"digest":"old","schema":"x/v1","n":1})");
  const auto digest = seal_document(document);
  REQUIRE(digest.has_value());
  CHECK(document.members().back().first == "digest");
  CHECK(document.members().back().second.as_string() == *digest);
  CHECK(verify_document(document).has_value());
  // Another order of the members is the same document.
  CHECK(
      verify_document(json::Value::object({{"n", 1}, {"digest", *digest}, {"schema", "x/v1"}})).has_value());
  document.set("n", 2);
  const auto changed = verify_document(document);
  REQUIRE(changed.has_error());
  CHECK(changed.error().code == "digest-mismatch");
  document.erase("digest");
  CHECK(verify_document(document).error().code == "digest-mismatch");
}

TEST_CASE("a material digest forgets when and where, and nothing else") {
  const std::array<std::string_view, 3> drop{"attempt", "probe.probedAt", "absent.too"};
  const json::Value first = parsed(R"({"attempt":"a","probe":{"probedAt":"t1","version":"1"},"x":1})");
  const json::Value second =
      parsed(R"({"attempt":"b","probe":{"probedAt":"t2","version":"1"},"x":1,"digest":"d"})");
  const json::Value third = parsed(R"({"attempt":"a","probe":{"probedAt":"t1","version":"2"},"x":1})");
  CHECK(material_digest(first, drop).value() == material_digest(second, drop).value());
  CHECK(material_digest(first, drop).value() != material_digest(third, drop).value());
  CHECK(document_digest(first).value() != document_digest(second).value());
}

TEST_CASE("a path that is not printable UTF-8 is written in base64") {
  CHECK(path_value("/tmp/\u00e9t\u00e9") == json::Value("/tmp/\u00e9t\u00e9"));
  CHECK(path_value("/tmp/\xFF") == json::Value::object({{"base64", "L3RtcC//"}}));
  CHECK(path_value("a\nb").is_object());
  CHECK(path_value("a\u007fb").is_object());
  CHECK(path_value("a\u202eb").is_object());
  json::Value document = json::Value::object({{"path", path_value("/tmp/\x7f\xFF")}});
  CHECK(seal_document(document).has_value());
}

TEST_CASE("SHA-256 gives the digests of FIPS 180-2") {
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_prefixed("abc").find("sha256:ba78") == 0);
}

TEST_CASE("a document's number is written one way: other spellings of it are refused") {
  for (const char* text : {"-0", "01", "-01", "1.0", "1e3", "+1", " 1", "", "9007199254740993"}) {
    json::Value document = json::Value::object({{"n", json::Value::number_text(text)}});
    INFO(text);
    CHECK(document_digest(document).has_error());
  }
  for (const char* text : {"0", "7", "-7", "9007199254740992", "-9007199254740992"}) {
    json::Value document = json::Value::object({{"n", json::Value::number_text(text)}});
    INFO(text);
    CHECK(document_digest(document).has_value());
  }
}

TEST_CASE("the digest leaves out the member digest at the top, and only there") {
  json::Value inner = json::Value::object({{"digest", "inside"}, {"a", 1}});
  json::Value plain = json::Value::object({{"b", inner}, {"a", "x"}});
  json::Value sealed = plain;
  REQUIRE(seal_document(sealed).has_value());
  CHECK(document_digest(sealed).value() == document_digest(plain).value());
  CHECK(document_digest(plain).value() == sha256_prefixed(R"({"a":"x","b":{"a":1,"digest":"inside"}})"));
}

TEST_CASE("objects of any size and order come out sorted once, and a repeated key is refused") {
  for (const int size : {0, 1, 2, 47, 48, 49, 500}) {
    json::Value document = json::Value::object();
    std::vector<json::Member> members;
    for (int i = size; i > 0; --i) {
      members.emplace_back("k" + std::to_string(10'000 + i), json::Value(i));
    }
    std::string wanted = "{";
    for (int i = 1; i <= size; ++i) {
      wanted += (i > 1 ? ",\"k" : "\"k") + std::to_string(10'000 + i) + "\":" + std::to_string(i);
    }
    CHECK(canonicalize(json::Value::object(members)).value() == wanted + "}");
    if (size > 1) {
      members.emplace_back("k10001", json::Value(0));
      CHECK(canonicalize(json::Value::object(members)).has_error());
    }
  }
}
