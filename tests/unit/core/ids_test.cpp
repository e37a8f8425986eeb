#include "core/ids.hpp"

#include <catch2/catch.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <set>

#include "core/result.hpp"

using namespace hitchrail;

TEST_CASE("ids have prefix, length and alphabet, and do not repeat") {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::string id = random_id("run_", 20);
    CHECK(id.size() == 24);
    CHECK(id.find("run_") == 0);
    CHECK(id.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", 4) ==
          std::string::npos);
    seen.insert(id);
  }
  CHECK(seen.size() == 1000);
  CHECK(random_id("x", 0) == "x");
  CHECK(random_id("", 300).size() == 300);
}

TEST_CASE("times are written in UTC with milliseconds") {
  CHECK(iso8601(0) == "1970-01-01T00:00:00.000Z");
  CHECK(iso8601(1767323045678) == "2026-01-02T03:04:05.678Z");
  CHECK(iso8601(-1) == "1969-12-31T23:59:59.999Z");
}

TEST_CASE("clocks run forward") {
  const std::int64_t before = monotonic_nanos();
  CHECK(monotonic_nanos() >= before);
  CHECK(unix_millis_now() > 1'600'000'000'000);
}

TEST_CASE("a process is known by boot, pid and start time") {
  const auto self = identify_process(::getpid());
  REQUIRE(self.has_value());
  CHECK(self->boot_id.size() == 36);
  CHECK(self->start_ticks > 0);
  CHECK(*self == identify_process(::getpid()).value());
}

TEST_CASE("a command name full of parentheses and spaces does not disturb the start time") {
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    FILE* comm = ::fopen("/proc/self/comm", "w");
    ::fputs(") R 1 2 (3) 4", comm);
    ::fclose(comm);
    ::write(ready[1], "x", 1) == 1 ? ::pause() : 0;
    ::_exit(0);
  }
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  const auto mine = identify_process(::getpid());
  const auto childs = identify_process(child);
  REQUIRE(childs.has_value());
  CHECK(childs->start_ticks >= mine->start_ticks);
  CHECK(childs->start_ticks - mine->start_ticks < 100'000);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_CASE("a process that is gone is an error with the code esrch") {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  const auto gone = identify_process(child);
  REQUIRE(gone.has_error());
  CHECK(gone.error().code == "esrch");
}

TEST_CASE("errors from errno have the lower-case name and the system's sentence") {
  const Error error = errno_error("open", "/x", ENOENT);
  CHECK(error.code == "enoent");
  CHECK(error.detail == "No such file or directory");
  CHECK(error.kind == ErrorClass::environment);
  CHECK(errno_error("a", "b", 99999).code == "errno-99999");
}

TEST_CASE("every class of error has its exit code") {
  CHECK(exit_code(ErrorClass::failed) == 1);
  CHECK(exit_code(ErrorClass::usage) == 2);
  CHECK(exit_code(ErrorClass::refused) == 3);
  CHECK(exit_code(ErrorClass::environment) == 4);
  CHECK(exit_code(ErrorClass::internal) == 5);
}

TEST_CASE("reading the value of an error is a fault that names the error") {
  const Result<int> result = errno_error("open", "/secret/place", EACCES);
  CHECK_THROWS_WITH(result.value(), Catch::Contains("eacces") && Catch::Contains("/secret/place"));
}

TEST_CASE("the propagation macros return the error and hand over the value") {
  const auto half = [](int n) -> Result<int> {
    if (n % 2 != 0) {
      return errno_error("halve", std::to_string(n), EINVAL);
    }
    return n / 2;
  };
  const auto quarter = [&](int n) -> Result<int> {
    HR_TRY(h, half(n));
    HR_TRY(q, half(h));
    HR_CHECK(half(2));
    return q;
  };
  CHECK(quarter(8).value() == 2);
  CHECK(quarter(6).error().object == "3");
}
