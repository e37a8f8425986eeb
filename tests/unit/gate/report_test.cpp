// Records on their way up, however many there are.
#include "gate/report.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>

using namespace hitchrail::gate;
using hitchrail::gatewire::Record;

namespace {

struct Pair {
  int ends[2] = {-1, -1};
  Pair() { REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends) == 0); }
  ~Pair() {
    close(ends[0]);
    close(ends[1]);
  }
  std::vector<Record> take() const {
    std::vector<Record> out;
    Record record{};
    while (recv(ends[1], &record, sizeof record, 0) == static_cast<ssize_t>(sizeof record)) {
      out.push_back(record);
    }
    return out;
  }
};

Record record_of(std::uint16_t port) {
  Record record{};
  record.reason = hitchrail::gatewire::reason_default_deny;
  record.port = port;
  record.count = 1;
  return record;
}

std::uint64_t counted(const std::vector<Record>& records) {
  std::uint64_t sum = 0;
  for (const Record& record : records) {
    sum += record.count;
  }
  return sum;
}

}  // namespace

TEST_CASE("a few decisions go up at once, one by one") {
  const Pair pair;
  Reporter reporter(pair.ends[0]);
  for (std::uint16_t port = 1; port <= 10; ++port) {
    reporter.add(record_of(port), 1000);
  }
  CHECK(pair.take().size() == 10);
  CHECK(reporter.due() == 0);
}

TEST_CASE("a flood of equal decisions becomes few records that count them all") {
  const Pair pair;
  Reporter reporter(pair.ends[0]);
  std::vector<Record> records;
  for (int i = 0; i < 100000; ++i) {
    reporter.add(record_of(80), 1000 + i / 100);
    for (const Record& record : pair.take()) {
      records.push_back(record);
    }
  }
  reporter.flush();
  for (const Record& record : pair.take()) {
    records.push_back(record);
  }
  CHECK(records.size() < 80);
  CHECK(counted(records) == 100000);
}

TEST_CASE("a flood of different decisions loses what tells them apart, and none of them") {
  const Pair pair;
  Reporter reporter(pair.ends[0]);
  std::vector<Record> records;
  for (int i = 0; i < 60000; ++i) {
    Record record = record_of(static_cast<std::uint16_t>(1 + i));
    record.allowed = i % 2 == 0 ? 1 : 0;
    reporter.add(record, 1000);
    for (const Record& each : pair.take()) {
      records.push_back(each);
    }
  }
  reporter.flush();
  for (const Record& record : pair.take()) {
    records.push_back(record);
  }
  CHECK(records.size() <= 130);
  CHECK(counted(records) == 60000);
}

TEST_CASE("a day of decisions costs a journal a few thousand records") {
  const Pair pair;
  Reporter reporter(pair.ends[0]);
  std::size_t records = 0;
  std::uint64_t decisions = 0;
  for (std::int64_t second = 1; second <= 86400; ++second) {
    for (int i = 0; i < 5; ++i) {
      reporter.add(record_of(static_cast<std::uint16_t>(1 + (second * 5 + i) % 60000)), second * 1000);
    }
    for (const Record& record : pair.take()) {
      ++records;
      decisions += record.count;
    }
  }
  reporter.flush();
  for (const Record& record : pair.take()) {
    ++records;
    decisions += record.count;
  }
  CHECK(records < 4000);
  CHECK(decisions == 86400 * 5);
}

TEST_CASE("a caller that does not read blocks nobody, and gets the counts later") {
  const Pair pair;
  Reporter reporter(pair.ends[0]);
  std::int64_t now = 1000;
  for (int i = 0; i < 50000; ++i) {
    reporter.add(record_of(static_cast<std::uint16_t>(i % 7 + 1)), now += 1000);
  }
  std::uint64_t sum = counted(pair.take());
  CHECK(sum < 50000);
  for (int i = 0; i < 100; ++i) {
    reporter.flush();
    sum += counted(pair.take());
  }
  CHECK(sum == 50000);
  CHECK_FALSE(reporter.broken());
}

TEST_CASE("a caller that is gone is noticed and harms nothing") {
  Pair pair;
  Reporter reporter(pair.ends[0]);
  close(pair.ends[1]);
  pair.ends[1] = -1;
  reporter.add(record_of(1), 1000);
  CHECK(reporter.broken());
}
