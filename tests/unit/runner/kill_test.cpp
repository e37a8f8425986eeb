// SIGKILL of the runner at random points: the journal and what the harness got are those of a run that was
// not killed.

#include <hitchrail/adapter.h>
#include <time.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <random>
#include <string>

#include "fake_shim.hpp"

using namespace hitchrail;
using namespace hitchrail::test;

namespace {

constexpr int kills_wanted = 100;

std::uint64_t seed() {
  const char* given = std::getenv("HITCHRAIL_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
}

std::string line(std::mt19937_64& random, int number) {
  const std::string n = std::to_string(number);
  switch (random() % 12) {
    case 0:
      return R"({"type":"ask","id":)" + n + "}\n";
    case 1:
      return R"({"type":"message","text":"m)" + n + "\"}\n";
    case 2:
      return "garbage " + n + "\n";
    case 3:
      return R"({"type":"turn","id":"turn-)" + std::to_string(number / 40) + "\"}\n";
    case 4:
      return R"({"type":"delta","item":"big","text":")" + std::string(random() % 60'000, 'b') + "\"}\n";
    case 5:
      return R"({"type":"call","id":)" + n + "}\n";
    default:
      return R"({"type":"delta","item":"i)" + std::to_string(number / 7 % 3) + R"(","text":"d)" + n +
             " \xe2\x82\xac\"}\n";
  }
}

// One round of what happens: bytes cut anywhere, on both streams, and now and then an input.
void happen(FakeShim& shim, std::mt19937_64& random, int& number, std::string& carry) {
  std::string bytes = carry;
  const int lines = static_cast<int>(random() % 30);
  for (int i = 0; i < lines; ++i) {
    bytes += line(random, number++);
  }
  carry.clear();
  while (!bytes.empty()) {
    const std::size_t size = 1 + random() % 3000;
    if (bytes.size() <= size && random() % 2 == 0) {
      carry = bytes;  // the rest of this record comes with the next round
      break;
    }
    shim.arrive(1, bytes.substr(0, size));
    bytes.erase(0, std::min(size, bytes.size()));
    if (random() % 4 == 0) {
      shim.arrive(2, "stderr \xf0\x9f\x9a\x82 " + std::to_string(number) + std::string(random() % 2, '\n'));
    }
    if (random() % 16 == 0) {
      shim.control(HR_CONTROL_STEER, "steer " + std::to_string(number));
    }
  }
}

void play(FakeShim& shim, std::uint64_t script_seed, const std::function<void()>& after_round) {
  std::mt19937_64 random(script_seed);
  int number = 0;
  std::string carry;
  for (int round = 0; round < kills_wanted; ++round) {
    happen(shim, random, number, carry);
    after_round();
  }
  shim.arrive(1, carry + "\n{\"type\":\"done\",\"status\":\"success\",\"summary\":\"s\"}");
  shim.exit_and_end();
}

}  // namespace

TEST_CASE("a hundred kills change neither the journal nor what the harness was sent") {
  const std::uint64_t script_seed = seed();
  INFO("HITCHRAIL_SEED=" << script_seed);
  std::cout << "kill test: HITCHRAIL_SEED=" << script_seed << "\n";
  ShimSetup setup;
  setup.config = script_config();
  setup.config.streams[1] = {2, HR_FRAME_CHUNKS, HR_OVERFLOW_TRUNCATE, 4096};

  FakeShim calm(setup);
  play(calm, script_seed, [] {});
  calm.start();
  REQUIRE(calm.run() == "done");

  FakeShim killed(setup);
  std::mt19937_64 when(script_seed + 1);
  int kills = 0;
  int idle = 0;
  int unpublished = 0;
  play(killed, script_seed, [&] {
    const std::uint64_t before = killed.slot().generation;
    killed.start();
    // A quarter dies anywhere from the exec on; the others after their first hook, so that slow builds kill
    // work, too.
    const std::uint64_t hooks = killed.area().current.count;
    const bool early = when() % 4 == 0;
    while (!early && killed.alive() && killed.area().current.count == hooks) {
      killed.step(1);
    }
    const auto turns = when() % 12;
    for (std::uint64_t i = 0; i < turns && killed.alive(); ++i) {
      killed.step(static_cast<int>(when() % 4));
    }
    const timespec pause{0, static_cast<long>(when() % 3'000'000)};
    ::nanosleep(&pause, nullptr);
    REQUIRE(killed.alive());
    const std::uint64_t generation = killed.slot().generation;
    killed.kill();
    ++kills;
    idle += generation == before ? 1 : 0;
    unpublished +=
        std::filesystem::file_size(killed.path() + "/journal.jsonl") > killed.slot().journal_size ? 1 : 0;
  });
  std::cout << "kill test: " << idle << " kills before the first commit, " << unpublished
            << " between journal and slot\n";
  killed.start();
  REQUIRE(killed.run() == "done");

  CHECK(kills == kills_wanted);
  CHECK(idle < 90);         // most kills hit a runner at work,
  CHECK(unpublished > 10);  // and many between two of the five steps
  CHECK(killed.sent_to_harness == calm.sent_to_harness);
  const auto expected = comparable_journal(calm.attempt());
  const auto found = comparable_journal(killed.attempt());
  for (std::size_t i = 0; i < std::min(expected.size(), found.size()); ++i) {
    if (expected[i] != found[i]) {
      FAIL("event " << i << " differs:\n" << expected[i].substr(0, 600) << "\n" << found[i].substr(0, 600));
    }
  }
  CHECK(found.size() == expected.size());
  CHECK(expected.size() > 300);
}
