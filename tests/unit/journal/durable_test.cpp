#include <poll.h>
#include <sys/wait.h>

#include <atomic>
#include <thread>

#include "journal_fixture.hpp"

using namespace hitchrail;
using namespace hitchrail::test;
using journal::Reader;
using journal::Writer;

namespace {

// A machine that loses power: only what a sync covered is still there.
std::string durable_image;
std::string machine_path;
bool sync_fails = false;
std::atomic<bool> sync_entered = false;
std::atomic<bool> sync_may_end = true;

int machine_sync(int fd) {
  struct stat info {};
  ::fstat(fd, &info);
  struct stat journal {};
  ::stat(machine_path.c_str(), &journal);
  sync_entered = true;
  while (!sync_may_end) {
    ::usleep(200);
  }
  if (sync_fails) {
    errno = EIO;
    return -1;
  }
  if (info.st_ino == journal.st_ino) {
    durable_image = slurp(machine_path);
  }
  return 0;
}

journal::Limits on_machine(const TempDir& at) {
  machine_path = journal_path(at);
  sync_fails = false;
  sync_entered = false;
  sync_may_end = true;
  journal::Limits limits;
  limits.sync = machine_sync;
  return limits;
}

}  // namespace

TEST_CASE("after a power loss every acknowledged event is there") {
  for (int acknowledged = 1; acknowledged < 12; ++acknowledged) {
    TempDir at;
    const auto limits = on_machine(at);
    std::uint64_t sequence = 0;
    {
      auto writer = new_journal(at, limits);
      durable_image = slurp(journal_path(at));
      for (int i = 0; i < acknowledged; ++i) {
        add(writer, record_event(static_cast<std::uint64_t>(2 * i), "1"));
        add(writer, record_event(static_cast<std::uint64_t>(2 * i + 1), "2"));
        sequence = must(writer.commit()).sequence;
      }
      add(writer, record_event(1000, "\"never acknowledged\""));
      sync_fails = true;
      CHECK(code_of(writer.commit()) == "journal-sync-failed");
    }
    spit(journal_path(at), durable_image);
    CHECK(must(journal::verify(at.fd())).events == sequence);
  }
}

TEST_CASE("after a failed sync the writer is dead and the next one goes on from what was acknowledged") {
  TempDir at;
  const auto limits = on_machine(at);
  {
    auto writer = new_journal(at, limits);
    add(writer, record_event(0, "1"));
    must(writer.commit());
    add(writer, record_event(1, "2"));
    sync_fails = true;
    CHECK(code_of(writer.commit()) == "journal-sync-failed");
    sync_fails = false;
    CHECK(code_of(writer.commit()) == "journal-writer-dead");
    Event more = record_event(2, "3");
    CHECK(code_of(writer.append(more.get(), noon)) == "journal-writer-dead");
  }
  CHECK(read_events(at.fd()).size() == 1);
  auto writer = must(Writer::open(at.fd(), 0, limits));
  add(writer, record_event(1, "2"));
  CHECK(must(writer.commit()).sequence == 2);
}

TEST_CASE("nothing is shown between the write and its sync") {
  TempDir at;
  const auto limits = on_machine(at);
  auto writer = new_journal(at, limits);
  auto reader = must(Reader::open(at.fd()));
  REQUIRE(must(reader.next()).has_value());
  sync_may_end = false;
  sync_entered = false;
  add(writer, record_event(0, "1"));
  std::thread commit([&] { (void)writer.commit(); });
  while (!sync_entered) {
    ::usleep(200);
  }
  CHECK(slurp(journal_path(at)).find("message.assistant") != std::string::npos);  // written
  CHECK_FALSE(must(reader.next()).has_value());                                   // and not shown
  CHECK_FALSE(must(reader.wait(std::chrono::milliseconds(60))));
  CHECK(must(journal::read_tail(at.fd())).sequence == 0);
  auto late = must(Reader::open(at.fd()));
  CHECK(must(late.next()).has_value());
  CHECK_FALSE(must(late.next()).has_value());
  sync_may_end = true;
  commit.join();
  CHECK(must(reader.wait(std::chrono::milliseconds(1000))));
  const auto line = must(reader.next());
  REQUIRE(line);
  CHECK(line->sequence == 1);
  CHECK(must(journal::read_tail(at.fd())).sequence == 1);
}

TEST_CASE("whole lines of a writer killed before its sync are kept and not doubled") {
  TempDir at;
  new_journal(at);
  const pid_t child = ::fork();
  if (child == 0) {
    journal::Limits limits;
    limits.sync = [](int) -> int { ::_exit(9); };
    auto writer = Writer::open(at.fd(), 0, limits);
    Event event = record_event(0, "1");
    (void)writer.value().append(event.get(), noon);
    (void)writer.value().commit();
    ::_exit(1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  REQUIRE(WEXITSTATUS(status) == 9);
  CHECK(read_events(at.fd()).size() == 1);  // the reader synced it before it showed it
  auto writer = must(Writer::open(at.fd()));
  add(writer, record_event(0, "1"));
  add(writer, record_event(1, "2"));
  CHECK(must(writer.commit()).sequence == 2);
}

TEST_CASE("a reader follows a growing journal in pieces of any size and wakes by itself") {
  TempDir source;
  {
    auto writer = new_journal(source);
    for (std::uint64_t i = 0; i < 12; ++i) {
      add(writer,
          record_event(i, "{\"s\":\"\xe2\x80\xa8 " + std::string(i * 7, 'x') + "\xf0\x9f\x98\x80\"}"));
    }
    must(writer.commit());
  }
  const std::string whole = slurp(journal_path(source));
  for (std::size_t piece : {1u, 2u, 3u, 7u, 13u, 64u, 1000u}) {
    TempDir at;
    spit(journal_path(at), "");
    REQUIRE(::chmod(journal_path(at).c_str(), 0600) == 0);
    auto reader = must(Reader::open(at.fd()));
    const Fd out(::open(journal_path(at).c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
    std::string seen;
    for (std::size_t offset = 0; offset < whole.size(); offset += piece) {
      must(write_all(out.get(), whole.substr(offset, piece)));
      for (auto line = must(reader.next()); line; line = must(reader.next())) {
        seen += std::string(line->text) + "\n";
      }
    }
    CHECK(seen == whole);
  }
}

TEST_CASE("a reader that has seen a torn tail goes on with what a successor wrote in its place") {
  TempDir at;
  std::size_t kept = 0;
  {
    auto writer = new_journal(at);
    add(writer, record_event(0, "1"));
    kept = must(writer.commit()).size;
    add(writer, record_event(1, "\"the line that will be torn, longer than its successor\""));
    must(writer.commit());
  }
  REQUIRE(::truncate(journal_path(at).c_str(), static_cast<off_t>(kept + 700)) == 0);
  auto reader = must(Reader::open(at.fd()));
  while (must(reader.next())) {
  }
  auto writer = must(Writer::open(at.fd()));
  add(writer, record_event(1, "2"));
  must(writer.commit());
  CHECK(must(reader.wait(std::chrono::milliseconds(2000))));
  const auto line = must(reader.next());
  REQUIRE(line);
  CHECK(line->payload == "{\"raw\":2}");
}

TEST_CASE("a line longer than what is read at once is read whole, one without end is damage") {
  TempDir at;
  json::Value header;
  header.set("long", std::string(400'000, 'h'));
  { must(Writer::create(at.fd(), some_identity(), header)); }
  auto reader = must(Reader::open(at.fd()));
  CHECK(must(reader.next())->text.size() > 400'000);
  spit(journal_path(at), std::string(3u << 20, 'x'));
  auto endless = must(Reader::open(at.fd()));
  CHECK(code_of(endless.next()) == "journal-damaged");
}

TEST_CASE("waiting ends when the journal grows and when the time is up") {
  TempDir at;
  auto writer = new_journal(at);
  auto reader = must(Reader::open(at.fd()));
  while (must(reader.next())) {
  }
  CHECK_FALSE(must(reader.wait(std::chrono::milliseconds(20))));
  std::thread later([&] {
    ::usleep(30'000);
    add(writer, record_event(0, "1"));
    must(writer.commit());
  });
  CHECK(must(reader.wait(std::chrono::milliseconds(5000))));
  later.join();
  CHECK(must(reader.next())->sequence == 1);
}

TEST_CASE("a full disk acknowledges nothing by halves and the next writer goes on") {
  const std::string said = on_small_disk(256 << 10, [](const std::string& mount_point) -> std::string {
    const Fd dir(::open(mount_point.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    auto created = Writer::create(dir.get(), some_identity(), json::Value());
    if (created.has_error()) {
      return created.error().code;
    }
    std::uint64_t acknowledged = 0;
    std::string code;
    {
      Writer writer = std::move(created).value();
      for (std::uint64_t i = 0; i < 2000 && code.empty(); ++i) {
        Event event = record_event(i, "\"" + std::string(3000, 'x') + "\"");
        code = code_of(writer.append(event.get(), noon));
        if (code.empty()) {
          const auto position = writer.commit();
          code = code_of(position);
          acknowledged = position.has_value() ? position.value().sequence : acknowledged;
        }
      }
    }
    if (code != "enospc") {
      return "expected enospc, got " + code;
    }
    const auto verified = journal::verify(dir.get());
    if (verified.has_error() || verified.value().events != acknowledged || verified.value().torn_bytes != 0) {
      return "the journal does not end at what was acknowledged";
    }
    return "";
  });
  CHECK(said == "");
}

TEST_CASE("a disk that is full at every size leaves a journal that opens and goes on") {
  const std::string said = on_small_disk(96 << 10, [](const std::string& mount_point) -> std::string {
    const Fd dir(::open(mount_point.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    auto created = Writer::create(dir.get(), some_identity(), json::Value());
    if (created.has_error()) {
      return created.error().code;
    }
    std::uint64_t acknowledged = 0;
    std::uint64_t offset = 0;
    std::optional<Writer> writer(std::move(created).value());
    for (int round = 0; round < 40; ++round) {
      fill_disk(mount_point);
      Event event =
          record_event(offset, "\"" + std::string(static_cast<std::size_t>(6000 + round * 37), 'x') + "\"");
      auto appended = writer->append(event.get(), noon);
      const auto position = writer->commit();
      if (position.has_value()) {
        acknowledged = position.value().sequence;
        ++offset;
      } else if (position.error().code != "enospc") {
        return "unexpected " + position.error().code;
      }
      ::unlink((mount_point + "/filler").c_str());
      writer.reset();
      auto opened = Writer::open(dir.get());
      if (opened.has_error() || opened.value().opened().position.sequence != acknowledged) {
        return "reopen after round " + std::to_string(round);
      }
      writer.emplace(std::move(opened).value());
      if (position.has_error()) {
        Event again = record_event(offset++, "1");
        appended = writer->append(again.get(), noon);
        const auto after = writer->commit();
        if (after.has_error()) {
          return "could not go on: " + after.error().code;
        }
        acknowledged = after.value().sequence;
      }
    }
    return acknowledged > 0 ? "" : "nothing was ever written";
  });
  CHECK(said == "");
}
