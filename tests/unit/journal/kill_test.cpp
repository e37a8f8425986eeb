#include <signal.h>
#include <sys/wait.h>

#include <random>

#include "journal_fixture.hpp"

using namespace hitchrail;
using namespace hitchrail::test;
using journal::Writer;

namespace {

constexpr std::uint64_t total = 400;

// What a runner does: records in order, a commit now and then, from wherever the last published position was.
void feed(int attempt_dirfd, std::uint64_t published, std::uint64_t from, int seed, int report) {
  auto opened = Writer::open(attempt_dirfd, published);
  if (opened.has_error()) {
    ::_exit(3);
  }
  Writer writer = std::move(opened).value();
  std::minstd_rand random(static_cast<unsigned>(seed));
  for (std::uint64_t i = from; i < total; ++i) {
    Event event =
        i % 3 == 0 ? record_event(i, "{\"n\":" + std::to_string(i) + "}") : delta(i, std::to_string(i) + ",");
    if (i % 50 == 7) {
      event.with_raw("\"" + std::string(9000 + i, 'x') + "\"");
      event.draft.mergeable = false;
    }
    if (writer.append(event.get(), noon).has_error()) {
      ::_exit(4);
    }
    if (random() % 5 == 0 || i + 1 == total) {
      const auto position = writer.commit();
      if (position.has_error()) {
        ::_exit(5);
      }
      const std::uint64_t slot[2] = {position.value().origins_from, i + 1};
      (void)!::write(report, slot, sizeof slot);
    }
  }
  ::_exit(0);
}

struct Slot {  // what a shim remembers of a runner's commit
  std::uint64_t origins_from = 0;
  std::uint64_t next = 0;
};

// One writer's life, ended by SIGKILL after a random time when `random` is given; its wait status.
int live_once(int attempt_dirfd, Slot& slot, int life, std::minstd_rand* random,
              const std::function<bool(const Slot&)>& publishes) {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    feed(attempt_dirfd, slot.origins_from, slot.next, life, ends[1]);
  }
  ::close(ends[1]);
  if (random != nullptr) {
    ::usleep(static_cast<useconds_t>((*random)() % 9000));
    ::kill(child, SIGKILL);
  }
  Slot now;
  while (::read(ends[0], &now, sizeof now) == static_cast<ssize_t>(sizeof now)) {
    if (publishes(now)) {
      slot = now;
    }
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

std::string joined(int attempt_dirfd) {
  std::string out;
  std::string text;
  for (const auto& event : read_events(attempt_dirfd)) {
    const bool is_delta = event.get("kind").as_string() == "message.delta" &&
                          event.get("payload").find("raw") == nullptr &&
                          event.get("payload").find("spilled") == nullptr;
    if (is_delta) {
      text += event.get("payload").get("text").as_string();
      continue;
    }
    out += text + "|" +
           must(journal::whole_payload(attempt_dirfd, json::write(event.get("payload")))).substr(0, 40) +
           "\n";
    text.clear();
  }
  return out + text;
}

}  // namespace

TEST_CASE("a writer killed a hundred times anywhere loses and doubles nothing") {
  TempDir whole;
  new_journal(whole);
  Slot slot;
  REQUIRE(live_once(whole.fd(), slot, 1, nullptr, [](const Slot&) { return true; }) == 0);
  const std::string expected = joined(whole.fd());

  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::minstd_rand random(seed);
  int kills = 0;
  for (int round = 0; kills < 100; ++round) {
    REQUIRE(round < 20000);  // on a fast disk most lives end before the signal
    TempDir at;
    new_journal(at);
    slot = {};
    for (int life = 0; slot.next < total; ++life) {
      REQUIRE(life < 1000);
      // Published late or not at all: the successor goes on from an older position than the journal's.
      const auto publishes = [&random](const Slot& now) { return random() % 3 != 0 || now.next == total; };
      const int status = live_once(at.fd(), slot, life, kills < 100 ? &random : nullptr, publishes);
      REQUIRE((status == 0 || WIFSIGNALED(status)));
      kills += WIFSIGNALED(status);
    }
    REQUIRE(joined(at.fd()) == expected);
    must(journal::verify(at.fd()));
  }
}
