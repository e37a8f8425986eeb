// The head of a CONNECT, whole, in pieces and broken.
#include "gate/request.hpp"

#include <catch2/catch.hpp>
#include <string>

using namespace hitchrail::gate;
using State = Head::State;

namespace {

Head parse(std::string_view text) {
  std::size_t scanned = 0;
  return parse_head(text, scanned);
}

}  // namespace

TEST_CASE("a CONNECT is read with its host as written and its port") {
  const std::string text =
      "CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com:443\r\nX: \t y\r\n\r\nrest";
  const Head head = parse(text);
  CHECK(head.state == State::connect);
  CHECK(head.host == "api.example.com");
  CHECK(head.port == 443);
  CHECK(text.substr(head.size) == "rest");
  const Head v6 = parse("CONNECT [::1]:8080 HTTP/1.0\r\n\r\n");
  CHECK(v6.state == State::connect);
  CHECK(v6.host == "[::1]");
  CHECK(v6.port == 8080);
}

TEST_CASE("a head in pieces of any size is the same head") {
  const std::string text =
      "CONNECT a.example:1 HTTP/1.1\r\nHost: a.example:1\r\nProxy-Connection: keep-alive\r\n\r\n";
  for (std::size_t piece = 1; piece <= text.size(); ++piece) {
    std::size_t scanned = 0;
    std::size_t have = 0;
    Head head;
    while (have < text.size()) {
      have = std::min(have + piece, text.size());
      head = parse_head(std::string_view(text).substr(0, have), scanned);
      if (have < text.size()) {
        REQUIRE(head.state == State::more);
      }
    }
    REQUIRE(head.state == State::connect);
    REQUIRE(head.port == 1);
  }
}

TEST_CASE("any other method is told apart from a broken request") {
  for (const char* text :
       {"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", "POST / HTTP/1.1\r\n\r\n",
        "connect a.example:443 HTTP/1.1\r\n\r\n", "OPTIONS * HTTP/1.0\r\n\r\n"}) {
    INFO(text);
    CHECK(parse(text).state == State::method);
  }
}

TEST_CASE("what is no CONNECT request is refused") {
  for (const char* text : {
           "\r\n\r\n",
           " \r\n\r\n",
           "CONNECT\r\n\r\n",
           "CONNECT a.example:443\r\n\r\n",
           "CONNECT a.example:443 HTTP/2.0\r\n\r\n",
           "CONNECT a.example:443 HTTP/1.1 \r\n\r\n",
           "CONNECT  a.example:443 HTTP/1.1\r\n\r\n",
           "CONNECT a.example HTTP/1.1\r\n\r\n",
           "CONNECT :443 HTTP/1.1\r\n\r\n",
           "CONNECT a.example: HTTP/1.1\r\n\r\n",
           "CONNECT a.example:0 HTTP/1.1\r\n\r\n",
           "CONNECT a.example:0443 HTTP/1.1\r\n\r\n",
           "CONNECT a.example:65536 HTTP/1.1\r\n\r\n",
           "CONNECT a.example:+443 HTTP/1.1\r\n\r\n",
           "CONNECT a.example:4 43 HTTP/1.1\r\n\r\n",
           "CONNECT ::1:443 HTTP/1.1\r\n\r\n",
           "CONNECT [::1:443 HTTP/1.1\r\n\r\n",
           "CONNECT a.example:443:443 HTTP/1.1\r\n\r\n",
           "CONNECT a\x01.example:443 HTTP/1.1\r\n\r\n",
           "CONNECT a.example:443 HTTP/1.1\r\nHost\r\n\r\n",
           "CONNECT a.example:443 HTTP/1.1\r\n: x\r\n\r\n",
           "CONNECT a.example:443 HTTP/1.1\r\nHost : x\r\n\r\n",
           "CONNECT a.example:443 HTTP/1.1\r\n folded\r\n\r\n",
           "CONNECT a.example:443 HTTP/1.1\r\nA: b\nC: d\r\n\r\n",
           "CONNECT a.example:443 HTTP/1.1\r\nA: b\rC: d\r\n\r\n",
           "\x16\x03\x01\x02 CONNECT HTTP/1.1\r\n\r\n",
       }) {
    INFO(text);
    CHECK(parse(text).state == State::bad);
  }
  using namespace std::string_view_literals;
  CHECK(parse("CONNECT a.example\0.b:443 HTTP/1.1\r\n\r\n"sv).state == State::bad);
  CHECK(parse("CONNECT a.example:443 HTTP/1.1\r\nA: \0\r\n\r\n"sv).state == State::bad);
}

TEST_CASE("a head of 16 KiB without an end is refused, one byte less waits for more") {
  std::string text = "CONNECT a.example:443 HTTP/1.1\r\nA: ";
  text.resize(max_head - 1, 'x');
  CHECK(parse(text).state == State::more);
  text += 'x';
  CHECK(parse(text).state == State::too_large);
  text.resize(max_head * 4, 'x');
  CHECK(parse(text + "\r\n\r\n").state == State::too_large);
}
