#include "runner/framing.hpp"

#include <hitchrail/adapter.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

using namespace hitchrail::runner;

namespace {

struct Seen {
  std::uint64_t offset;
  std::uint32_t flags;
  std::string bytes;
  bool operator==(const Seen&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Seen& seen) {
  return out << seen.offset << "/" << seen.flags << "/" << seen.bytes;
}

StreamConfig config(std::uint32_t framing, std::uint32_t overflow = HR_OVERFLOW_FAIL,
                    std::uint32_t cap = 1u << 20) {
  return {1, framing, overflow, cap};
}

struct Result {
  std::vector<Seen> records;
  Framer::Step last = Framer::Step::more;
  std::vector<std::uint64_t> dropped;
};

// Bytes arrive in pieces that end at `cuts`; a new framer takes over at each cut where `restart` says so,
// from what a slot keeps.
Result frame(const StreamConfig& how, const std::string& stream, std::vector<std::size_t> cuts,
             bool restart = false, std::uint32_t end_flags = 0) {
  Result result;
  Framer framer(how);
  framer.restore(0, false, 0);
  cuts.push_back(stream.size());
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    const bool eof = i + 1 == cuts.size();
    for (bool again = true; again;) {
      const auto at = static_cast<std::size_t>(framer.position());
      result.last = framer.next(std::string_view(stream).substr(at, cuts[i] - at), eof, end_flags);
      again = result.last == Framer::Step::record || result.last == Framer::Step::dropped;
      if (result.last == Framer::Step::record) {
        result.records.push_back(
            {framer.record().offset, framer.record().flags, std::string(framer.record().bytes)});
        framer.accept();
      } else if (result.last == Framer::Step::dropped) {
        result.dropped.push_back(framer.dropped().bytes);
      }
    }
    if (restart && !eof) {
      Framer next(how);
      next.restore(framer.position(), framer.discarding(), framer.discard_start());
      framer = next;
    }
  }
  return result;
}

std::vector<std::size_t> pieces(std::size_t total, std::size_t size) {
  std::vector<std::size_t> cuts;
  for (std::size_t at = size; at < total; at += size) {
    cuts.push_back(at);
  }
  return cuts;
}

// U+2028, U+2029, a four-byte character, CR, NUL, an empty line, invalid UTF-8, and no line feed at the end.
const std::string golden =
    std::string("{\"a\":1}\n{\"t\":\"x\xe2\x80\xa8y\xe2\x80\xa9z\"}\r\n\n\xf0\x9f\x9a\x82 train\n") +
    std::string("nul\0byte\n", 9) + "\xff\xfe\nlast without its line feed";

std::string framed(const std::string& body) {
  return "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

}  // namespace

TEST_CASE("lines end at the line feed only") {
  const auto got = frame(config(HR_FRAME_LINES), golden, {});
  REQUIRE(got.records.size() == 7);
  CHECK(got.records[1].bytes == "{\"t\":\"x\xe2\x80\xa8y\xe2\x80\xa9z\"}\r");
  CHECK(got.records[2].bytes.empty());
  CHECK(got.records[4].bytes == std::string("nul\0byte", 8));
  CHECK(got.records[6].flags == HR_RECORD_UNTERMINATED);
  CHECK(got.records[6].bytes == "last without its line feed");
  CHECK(got.last == Framer::Step::done);
}

TEST_CASE("any chunking of a stream gives the same records, with and without a restart at each cut") {
  struct Case {
    const char* name;
    StreamConfig how;
    std::string stream;
  };
  const std::vector<Case> cases = {
      {"lines", config(HR_FRAME_LINES), golden},
      {"lines, truncated", config(HR_FRAME_LINES, HR_OVERFLOW_TRUNCATE, 6), golden},
      {"lines, exactly at the cap", config(HR_FRAME_LINES, HR_OVERFLOW_FAIL, 7), "1234567\n1234567\n1"},
      {"whole", config(HR_FRAME_WHOLE), golden},
      {"whole, truncated", config(HR_FRAME_WHOLE, HR_OVERFLOW_TRUNCATE, 11), golden},
      {"content-length", config(HR_FRAME_CONTENT_LENGTH),
       framed("{\"a\":\"\xf0\x9f\x9a\x82\"}") + framed("") + framed("two\nlines") + "Content-L"},
      {"content-length, truncated", config(HR_FRAME_CONTENT_LENGTH, HR_OVERFLOW_TRUNCATE, 4),
       framed("123456789") + framed("12")},
  };
  for (const auto& item : cases) {
    INFO(item.name);
    const auto whole = frame(item.how, item.stream, {});
    for (std::size_t size = 1; size <= 64; ++size) {
      for (const bool restart : {false, true}) {
        const auto got = frame(item.how, item.stream, pieces(item.stream.size(), size), restart);
        REQUIRE(got.records == whole.records);
        REQUIRE(got.dropped == whole.dropped);
        REQUIRE(got.last == whole.last);
      }
    }
    for (std::size_t cut = 0; cut <= item.stream.size(); ++cut) {
      REQUIRE(frame(item.how, item.stream, {cut}, true).records == whole.records);
    }
  }
}

TEST_CASE("a random stream cut at random gives the same lines") {
  std::mt19937_64 random(20260102);
  for (int round = 0; round < 200; ++round) {
    std::string stream;
    for (std::size_t i = random() % 3000; i > 0; --i) {
      stream.push_back(random() % 9 == 0 ? '\n' : static_cast<char>(random() % 256));
    }
    std::vector<std::size_t> cuts;
    for (std::size_t at = 0; at < stream.size(); at += 1 + random() % 200) {
      cuts.push_back(at);
    }
    const auto how = config(HR_FRAME_LINES, HR_OVERFLOW_TRUNCATE, 20);
    const auto whole = frame(how, stream, {});
    const auto got = frame(how, stream, cuts, true);
    REQUIRE(got.records == whole.records);
    REQUIRE(got.dropped == whole.dropped);
  }
}

TEST_CASE("a line over the cap fails, or is cut and its rest counted") {
  CHECK(frame(config(HR_FRAME_LINES, HR_OVERFLOW_FAIL, 4), "1234\n", {}).records ==
        std::vector<Seen>{{0, 0, "1234"}});
  CHECK(frame(config(HR_FRAME_LINES, HR_OVERFLOW_FAIL, 4), "12345", {}).last == Framer::Step::too_long);
  const auto cut = frame(config(HR_FRAME_LINES, HR_OVERFLOW_TRUNCATE, 4), "123456789\nab\n", {});
  CHECK(cut.records == std::vector<Seen>{{0, HR_RECORD_TRUNCATED, "1234"}, {10, 0, "ab"}});
  CHECK(cut.dropped == std::vector<std::uint64_t>{5});
  const auto open = frame(config(HR_FRAME_LINES, HR_OVERFLOW_TRUNCATE, 4), "123456789", {});
  CHECK(open.dropped == std::vector<std::uint64_t>{5});
  CHECK(open.last == Framer::Step::done);
}

TEST_CASE("chunks end where arrivals end, but never inside a character") {
  const auto how = config(HR_FRAME_CHUNKS);
  CHECK(frame(how,
              "ab\xf0\x9f\x9a\x82"
              "cd",
              {1, 4, 7})
            .records == std::vector<Seen>{{0, 0, "a"},
                                          {1, 0, "b"},
                                          {2, 0,
                                           "\xf0\x9f\x9a\x82"
                                           "c"},
                                          {7, 0, "d"}});
  // What can never become a character is not held back, and the end of the stream gives all.
  CHECK(frame(how,
              "a\xff"
              "b",
              {2})
            .records == std::vector<Seen>{{0, 0, "a\xff"}, {2, 0, "b"}});
  CHECK(frame(how, "a\xe2\x80", {}).records == std::vector<Seen>{{0, 0, "a\xe2\x80"}});
  CHECK(frame(config(HR_FRAME_CHUNKS, HR_OVERFLOW_TRUNCATE, 3),
              "ab\xc3\xa4"
              "c",
              {})
            .records == std::vector<Seen>{{0, 0, "ab"},
                                          {2, 0,
                                           "\xc3\xa4"
                                           "c"}});
}

TEST_CASE("chunks are the same again when arrivals are sent again") {
  const std::string stream =
      "x\xf0\x9f\x9a\x82y\xe2\x82\xac"
      "zz\xc3";
  for (std::size_t a = 0; a <= stream.size(); ++a) {
    for (std::size_t b = a; b <= stream.size(); ++b) {
      const auto how = config(HR_FRAME_CHUNKS);
      REQUIRE(frame(how, stream, {a, b}, true).records == frame(how, stream, {a, b}, false).records);
    }
  }
}

TEST_CASE("a whole stream is one record, also when it is empty") {
  CHECK(frame(config(HR_FRAME_WHOLE), "", {}).records == std::vector<Seen>{{0, 0, ""}});
  CHECK(frame(config(HR_FRAME_LINES), "", {}).records.empty());
  CHECK(frame(config(HR_FRAME_WHOLE), "abc", {}, false, HR_RECORD_TRUNCATED).records ==
        std::vector<Seen>{{0, HR_RECORD_TRUNCATED, "abc"}});
}

TEST_CASE("an absent file is one absent record whatever the framing") {
  for (const std::uint32_t framing :
       {HR_FRAME_LINES, HR_FRAME_CHUNKS, HR_FRAME_WHOLE, HR_FRAME_CONTENT_LENGTH}) {
    CHECK(frame(config(framing), "", {}, false, HR_RECORD_ABSENT).records ==
          std::vector<Seen>{{0, HR_RECORD_ABSENT, ""}});
  }
}

TEST_CASE("content-length frames are read in any case of letters and refused when broken") {
  const auto how = config(HR_FRAME_CONTENT_LENGTH, HR_OVERFLOW_FAIL, 100);
  CHECK(frame(how, "Content-Type: x\r\ncontent-LENGTH:  3\r\n\r\nabc", {}).records.at(0).bytes == "abc");
  CHECK(frame(how, "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", {}).last == Framer::Step::malformed);
  CHECK(frame(how, "Content-Length: -3\r\n\r\nabc", {}).last == Framer::Step::malformed);
  CHECK(frame(how, "Content-Length: 99999999999999999999\r\n\r\nabc", {}).last == Framer::Step::malformed);
  CHECK(frame(how, "Hello: 3\r\n\r\nabc", {}).last == Framer::Step::malformed);
  CHECK(frame(how, std::string(9000, 'x'), {}).last == Framer::Step::malformed);
  CHECK(frame(how, framed(std::string(101, 'x')), {}).last == Framer::Step::too_long);
  CHECK(frame(how, "Content-Length: 9\r\n\r\nabc", {}).records ==
        std::vector<Seen>{{0, HR_RECORD_UNTERMINATED, "abc"}});
}
