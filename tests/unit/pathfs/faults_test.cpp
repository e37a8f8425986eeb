// A full disk and a kill at any moment: content is the old or the new, never a part, and what lies about
// afterwards bears a temporary name.
#include <signal.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>

#include "pathfs/edit.hpp"
#include "pathfs/patch.hpp"
#include "pathfs/snapshot.hpp"
#include "support/scratch.hpp"
#include "unit/pathfs/world.hpp"

namespace hitchrail::pathfs {
namespace {

using namespace test;
using hitchrail::test::fill_disk;
using hitchrail::test::on_small_disk;

constexpr std::size_t kSize = 100'000;

bool uniform(const std::string& text) {
  return text.size() == kSize && text.find_first_not_of(text.front()) == std::string::npos;
}

// Forks `loop`, kills it after a while, and does so until it has been killed often enough.
void kill_often(int times, const std::function<void()>& loop, const std::function<void()>& check) {
  for (int i = 0; i < times; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (;;) {
        loop();
      }
    }
    ::usleep(static_cast<useconds_t>(500 + i * 137 % 9000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    check();
  }
}

TEST_CASE("a write that is killed leaves the old file or the new one") {
  const Temporary top(fast_directory());
  put(top / "file", std::string(kSize, 'a'));
  const Fd root(::open(top.path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  WriteOptions options;
  options.sync = false;
  char next = 'a';
  const auto loop = [&] {
    next = static_cast<char>(next == 'z' ? 'a' : next + 1);
    (void)write_beneath(root.get(), "file", std::string(kSize, next), options);
  };
  kill_often(100, loop, [&] {
    CHECK(uniform(get(top / "file")));
    for (const std::string& name : list_directory(root.get()).value()) {
      CHECK((name == "file" || name.starts_with(temporary_prefix)));
    }
  });
}

TEST_CASE("a patch that is killed leaves whole files, and old ones under temporary names only") {
  const Temporary top(fast_directory());
  for (const char* name : {"one", "two"}) {
    put(top / name, std::string(kSize, 'a'));
  }
  const Fd root(::open(top.path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  std::vector<Edit> edits(2);
  edits[0].path = "one";
  edits[1].path = "two";
  char next = 'a';
  const auto loop = [&] {
    next = static_cast<char>(next == 'z' ? 'a' : next + 1);
    edits[0].bytes = edits[1].bytes = std::string(kSize, next);
    (void)apply_patch(root.get(), edits);
  };
  kill_often(100, loop, [&] {
    CHECK(uniform(get(top / "one")));
    CHECK(uniform(get(top / "two")));
    for (const std::string& name : list_directory(root.get()).value()) {
      CHECK((name == "one" || name == "two" || name.starts_with(temporary_prefix)));
    }
  });
}

// Everything on a full disk: what was there is there, and a patch is taken back without any space.
std::string on_full_disk(const std::string& at) {
  const std::string old(kSize, 'o');
  fs::create_directory(at + "/dir");
  for (const char* name : {"/one", "/two", "/dir/three"}) {
    put(at + name, old);
  }
  const Fd root(::open(at.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const Snapshot snapshot = Snapshot::take(root.get(), {"one", "two"}).value();
  fill_disk(at);
  const auto names = [&root] { return list_directory(root.get()).value().size(); };
  const std::size_t before = names();
  const auto written = write_beneath(root.get(), "one", std::string(2 * kSize, 'n'));
  if (written.has_value() || io_reason(written.error()) != "enospc" || get(at + "/one") != old ||
      names() != before) {
    return "write";
  }
  std::vector<Edit> edits(4);
  edits[0].kind = Edit::Kind::rename;
  edits[0].path = "one";
  edits[0].to = "dir/moved";
  edits[1].kind = Edit::Kind::remove;
  edits[1].path = "two";
  edits[2].kind = Edit::Kind::chmod;
  edits[2].path = "dir/three";
  edits[2].mode = 0600;
  edits[3].path = "four";
  edits[3].bytes = std::string(2 * kSize, 'n');
  const PatchResult patch = apply_patch(root.get(), edits);
  if (!patch.failed || io_reason(*patch.failed) != "enospc" || !patch.unrestored.empty()) {
    return "patch: " + (patch.failed ? patch.failed->detail : "applied");
  }
  if (get(at + "/one") != old || get(at + "/two") != old || names() != before ||
      identify_beneath(root.get(), "dir/three").value().mode != 0644) {
    return "patch not taken back";
  }
  put(at + "/one", "");  // its space is taken at once
  fill_disk(at + "/dir");
  const Snapshot::Report report = snapshot.restore(root.get());
  if (report.complete() || io_reason(report.unrestored.front().error) != "enospc" ||
      get(at + "/two") != old) {
    return "restore";
  }
  fs::remove(at + "/filler");
  fs::remove(at + "/dir/filler");
  return snapshot.restore(root.get()).complete() && get(at + "/one") == old ? "" : "restore with space";
}

TEST_CASE(
    "a full disk: old files stay, a patch is taken back without space, a restore says it is incomplete") {
  CHECK(on_small_disk(4u << 20, on_full_disk) == "");
}

}  // namespace
}  // namespace hitchrail::pathfs
