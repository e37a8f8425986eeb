#include "journal_fixture.hpp"

using namespace hitchrail;
using namespace hitchrail::test;
using journal::Writer;

namespace {

std::string joined_text(int attempt_dirfd) {
  std::string text;
  for (const auto& event : read_events(attempt_dirfd)) {
    if (event.get("kind").as_string() == "message.delta") {
      text += event.get("payload").get("text").as_string();
    }
  }
  return text;
}

}  // namespace

TEST_CASE("adjacent deltas of one commit are joined and keep their parts' origins and lengths") {
  TempDir at;
  auto writer = new_journal(at);
  add(writer, delta(0, "Hel"));
  add(writer, delta(10, "lo \xc3\xa4"));
  add(writer, delta(20, "!"));
  must(writer.commit());
  const auto events = read_events(at.fd());
  REQUIRE(events.size() == 1);
  CHECK(events[0].get("payload").get("text").as_string() == "Hello \xc3\xa4!");
  const auto& parts = events[0].get("origin").get("parts").items();
  REQUIRE(parts.size() == 3);
  CHECK(parts[1].get("offset").as_int() == 10);
  CHECK(parts[0].get("length").as_int() == 3);
  CHECK(parts[1].get("length").as_int() == 5);
  CHECK(parts[2].get("length").as_int() == 1);
}

TEST_CASE("a join ends at another item, another kind, a commit and 4 KiB") {
  TempDir at;
  auto writer = new_journal(at);
  add(writer, delta(0, "a"));
  add(writer, delta(1, "b", "item_2"));
  add(writer, record_event(2, "1"));
  add(writer, delta(3, "c"));
  must(writer.commit());
  add(writer, delta(4, "d"));
  must(writer.commit());
  CHECK(read_events(at.fd()).size() == 5);
  for (std::uint64_t i = 0; i < 100; ++i) {
    add(writer, delta(100 + i, std::string(100, 'x')));
  }
  must(writer.commit());
  const auto events = read_events(at.fd());
  CHECK(events.size() > 6);
  CHECK(events.size() < 12);
  for (const auto& event : events) {
    CHECK(json::write(event.get("payload")).size() <= 8192);
  }
}

TEST_CASE("joined deltas keep every raw record") {
  TempDir at;
  auto writer = new_journal(at);
  add(writer, delta(0, "a").with_raw(R"({"d":"a"})"));
  add(writer, delta(9, "b").with_raw(R"({"d":"b"})"));
  must(writer.commit());
  CHECK(json::write(read_events(at.fd())[0].get("payload")) ==
        R"({"text":"ab","raws":[{"d":"a"},{"d":"b"}]})");
}

TEST_CASE("a lone mergeable event is an ordinary one") {
  TempDir at;
  auto writer = new_journal(at);
  add(writer, delta(0, "a").with_raw("1"));
  must(writer.commit());
  const auto events = read_events(at.fd());
  CHECK(json::write(events[0].get("origin")) == R"({"stream":1,"offset":0,"ordinal":0})");
  CHECK(json::write(events[0].get("payload")) == R"({"text":"a","raw":1})");
}

TEST_CASE("a successor whose batches end elsewhere neither repeats nor loses a part") {
  const std::string whole = "abcdefghijkl";
  for (std::size_t first = 1; first <= whole.size(); ++first) {
    for (std::size_t resume = 0; resume <= first; ++resume) {
      TempDir at;
      std::uint64_t published = 0;
      {
        auto writer = new_journal(at);
        published = must(writer.commit()).size;
        for (std::size_t i = 0; i < first; ++i) {
          add(writer, delta(i, whole.substr(i, 1)));
          if (i + 1 == resume) {
            published = must(writer.commit()).size;
          }
        }
        must(writer.commit());
      }
      auto writer = must(Writer::open(at.fd(), published));
      for (std::size_t i = resume; i < whole.size(); ++i) {
        add(writer, delta(i, whole.substr(i, 1)));
        if (i % 5 == 0) {
          must(writer.commit());
        }
      }
      must(writer.commit());
      REQUIRE(joined_text(at.fd()) == whole);
    }
  }
}

TEST_CASE("another text of a known part is reported") {
  TempDir at;
  {
    auto writer = new_journal(at);
    add(writer, delta(0, "a"));
    add(writer, delta(1, "b"));
    must(writer.commit());
  }
  auto writer = must(Writer::open(at.fd()));
  add(writer, delta(1, "B"));
  must(writer.commit());
  CHECK(read_events(at.fd()).back().get("kind").as_string() == "adapter-nondeterministic");
  CHECK(joined_text(at.fd()) == "ab");
}
