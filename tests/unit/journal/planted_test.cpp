// PB-25: where the journal is to be, or a directory on its way, somebody has put a link before.
#include <sys/stat.h>

#include "unit/journal/journal_fixture.hpp"

namespace hitchrail::journal {
namespace {

using namespace test;

// A directory with files of the same names, which must stay as they are.
struct Victim {
  Victim() {
    for (const char* name : {"/journal.jsonl", "/precious"}) {
      spit(at / ("victim" + std::string(name)), "precious");
    }
  }
  [[nodiscard]] bool whole() const {
    return slurp(at / "victim/journal.jsonl") == "precious" && slurp(at / "victim/precious") == "precious" &&
           must(list_directory(must(open_at(at.fd(), "victim", O_RDONLY | O_DIRECTORY)).get())).size() == 2;
  }
  struct Made {
    Made() { REQUIRE(::mkdir((top / "victim").c_str(), 0700) == 0); }
    [[nodiscard]] std::string operator/(const std::string& name) const { return top / name; }
    [[nodiscard]] int fd() const { return top.fd(); }
    TempDir top;
  } at;
};

TEST_CASE("PB-25: a journal that is a link, to a file or to nothing, is neither opened nor written through") {
  for (const char* target : {"../victim/journal.jsonl", "../victim/none", "/etc/hostname"}) {
    INFO(target);
    const Victim victim;
    REQUIRE(::mkdir((victim.at / "attempt").c_str(), 0700) == 0);
    REQUIRE(::symlink(target, (victim.at / "attempt/journal.jsonl").c_str()) == 0);
    const Fd attempt = must(open_at(victim.at.fd(), "attempt", O_RDONLY | O_DIRECTORY));
    CHECK(code_of(Writer::create(attempt.get(), some_identity(), json::Value())) == "journal-exists");
    CHECK(code_of(Writer::open(attempt.get())) == "journal-unsafe");
    CHECK(code_of(Reader::open(attempt.get())) == "journal-unsafe");
    CHECK(victim.whole());
  }
}

TEST_CASE("PB-25: the name under which a journal is first made is never written through a link") {
  const Victim victim;
  REQUIRE(::mkdir((victim.at / "attempt").c_str(), 0700) == 0);
  const Fd attempt = must(open_at(victim.at.fd(), "attempt", O_RDONLY | O_DIRECTORY));
  { auto writer = must(Writer::create(attempt.get(), some_identity(), json::Value())); }
  REQUIRE(::symlink("../victim/precious", (victim.at / "attempt/.journal.new").c_str()) == 0);
  REQUIRE(::unlink((victim.at / "attempt/journal.jsonl").c_str()) == 0);
  { auto writer = must(Writer::create(attempt.get(), some_identity(), json::Value())); }
  struct stat st {};
  REQUIRE(::lstat((victim.at / "attempt/journal.jsonl").c_str(), &st) == 0);
  CHECK(S_ISREG(st.st_mode));
  CHECK(victim.whole());
}

TEST_CASE("PB-25: a spill directory that is a link is refused, for a new journal and for one that is there") {
  const Victim victim;
  REQUIRE(::mkdir((victim.at / "attempt").c_str(), 0700) == 0);
  const Fd attempt = must(open_at(victim.at.fd(), "attempt", O_RDONLY | O_DIRECTORY));
  REQUIRE(::symlink("../victim", (victim.at / "attempt/spill").c_str()) == 0);
  CHECK(code_of(Writer::create(attempt.get(), some_identity(), json::Value())) == "eloop");
  REQUIRE(::unlink((victim.at / "attempt/spill").c_str()) == 0);
  { auto writer = must(Writer::create(attempt.get(), some_identity(), json::Value())); }
  REQUIRE(::rename((victim.at / "attempt/spill").c_str(), (victim.at / "attempt/aside").c_str()) == 0);
  REQUIRE(::symlink("../victim", (victim.at / "attempt/spill").c_str()) == 0);
  CHECK(code_of(Writer::open(attempt.get())) == "eloop");
  CHECK(victim.whole());
}

}  // namespace
}  // namespace hitchrail::journal
