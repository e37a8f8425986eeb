#include "core/redact.hpp"

#include <catch2/catch.hpp>

#include "core/json.hpp"
#include "core/text.hpp"

using namespace hitchrail;

namespace {

std::string cleaned(const SecretRedactor& redactor, std::string_view text) {
  std::string out = "untouched";
  if (!redactor.redact(text, out)) {
    CHECK(out == "untouched");
    return std::string(text);
  }
  return out;
}

std::string base64url(std::string text) {
  for (char& c : text) {
    c = c == '+' ? '-' : c == '/' ? '_' : c;
  }
  return text;
}

}  // namespace

TEST_CASE("a value is found at the beginning, in the middle, at the end and twice in a row") {
  SecretRedactor redactor;
  redactor.add("KEY", "sk-0123456789");
  CHECK(cleaned(redactor, "sk-0123456789") == "[REDACTED:KEY]");
  CHECK(cleaned(redactor, "a sk-0123456789 b") == "a [REDACTED:KEY] b");
  CHECK(cleaned(redactor, "sk-0123456789sk-0123456789!") == "[REDACTED:KEY][REDACTED:KEY]!");
  CHECK(cleaned(redactor, "sk-sk-0123456789") == "sk-[REDACTED:KEY]");
  CHECK(cleaned(redactor, "sk-012345678") == "sk-012345678");
  CHECK(cleaned(redactor, "") == "");
}

TEST_CASE("a value is found at every offset of a text") {
  SecretRedactor redactor;
  redactor.add("A", "secret");
  redactor.add("B", "another-and-much-longer-value-than-the-first-one");
  for (std::size_t i = 0; i < 200; ++i) {
    std::string text(200, 's');
    text.insert(i, "secret");
    CHECK(cleaned(redactor, text) == std::string(i, 's') + "[REDACTED:A]" + std::string(200 - i, 's'));
    text = std::string(i, 'e') + "another-and-much-longer-value-than-the-first-one";
    CHECK(cleaned(redactor, text) == std::string(i, 'e') + "[REDACTED:B]");
  }
}

TEST_CASE("values shorter than six bytes are not searched for and the caller learns it") {
  SecretRedactor redactor;
  CHECK_FALSE(redactor.add("PIN", "12345"));
  CHECK(redactor.empty());
  CHECK(cleaned(redactor, "12345") == "12345");
  CHECK(redactor.add("PIN", "123456"));
}

TEST_CASE("a value is found in its JSON-escaped forms") {
  const std::string value = "pa\"ss\\wo/rd\n<\u00e9\U0001F600>";
  SecretRedactor redactor;
  redactor.add("P", value);
  std::string quoted;
  json::append_quoted(quoted, value);
  CHECK(cleaned(redactor, quoted) == "\"[REDACTED:P]\"");
  std::string twice;
  json::append_quoted(twice, quoted);
  CHECK(cleaned(redactor, twice).find("[REDACTED:P]") != std::string::npos);
  for (const std::string escaped :
       {R"(pa\"ss\\wo\/rd\n<é😀>)", R"(pa\"ss\\wo/rd\n<\u00e9\ud83d\ude00>)",
        R"(pa\"ss\\wo/rd\n<\u00E9\uD83D\uDE00>)", R"(pa\"ss\\wo/rd\n\u003cé😀\u003e)",
        R"(pa\"ss\\wo\/rd\n<\u00e9\ud83d\ude00>)"}) {
    INFO(escaped);
    CHECK(cleaned(redactor, "x" + escaped + "y") == "x[REDACTED:P]y");
  }
}

TEST_CASE("a value is found in base64 whatever stands before and after it") {
  for (const std::string value :
       {"hunter", "hunter2!", "\xfb\xff\xbf\xfe\x3e\x3f~~~", "a-long-secret-value-of-a-key"}) {
    SecretRedactor redactor;
    redactor.add("B", value);
    for (std::size_t before = 0; before < 7; ++before) {
      for (std::size_t after = 0; after < 4; ++after) {
        const std::string text = base64_encode(std::string(before, 'u') + value + std::string(after, ':'));
        INFO(value << " " << before << " " << after);
        CHECK(cleaned(redactor, text).find("[REDACTED:B]") != std::string::npos);
        CHECK(cleaned(redactor, base64url(text)).find("[REDACTED:B]") != std::string::npos);
      }
    }
  }
}

TEST_CASE("a value is found percent-encoded with large and small digits and in forms") {
  SecretRedactor redactor;
  redactor.add("U", "a b/c+d=!\u00e9");
  for (const std::string text : {"a%20b%2Fc%2Bd%3D%21%C3%A9", "a%20b%2fc%2bd%3d%21%c3%a9",
                                 "a%20b%2Fc%2Bd%3D!%C3%A9", "a+b%2Fc%2Bd%3D%21%C3%A9"}) {
    INFO(text);
    CHECK(cleaned(redactor, "?k=" + text + "&x=1") == "?k=[REDACTED:U]&x=1");
  }
}

TEST_CASE("of two values that begin at one place the longer is taken") {
  SecretRedactor redactor;
  redactor.add("SHORT", "token-");
  redactor.add("LONG", "token-with-a-tail");
  CHECK(cleaned(redactor, "token-with-a-tail") == "[REDACTED:LONG]");
  CHECK(cleaned(redactor, "token-without") == "[REDACTED:SHORT]without");
}

TEST_CASE("the names found are reported once each and made safe") {
  SecretRedactor redactor;
  redactor.add("A\"\n]", "alpha-secret");
  redactor.add("B", "beta-secret");
  std::vector<std::string> names;
  std::string out;
  REQUIRE(redactor.redact("beta-secret alpha-secret beta-secret", out, &names));
  CHECK(names == std::vector<std::string>{"B", "A___"});
  CHECK(out == "[REDACTED:B] [REDACTED:A___] [REDACTED:B]");
}

TEST_CASE("bytes of every value may be part of a secret") {
  std::string value;
  for (int i = 0; i < 256; ++i) {
    value.push_back(static_cast<char>(i));
  }
  SecretRedactor redactor;
  redactor.add("ALL", value);
  CHECK(cleaned(redactor, "<" + value + ">") == "<[REDACTED:ALL]>");
}
