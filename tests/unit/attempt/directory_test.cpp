#include <sys/stat.h>

#include "attempt/names.hpp"
#include "attempt_fixture.hpp"

using namespace hitchrail;
using namespace hitchrail::test;
using attempt::Builder;
using attempt::Directory;

TEST_CASE("an attempt directory appears whole: header, documents, token, exit slot, reserve, folders") {
  TempDir state;
  const std::string id = attempt::new_attempt_id();
  CHECK(id.size() == std::string("attempt_").size() + 18);
  auto builder = must(Builder::begin(state.fd(), new_attempt(id)));
  CHECK(must(attempt::list_ids(state.fd())).empty());
  CHECK(code_of(Directory::open(state.fd(), id)) == "attempt-not-found");
  must(builder.publish());
  const Directory directory = must(Directory::open(state.fd(), id));
  CHECK(directory.id() == id);
  CHECK(directory.header().get("schemaVersion").as_string() == "attempt-header/v1");
  CHECK(directory.header().get("worktree").as_string() == "/srv/tree");
  CHECK(directory.header().get("taskEnvelopeDigest").as_string() == "sha256:aa");
  CHECK(must(list_directory(directory.fd())) == std::vector<std::string>{"exit", "git", "header.json", "home",
                                                                         "lock", "manifests", "reserve",
                                                                         "spill", "temp", "token"});
  const std::string base = state / ("attempts/" + id);
  struct stat info {};
  for (const std::string& name : must(list_directory(directory.fd()))) {
    REQUIRE(::stat((base + "/" + name).c_str(), &info) == 0);
    CHECK((info.st_mode & 0077) == 0);
  }
  CHECK(slurp(base + "/token").size() == wire::token_size);
  CHECK(slurp(base + "/manifests/task-envelope.json") == "{}");
  REQUIRE(::stat((base + "/reserve").c_str(), &info) == 0);
  CHECK(static_cast<std::size_t>(info.st_blocks) * 512 >= attempt::reserve_bytes);
  CHECK(must(attempt::read_exit_slot(directory.fd())).state == wire::exit_prepared);
}

TEST_CASE("a builder that is given up leaves nothing, one that is killed leaves only a name nobody lists") {
  TempDir state;
  const std::string id = "attempt_abcdefgh";
  { auto builder = must(Builder::begin(state.fd(), new_attempt(id))); }
  CHECK(must(list_directory(must(open_at(state.fd(), "attempts", O_RDONLY | O_DIRECTORY)).get())).empty());
  const pid_t child = ::fork();
  if (child == 0) {
    auto builder = Builder::begin(state.fd(), new_attempt(id));
    ::_exit(builder.has_value() ? 7 : 8);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  REQUIRE(WEXITSTATUS(status) == 7);
  CHECK(must(attempt::list_ids(state.fd())).empty());
  CHECK(must(attempt::lease_holder(state.fd(), id)) == attempt::LeaseHolder::gone);
}

TEST_CASE("what a killed launcher left is swept by a later one, what is being built is not") {
  TempDir state;
  const pid_t child = ::fork();
  if (child == 0) {
    auto builder = Builder::begin(state.fd(), new_attempt("attempt_killed"));
    ::_exit(builder.has_value() ? 7 : 8);
  }
  ::waitpid(child, nullptr, 0);
  const Fd attempts = must(open_at(state.fd(), "attempts", O_RDONLY | O_DIRECTORY));
  { auto young = must(Builder::begin(state.fd(), new_attempt("attempt_other1"))); }
  CHECK(must(list_directory(attempts.get())) == std::vector<std::string>{".new-attempt_killed"});
  attempt::sweep_unpublished(attempts.get(), std::chrono::seconds(0));
  CHECK(must(list_directory(attempts.get())).empty());
  auto living = must(Builder::begin(state.fd(), new_attempt("attempt_living")));
  attempt::sweep_unpublished(attempts.get(), std::chrono::seconds(0));
  CHECK(must(list_directory(attempts.get())) == std::vector<std::string>{".new-attempt_living"});
}

TEST_CASE("a lease's holder is live while its directory is being built and once it is started") {
  TempDir state;
  const std::string id = "attempt_abcdefgh";
  CHECK(must(attempt::lease_holder(state.fd(), id)) == attempt::LeaseHolder::gone);
  auto builder = must(Builder::begin(state.fd(), new_attempt(id)));
  CHECK(must(attempt::lease_holder(state.fd(), id)) == attempt::LeaseHolder::live);
  auto published = must(builder.publish());
  CHECK(must(attempt::lease_holder(state.fd(), id)) == attempt::LeaseHolder::live);
  published.lock.release();
  CHECK(must(attempt::lease_holder(state.fd(), id)) == attempt::LeaseHolder::needs_recovery);
}

TEST_CASE("a unique prefix is enough, an ambiguous one is named, a link or shared directory is refused") {
  TempDir state;
  CHECK(code_of(Directory::open(state.fd(), "attempt_x")) == "attempt-not-found");
  publish(state.fd(), "attempt_abc1");
  publish(state.fd(), "attempt_abd2");
  CHECK(must(Directory::open(state.fd(), "abc")).id() == "attempt_abc1");
  CHECK(must(Directory::open(state.fd(), "attempt_abd")).id() == "attempt_abd2");
  CHECK(code_of(Directory::open(state.fd(), "ab")) == "attempt-ambiguous");
  CHECK(code_of(Directory::open(state.fd(), "")) == "attempt-not-found");
  CHECK(code_of(Directory::open(state.fd(), "attempt_")) == "attempt-not-found");
  CHECK(code_of(Directory::open(state.fd(), "../x")) == "attempt-not-found");
  CHECK(code_of(Directory::open(state.fd(), "zzz")) == "attempt-not-found");
  REQUIRE(::symlink("attempt_abc1", (state / "attempts/attempt_link").c_str()) == 0);
  CHECK(code_of(Directory::open(state.fd(), "attempt_link")) == "attempt-unsafe");
  REQUIRE(::chmod((state / "attempts/attempt_abc1").c_str(), 0755) == 0);
  CHECK(code_of(Directory::open(state.fd(), "abc")) == "attempt-unsafe");
  CHECK(must(attempt::list_ids(state.fd())).size() == 3);
}

TEST_CASE("PB-25: attempts below a folder that is a link are neither opened, listed nor made") {
  TempDir state;
  TempDir elsewhere;
  publish(elsewhere.fd(), "attempt_abc1");
  const auto before =
      must(list_directory(must(open_at(elsewhere.fd(), "attempts", O_RDONLY | O_DIRECTORY)).get()));
  REQUIRE(::symlink((elsewhere / "attempts").c_str(), (state / "attempts").c_str()) == 0);
  CHECK_FALSE(code_of(Directory::open(state.fd(), "attempt_abc1")).empty());
  CHECK(attempt::list_ids(state.fd()).has_error());
  CHECK(Builder::begin(state.fd(), new_attempt("attempt_new1")).has_error());
  CHECK(must(list_directory(must(open_at(elsewhere.fd(), "attempts", O_RDONLY | O_DIRECTORY)).get())) ==
        before);
}

TEST_CASE("the lock is exclusive, visible without being taken, and dies with its holder") {
  TempDir state;
  const Directory directory = publish(state.fd(), "attempt_lock1");
  CHECK_FALSE(directory.locked());
  {
    const auto lock = must(directory.lock());
    CHECK(directory.locked());
    CHECK(code_of(directory.lock(20)) == "attempt-locked");
  }
  CHECK_FALSE(directory.locked());
  const pid_t child = ::fork();
  if (child == 0) {
    const auto lock = directory.lock();
    ::raise(SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  CHECK(code_of(directory.lock()) == "");
}

TEST_CASE("nothing is half-written where the disk is full") {
  for (const std::size_t room : {0u, 4096u, 16384u, 65536u, 262144u}) {
    const std::string said = on_small_disk(2 << 20, [room](const std::string& mount_point) -> std::string {
      const Fd dir(::open(mount_point.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      fill_disk(mount_point);
      if (room > 0 &&
          ::truncate((mount_point + "/filler").c_str(), static_cast<off_t>((2 << 20) - 65536 - room)) != 0) {
        return "truncate";
      }
      auto builder = Builder::begin(dir.get(), new_attempt("attempt_full"));
      if (builder.has_value()) {
        return "it fitted";
      }
      const auto attempts = open_at(dir.get(), "attempts", O_RDONLY | O_DIRECTORY);
      if (attempts.has_value() && !list_directory(attempts.value().get()).value().empty()) {
        return "something is left";
      }
      return builder.error().code == "enospc" ? "" : builder.error().code;
    });
    CHECK(said == "");
  }
}

TEST_CASE("every changed byte of the exit slot is detected") {
  TempDir at;
  must(attempt::prepare_exit_slot(at.fd()));
  CHECK(code_of(attempt::prepare_exit_slot(at.fd())) == "eexist");
  must(attempt::write_exit_slot(at.fd(), slot_of({})));
  CHECK(must(attempt::read_exit_slot(at.fd())).state == wire::exit_ended);
  const std::string whole = slurp(at / "exit");
  REQUIRE(whole.size() == 512);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 0x10);
    spit(at / "exit", changed);
    REQUIRE(code_of(attempt::read_exit_slot(at.fd())) == "exit-slot-damaged");
  }
  spit(at / "exit", whole.substr(0, 511));
  CHECK(code_of(attempt::read_exit_slot(at.fd())) == "exit-slot-damaged");
  ::unlink((at / "exit").c_str());
  CHECK(code_of(attempt::read_exit_slot(at.fd())) == "exit-slot-absent");
}
