#include "store/cache.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "support/results.hpp"
#include "support/scratch.hpp"

using namespace hitchrail;
using namespace hitchrail::test;
using store::Cache;
using store::CacheKey;

namespace {

struct World {
  TempDir at;
  std::string path = at / "cache";
  [[nodiscard]] Cache open() const { return must(Cache::open_path(path)); }
  [[nodiscard]] std::string only_entry() const {
    for (const std::string& name : must(list_directory(open().fd()))) {
      if (name.size() > 5 && name.substr(name.size() - 5) == ".json") {
        return path + "/" + name;
      }
    }
    FAIL("no entry");
    return "";
  }
};

json::Value word(const char* text) {
  return json::Value(text);
}

std::string text_of(const std::optional<json::Value>& value) {
  return value ? value->as_string() : "(nothing)";
}

void become_child(const std::function<void()>& body) {
  body();
  ::_exit(0);
}

}  // namespace

TEST_CASE("the folder is the state home's cache, else the user's cache folder") {
  ::setenv("HITCHRAIL_HOME", "/h", 1);
  ::setenv("XDG_CACHE_HOME", "/x", 1);
  ::setenv("HOME", "/u", 1);
  CHECK(must(Cache::path()) == "/h/cache");
  ::unsetenv("HITCHRAIL_HOME");
  CHECK(must(Cache::path()) == "/x/hitchrail");
  ::setenv("XDG_CACHE_HOME", "relative", 1);
  CHECK(must(Cache::path()) == "/u/.cache/hitchrail");
  ::unsetenv("HOME");
  CHECK(code_of(Cache::path()) == "cache-unset");
}

TEST_CASE("what was remembered is recalled under the whole key only") {
  World world;
  const Cache cache = world.open();
  must(cache.remember("executable", "/bin/x 1", word("one")));
  CHECK(text_of(cache.recall("executable", "/bin/x 1")) == "one");
  CHECK(text_of(world.open().recall("executable", "/bin/x 1")) == "one");
  CHECK(text_of(cache.recall("executable", "/bin/x 2")) == "(nothing)");
  CHECK(text_of(cache.recall("manifest", "/bin/x 1")) == "(nothing)");
  struct stat info {};
  REQUIRE(::stat(world.path.c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0700);
  REQUIRE(::stat(world.only_entry().c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0600);
}

TEST_CASE("a key may hold any bytes") {
  World world;
  const Cache cache = world.open();
  const std::string odd("/opt/\xff\n\x7f x", 11);
  must(cache.remember("executable", odd, word("one")));
  CHECK(text_of(cache.recall("executable", odd)) == "one");
}

TEST_CASE("an entry that was cut at any length, edited or exchanged is as good as absent") {
  World world;
  const Cache cache = world.open();
  must(cache.remember("manifest", "k", word("value")));
  const std::string file = world.only_entry();
  const std::string whole = slurp(file);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    spit(file, whole.substr(0, size));
    CHECK(text_of(cache.recall("manifest", "k")) == "(nothing)");
  }
  std::string edited = whole;
  edited[edited.find("\"value\":\"value\"") + 10] = 'V';
  spit(file, edited);
  CHECK(text_of(cache.recall("manifest", "k")) == "(nothing)");
  must(cache.remember("manifest", "other", word("other")));
  for (const std::string& name : must(list_directory(cache.fd()))) {
    if (world.path + "/" + name != file && name != "generation") {
      REQUIRE(::rename((world.path + "/" + name).c_str(), file.c_str()) == 0);
    }
  }
  CHECK(text_of(cache.recall("manifest", "k")) == "(nothing)");
  must(cache.remember("manifest", "k", word("again")));
  CHECK(text_of(cache.recall("manifest", "k")) == "again");
}

TEST_CASE("an entry that is a link, a FIFO, a folder or another's to write is not read") {
  World world;
  const Cache cache = world.open();
  must(cache.remember("manifest", "k", word("value")));
  const std::string file = world.only_entry();
  const std::string whole = slurp(file);
  spit(world.at / "elsewhere", whole);
  REQUIRE(::chmod((world.at / "elsewhere").c_str(), 0600) == 0);
  REQUIRE(::unlink(file.c_str()) == 0);
  REQUIRE(::symlink((world.at / "elsewhere").c_str(), file.c_str()) == 0);
  CHECK(text_of(cache.recall("manifest", "k")) == "(nothing)");
  must(cache.remember("manifest", "k", word("mine")));  // takes the link's place
  CHECK(slurp(world.at / "elsewhere") == whole);
  REQUIRE(::unlink(file.c_str()) == 0);
  REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
  CHECK(text_of(cache.recall("manifest", "k")) == "(nothing)");
  REQUIRE(::unlink(file.c_str()) == 0);
  REQUIRE(::mkdir(file.c_str(), 0700) == 0);
  CHECK(text_of(cache.recall("manifest", "k")) == "(nothing)");
  REQUIRE(::rmdir(file.c_str()) == 0);
  spit(file, whole);
  REQUIRE(::chmod(file.c_str(), 0660) == 0);
  CHECK(text_of(cache.recall("manifest", "k")) == "(nothing)");
  REQUIRE(::chmod(file.c_str(), 0600) == 0);
  CHECK(text_of(cache.recall("manifest", "k")) == "value");  // the control: it was the mode
}

TEST_CASE("a folder that is a link, open to others, or a file is refused and nothing is made in it") {
  World world;
  REQUIRE(::mkdir((world.at / "real").c_str(), 0700) == 0);
  REQUIRE(::symlink((world.at / "real").c_str(), world.path.c_str()) == 0);
  CHECK(code_of(Cache::open_path(world.path)) == "cache-unsafe");
  CHECK(code_of(Cache::open_path(world.path + "/below")) == "cache-unsafe");
  CHECK(must(list_directory(must(open_at(world.at.fd(), "real", O_RDONLY | O_DIRECTORY)).get())).empty());
  REQUIRE(::chmod((world.at / "real").c_str(), 0770) == 0);
  CHECK(code_of(Cache::open_path(world.at / "real")) == "cache-shared");
  spit(world.at / "file", "x");
  CHECK(code_of(Cache::open_path(world.at / "file")) == "cache-unsafe");
  if (::geteuid() == 0) {
    REQUIRE(::chmod((world.at / "real").c_str(), 0700) == 0);
    REQUIRE(::chown((world.at / "real").c_str(), 65534, 65534) == 0);
    CHECK(code_of(Cache::open_path(world.at / "real")) == "cache-foreign");
  }
}

TEST_CASE("what was begun before the cache was cleared is not kept after it") {
  World world;
  const Cache slow = world.open();
  Cache operators = world.open();
  must(operators.remember("manifest", "k", word("old")));
  const Cache::Cleared cleared = must(operators.clear());
  CHECK(cleared.entries == 1);
  CHECK(text_of(slow.recall("manifest", "k")) == "(nothing)");
  CHECK(code_of(slow.remember("manifest", "k", word("late"))) == "cache-cleared");
  CHECK(text_of(world.open().recall("manifest", "k")) == "(nothing)");
  must(operators.remember("manifest", "k", word("new")));  // it knows of its own clearing
  must(world.open().remember("manifest", "k", word("newer")));
  CHECK(text_of(world.open().recall("manifest", "k")) == "newer");
  // Twice in one millisecond still are two generations.
  const std::uint64_t first = must(operators.clear()).generation;
  CHECK(must(operators.clear()).generation > first);
}

TEST_CASE("a slow finding of an older version never takes the place of a newer one's") {
  World world;
  const CacheKey older{"manifest", "/bin/x", "version 1"};
  const CacheKey newer{"manifest", "/bin/x", "version 2"};
  const Cache slow = world.open();
  const Cache quick = world.open();
  must(slow.claim(older));
  must(quick.claim(newer));
  must(quick.remember(newer, word("two")));
  CHECK(code_of(slow.remember(older, word("one"))) == "cache-superseded");
  CHECK(text_of(world.open().recall(newer)) == "two");
  CHECK(text_of(world.open().recall(older)) == "(nothing)");
  // Also while the newer one is still being found.
  must(slow.claim(older));
  must(quick.claim(newer));
  CHECK(code_of(slow.remember(older, word("one"))) == "cache-superseded");
  must(quick.remember(newer, word("two again")));
  CHECK(text_of(world.open().recall(newer)) == "two again");
}

TEST_CASE("claiming what is kept already forgets nothing") {
  World world;
  const CacheKey key{"manifest", "/bin/x", "version 1"};
  const Cache cache = world.open();
  must(cache.remember(key, word("one")));
  must(cache.claim(key));
  CHECK(text_of(cache.recall(key)) == "one");
}

TEST_CASE("those who wait for a flight get its outcome, a failure too, and nobody keeps it") {
  World world;
  const CacheKey key{"manifest", "/bin/x", "version 1"};
  const Cache cache = world.open();
  auto first = cache.join(key);
  REQUIRE_FALSE(first.landed());
  std::vector<std::thread> waiting;
  std::vector<std::string> got(4);
  for (std::size_t i = 0; i < got.size(); ++i) {
    waiting.emplace_back([&, i] {
      const Cache other = must(Cache::open_path(world.path));
      got[i] = text_of(other.join(key).landed());
    });
  }
  // All four have the file open before it lands: they are counted by their descriptors.
  const auto open_flights = [] {
    std::size_t count = 0;
    for (const std::string& name :
         must(list_directory(must(open_at(AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY)).get()))) {
      char target[4096] = {};
      const ssize_t size = ::readlink(("/proc/self/fd/" + name).c_str(), target, sizeof target - 1);
      count += size > 0 && std::string_view(target).find("/.flight-") != std::string_view::npos ? 1 : 0;
    }
    return count;
  };
  while (open_flights() < 5) {
    std::this_thread::yield();
  }
  first.land(word("failed"));
  for (auto& each : waiting) {
    each.join();
  }
  CHECK(got == std::vector<std::string>(4, "failed"));
  CHECK(text_of(cache.recall(key)) == "(nothing)");
  // Over is over: who comes later finds out for himself, and no file is left.
  CHECK_FALSE(cache.join(key).landed());
}

TEST_CASE("a flight leaves no file behind") {
  World world;
  const CacheKey key{"manifest", "/bin/x", "version 1"};
  const Cache cache = world.open();
  auto flight = cache.join(key);
  must(cache.remember(key, word("one")));
  flight.land(word("one"));
  CHECK(must(list_directory(cache.fd())).size() == 1);
}

TEST_CASE("a killed process does not block those who wait") {
  World world;
  const CacheKey key{"manifest", "/bin/x", "version 1"};
  int ready[2];
  REQUIRE(::pipe2(ready, O_CLOEXEC) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    become_child([&] {
      auto cache = Cache::open_path(world.path);
      const auto flight = cache.value().join(key);
      (void)!::write(ready[1], "x", 1);
      ::pause();
    });
  }
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  const Cache cache = world.open();
  // The control: while it lives the flight is taken, and a wait that is over lets everybody find out alone.
  CHECK_FALSE(cache.join(key, 50).landed());
  std::thread killer([&] { ::kill(child, SIGKILL); });
  auto flight = cache.join(key, 60'000);
  killer.join();
  CHECK_FALSE(flight.landed());
  flight.land(word("mine"));
  int status = 0;
  ::waitpid(child, &status, 0);
}

TEST_CASE("a flight of another generation is not boarded") {
  World world;
  const CacheKey key{"manifest", "/bin/x", "version 1"};
  const Cache before = world.open();
  auto flight = before.join(key);
  Cache operators = world.open();
  must(operators.clear());
  auto later = operators.join(key, 60'000);
  CHECK_FALSE(later.landed());  // and it did not wait: the old one has no name any more
  flight.land(word("old"));
  CHECK(code_of(before.remember(key, word("old"))) == "cache-cleared");
}

TEST_CASE("a planted flight file is not followed and not believed") {
  World world;
  const CacheKey key{"manifest", "/bin/x", "version 1"};
  const Cache cache = world.open();
  std::string name;
  {
    auto flight = cache.join(key);
    for (const std::string& each : must(list_directory(cache.fd()))) {
      name = each.rfind(".flight-", 0) == 0 ? each : name;
    }
    REQUIRE_FALSE(name.empty());
  }
  spit(world.at / "victim", "keep");
  REQUIRE(::unlinkat(cache.fd(), name.c_str(), 0) == 0);
  REQUIRE(::symlinkat((world.at / "victim").c_str(), cache.fd(), name.c_str()) == 0);
  auto flight = cache.join(key);
  CHECK_FALSE(flight.landed());
  flight.land(word("x"));
  CHECK(slurp(world.at / "victim") == "keep");
  REQUIRE(::unlinkat(cache.fd(), name.c_str(), 0) == 0);
  // An outcome that lies there while nobody flies is an old one.
  must(cache.remember(key, word("planted")));
  REQUIRE(::rename(world.only_entry().c_str(), (world.path + "/" + name).c_str()) == 0);
  CHECK_FALSE(cache.join(key).landed());
}

TEST_CASE("on a full disk nothing is kept and nothing fails but the keeping") {
  const std::string said = on_small_disk(64u << 10, [](const std::string& mount) -> std::string {
    ::mkdir((mount + "/cache").c_str(), 0700);
    auto opened = Cache::open_path(mount + "/cache");
    if (opened.has_error()) {
      return "open: " + opened.error().code;
    }
    const Cache& cache = opened.value();
    const CacheKey key{"manifest", "/bin/x", "version 1"};
    const Fd filler(::open((mount + "/filler").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    const std::string block(4096, 'x');
    while (::write(filler.get(), block.data(), block.size()) > 0) {
    }
    auto flight = cache.join(key);
    if (flight.landed()) {
      return "something landed";
    }
    if (!cache.remember(key, json::Value("one")).has_error()) {
      return "kept on a full disk";
    }
    flight.land(json::Value("one"));
    if (cache.recall(key)) {
      return "recalled from a full disk";
    }
    for (const std::string& name : list_directory(cache.fd()).value()) {
      if (name.rfind(".new-", 0) == 0) {
        return "left " + name;
      }
    }
    if (::ftruncate(filler.get(), 0) != 0) {
      return "ftruncate";
    }
    return cache.remember(key, json::Value("one")).has_error() || !cache.recall(key) ? "not kept with room"
                                                                                     : "";
  });
  CHECK(said == "");
}

TEST_CASE("clearing removes what is no entry too, follows no link, and says how much") {
  World world;
  Cache cache = world.open();
  must(cache.remember("manifest", "k", word("value")));
  spit(world.at / "victim", "keep");
  REQUIRE(::symlink((world.at / "victim").c_str(), (world.path + "/link").c_str()) == 0);
  spit(world.path + "/junk", "junk");
  REQUIRE(::mkdir((world.path + "/folder").c_str(), 0700) == 0);
  spit(world.path + "/folder/inside", "x");
  CHECK(must(cache.entries()).size() == 4);
  CHECK(must(cache.clear()).entries == 4);
  CHECK(slurp(world.at / "victim") == "keep");
  CHECK(must(cache.entries()).empty());
  // A process that stops in the middle of its moment does not hold the operator for ever.
  const Fd other(::open(world.path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  REQUIRE(::flock(other.get(), LOCK_EX) == 0);
  CHECK(code_of(cache.clear()) == "cache-busy");
  CHECK(code_of(cache.remember("manifest", "k", word("value"))) == "cache-busy");
}
