#include "core/text.hpp"

#include <catch2/catch.hpp>

using namespace hitchrail;

TEST_CASE("UTF-8 is exactly what Unicode calls well formed") {
  for (const std::string& good :
       {std::string(), std::string("plain"), std::string("a\0b", 3), std::string("\u00e9\u20ac"),
        std::string("\xF0\x90\x80\x80"), std::string("\xF4\x8F\xBF\xBF"), std::string("\xED\x9F\xBF"),
        std::string("\xEE\x80\x80"), std::string("\xC2\x80")}) {
    CHECK(is_valid_utf8(good));
    CHECK(is_valid_utf8("12345678" + good + "1234567890123"));
  }
  for (const std::string bad :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xC2", "\xC2\x41", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xE2\x82",
        "\xE2\x28\xA1", "\xE2\x82\x28", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80",
        "\xF0\x90\x80", "\xFF", "\xFE"}) {
    CHECK_FALSE(is_valid_utf8(bad));
    CHECK_FALSE(is_valid_utf8("12345678" + bad + "1234567890123"));
  }
}

TEST_CASE("terminal controls become visible") {
  CHECK(escape_visible("\x1b[31mred\x07\x7f") == "\\x1b[31mred\\x07\\x7f");
  CHECK(escape_visible("a\tb\r\nc") == "a\\tb\\r\\nc");
  CHECK(escape_visible("a\nb", true) == "a\nb");
  CHECK(escape_visible(std::string("a\0b", 3)) == "a\\x00b");
  CHECK(escape_visible("\u009b31m\u0085") == "\\u009b31m\\u0085");
}

TEST_CASE("bidi, zero-width and other invisible characters become visible") {
  CHECK(escape_visible("a\u202eb\u2066c\u200bd\u200fe\ufefff") ==
        "a\\u202eb\\u2066c\\u200bd\\u200fe\\ufefff");
  CHECK(escape_visible("\u061c\u00ad\u2028\ufe0f\u3164") == "\\u061c\\u00ad\\u2028\\ufe0f\\u3164");
  CHECK(escape_visible("\U000E0041") == "\\U000e0041");
}

TEST_CASE("ordinary text of every script stays as it is") {
  const std::string text = "caf\u00e9 \u4f60\u597d \u0634\u0645\u0633 \U0001F680 \\ \"";
  CHECK(escape_visible(text) == text);
}

TEST_CASE("bytes that are not UTF-8 become visible one by one") {
  CHECK(escape_visible("\xFF\xC3(\xE2\x82") == "\\xff\\xc3(\\xe2\\x82");
}

TEST_CASE("cut text has at most the columns asked for and says that it was cut") {
  CHECK(escape_cut("hello", 5) == "hello");
  CHECK(escape_cut("hello!", 5) == "hell\u2026");
  CHECK(escape_cut("\u00e9\u00e9\u00e9\u00e9", 3) == "\u00e9\u00e9\u2026");
  CHECK(escape_cut("\x1b\x1b", 5) == "\\x1b\u2026");
  CHECK(escape_cut(std::string(1'000'000, '\x1b'), 6) == "\\x1b\\\u2026");
  CHECK(escape_cut("abc", 1) == "\u2026");
  CHECK(escape_cut("abc", 0).empty());
  CHECK(escape_cut("", 0).empty());
  CHECK(escape_cut("\U0001F680\U0001F680\U0001F680", 3) == "\U0001F680\U0001F680\U0001F680");
}

TEST_CASE("base64 and hexadecimal are the standard ones") {
  CHECK(base64_encode("").empty());
  CHECK(base64_encode("f") == "Zg==");
  CHECK(base64_encode("fo") == "Zm8=");
  CHECK(base64_encode("foobar") == "Zm9vYmFy");
  CHECK(base64_encode("\xfb\xff") == "+/8=");
  CHECK(hex_encode(std::string("\0\x7f\xff", 3)) == "007fff");
}
