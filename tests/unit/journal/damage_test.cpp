#include <sys/stat.h>

#include "journal_fixture.hpp"

using namespace hitchrail;
using namespace hitchrail::test;
using journal::Reader;
using journal::Writer;

namespace {

// A journal of a header and three events; gives its bytes and where each line ends.
std::string small_journal(const TempDir& at, std::vector<std::size_t>& ends) {
  {
    auto writer = new_journal(at);
    add(writer, Event("run.started").host("run.started"));
    add(writer, record_event(0, R"({"text":"caf)"
                                "\xc3\xa9"
                                R"( \"}"})"));
    add(writer, delta(1, "x"));
    add(writer, delta(2, "y"));
    must(writer.commit());
  }
  const std::string bytes = slurp(journal_path(at));
  for (std::size_t end = bytes.find('\n'); end != std::string::npos; end = bytes.find('\n', end + 1)) {
    ends.push_back(end + 1);
  }
  return bytes;
}

}  // namespace

TEST_CASE("a torn tail is cut once and reported, at every byte offset of the file") {
  TempDir at;
  std::vector<std::size_t> ends;
  const std::string whole = small_journal(at, ends);
  REQUIRE(ends.size() == 4);
  for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
    spit(journal_path(at), whole.substr(0, cut));
    std::size_t lines = 0;
    while (lines < ends.size() && ends[lines] <= cut) {
      ++lines;
    }
    auto opened = Writer::open(at.fd());
    if (lines ==
        0) {  // a journal is given its name when its header is whole and durable: this is no torn write
      REQUIRE(code_of(opened) == "journal-damaged");
      continue;
    }
    const std::size_t kept = ends[lines - 1];
    {
      Writer writer = must(std::move(opened));
      REQUIRE(writer.opened().torn_tail_cut == (cut != kept));
      REQUIRE(writer.opened().torn_bytes == cut - kept);
      REQUIRE(writer.opened().position.sequence == lines - 1);
      add(writer, record_event(1000, "\"new\""));
      REQUIRE(must(writer.commit()).sequence == lines);
    }
    {
      const Writer again = must(Writer::open(at.fd()));
      REQUIRE_FALSE(again.opened().torn_tail_cut);
      REQUIRE(again.opened().position.sequence == lines);
    }
    REQUIRE(slurp(journal_path(at)).substr(0, kept) == whole.substr(0, kept));
    REQUIRE(must(journal::verify(at.fd())).events == lines);
  }
}

TEST_CASE("every changed byte is detected by writer, reader and verify") {
  TempDir at;
  std::vector<std::size_t> ends;
  const std::string whole = small_journal(at, ends);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (const int mask :
         {0x01, 0x20, 0x80, whole[i] ^ '\n', static_cast<int>(static_cast<unsigned char>(whole[i]))}) {
      if (mask == 0) {
        continue;
      }
      std::string changed = whole;
      changed[i] = static_cast<char>(changed[i] ^ mask);
      spit(journal_path(at), changed);
      INFO("byte " << i << " mask " << mask);
      REQUIRE(code_of(Writer::open(at.fd())) == "journal-damaged");
      REQUIRE(code_of(journal::verify(at.fd())) == "journal-damaged");
      REQUIRE(slurp(journal_path(at)) == changed);
    }
  }
}

TEST_CASE("lines that are removed, repeated or exchanged are detected") {
  TempDir at;
  std::vector<std::size_t> ends;
  const std::string whole = small_journal(at, ends);
  const std::string header = whole.substr(0, ends[0]);
  const std::string one = whole.substr(ends[0], ends[1] - ends[0]);
  const std::string two = whole.substr(ends[1], ends[2] - ends[1]);
  const std::string three = whole.substr(ends[2]);
  for (const std::string& changed :
       {header + two + three, one + two, header + one + one + two, header + two + one + three,
        header + header + one, std::string("\n") + whole, whole + "\n"}) {
    spit(journal_path(at), changed);
    CHECK(code_of(Writer::open(at.fd())) == "journal-damaged");
    auto reader = must(Reader::open(at.fd()));
    std::string code;
    for (int i = 0; i < 8 && code.empty(); ++i) {
      code = code_of(reader.next());
    }
    CHECK(code == "journal-damaged");
  }
}

TEST_CASE("the error of a damaged journal names line and byte") {
  TempDir at;
  std::vector<std::size_t> ends;
  std::string whole = small_journal(at, ends);
  whole[ends[1] + 5] ^= 1;
  spit(journal_path(at), whole);
  const auto opened = Writer::open(at.fd());
  REQUIRE(code_of(opened) == "journal-damaged");
  CHECK_THAT(opened.error().detail, Catch::Contains("line 2 at byte " + std::to_string(ends[1])));
}

TEST_CASE("a journal that is a link, another's hard link, writable by others or no file is refused") {
  TempDir at;
  std::vector<std::size_t> ends;
  small_journal(at, ends);
  const std::string path = journal_path(at);
  REQUIRE(::rename(path.c_str(), (at / "real").c_str()) == 0);
  REQUIRE(::symlink("real", path.c_str()) == 0);
  CHECK(code_of(Writer::open(at.fd())) == "journal-unsafe");
  CHECK(code_of(Reader::open(at.fd())) == "journal-unsafe");
  CHECK(code_of(Writer::create(at.fd(), some_identity(), json::Value())) == "journal-exists");
  ::unlink(path.c_str());
  REQUIRE(::link((at / "real").c_str(), path.c_str()) == 0);
  CHECK(code_of(Writer::open(at.fd())) == "journal-unsafe");
  ::unlink((at / "real").c_str());
  REQUIRE(::chmod(path.c_str(), 0666) == 0);
  CHECK(code_of(Writer::open(at.fd())) == "journal-unsafe");
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
  CHECK(code_of(Writer::open(at.fd())) == "");
  ::unlink(path.c_str());
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK(code_of(Writer::open(at.fd())) == "journal-unsafe");
  ::unlink(path.c_str());
  CHECK(code_of(Writer::open(at.fd())) == "journal-absent");
}

TEST_CASE("a second writer is refused while the first lives") {
  TempDir at;
  {
    auto writer = new_journal(at);
    CHECK(code_of(Writer::open(at.fd())) == "journal-locked");
  }
  CHECK(code_of(Writer::open(at.fd())) == "");
}
