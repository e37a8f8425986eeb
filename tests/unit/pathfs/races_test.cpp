// Every operation against a thread that exchanges a directory with a link to a directory outside, without
// end. The outside directory has the same names; at the end nothing in it may differ, times of change
// included, and nothing of it may have been read. HITCHRAIL_RACE_TRIES says how often each operation is tried
// (20,000).
#include <stdio.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <set>
#include <thread>

#include "pathfs/edit.hpp"
#include "pathfs/patch.hpp"
#include "pathfs/snapshot.hpp"
#include "pathfs/walk.hpp"
#include "unit/pathfs/world.hpp"

namespace hitchrail::pathfs {
namespace {

using namespace test;

int wanted_tries() {
  const char* text = std::getenv("HITCHRAIL_RACE_TRIES");
  const int tries = text == nullptr ? 20'000 : std::atoi(text);
  REQUIRE(tries > 0);
  return tries;
}

struct Arena {
  Arena() : top(fast_directory()) {
    for (const char* side : {"/root/dir", "/outside"}) {
      const std::string at = top.path + side;
      const std::string word = side[1] == 'r' ? "inside" : "outside";
      fs::create_directories(at + "/sub");
      fs::create_directories(at + "/tree/below");
      for (const char* name : {"/leaf", "/sub/leaf", "/victim", "/tree/leaf", "/tree/below/leaf"}) {
        put(at + name, word);
      }
      fs::create_symlink(word, at + "/link");
    }
    fs::create_symlink(top / "outside", top / "root/swap");
    root = Fd(::open((top / "root").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    dir = Fd(::open((top / "root/dir").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    REQUIRE(root);
    REQUIRE(dir);
    before = picture(top / "outside");
    for (const auto& entry : fs::recursive_directory_iterator(top / "outside")) {
      struct stat st {};
      REQUIRE(::lstat(entry.path().c_str(), &st) == 0);
      outside_inodes.insert(st.st_ino);
    }
  }
  [[nodiscard]] bool is_outside(const Identity& identity) const {
    return outside_inodes.count(identity.inode) != 0;
  }

  Temporary top;
  Fd root;
  Fd dir;  // the real directory, whatever it is called just now
  std::map<std::string, std::string> before;
  std::set<std::uint64_t> outside_inodes;
};

// A thread that turns the arena over until it goes out of scope.
class Turning {
 public:
  explicit Turning(std::function<void()> once) {
    thread_ = std::thread([this, once = std::move(once)] {
      while (!stop_) {
        once();
      }
    });
  }
  ~Turning() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

std::function<void()> exchange(int directory, const char* one, const char* two) {
  return [=] { ::renameat2(directory, one, directory, two, RENAME_EXCHANGE); };
}

// What one try gave: "" for success, a code, or "escape".
using Try = std::function<std::string(const Arena&, int)>;

// Tries until both answers were seen as well, but not without end.
void race(const char* name, Arena& arena, const std::function<void()>& turn, const Try& attempt) {
  const int wanted = wanted_tries();
  std::map<std::string, int> seen;
  int tries = 0;
  {
    const Turning turning(turn);
    while (tries < wanted || (tries < 50 * wanted && (seen[""] == 0 || seen["symlink-rejected"] == 0))) {
      ++seen[attempt(arena, tries++)];
    }
  }
  std::cout << name << (without_openat2() ? " (walk)" : "") << ": " << tries << " tries, " << seen[""]
            << " done, " << seen["symlink-rejected"] << " rejected, " << seen["escape"] << " escapes";
  for (const auto& [code_name, count] : seen) {
    if (code_name.empty() || code_name == "symlink-rejected" || code_name == "escape") {
      continue;
    }
    std::cout << ", " << count << " " << code_name;
    INFO(code_name);
    Error error;
    error.code = code_name;
    CHECK(code_of(error).has_value());
  }
  std::cout << std::endl;
  CHECK(seen[""] > 0);
  CHECK(seen["symlink-rejected"] > 0);
  CHECK(seen["escape"] == 0);
  CHECK(picture(arena.top / "outside") == arena.before);
}

void race_directory(const char* name, const Try& attempt) {
  Arena arena;
  race(name, arena, exchange(arena.root.get(), "dir", "swap"), attempt);
}

std::string judged(const Result<std::string>& text) {
  return text.has_error() ? text.error().code : text.value() == "outside" ? "escape" : "";
}
std::string judged(const Arena& arena, const Result<Identity>& identity) {
  return identity.has_error() ? identity.error().code : arena.is_outside(identity.value()) ? "escape" : "";
}
std::string judged(const Arena& arena, const Result<Fd>& fd) {
  return fd.has_error() ? fd.error().code : judged(arena, identify(fd.value().get()));
}

void refill(int directory, const char* name, const char* text) {
  const Fd file(::openat(directory, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644));
  (void)!::write(file.get(), text, std::char_traits<char>::length(text));
}

WriteOptions fast(bool replace = true) {
  WriteOptions out;
  out.replace = replace;
  out.sync = false;
  return out;
}

TEST_CASE("control: looking first and opening by path then leads outside") {
  Arena arena;
  const Turning turning(exchange(arena.root.get(), "dir", "swap"));
  const std::string path = arena.top / "root/dir";
  bool escaped = false;
  for (int i = 0; i < 20'000'000 && !escaped; ++i) {
    struct stat st {};
    if (::lstat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode)) {
      const Fd file(::open((path + "/leaf").c_str(), O_RDONLY | O_CLOEXEC));
      char text[8] = {};
      escaped = file && ::read(file.get(), text, sizeof text) == 7 && std::string_view(text, 7) == "outside";
    }
  }
  CHECK(escaped);
}

TEST_CASE("read: a directory exchanged with a link never leads outside") {
  race_directory("read", [](const Arena& arena, int) {
    return judged(read_beneath(arena.root.get(), "dir/leaf", 100));
  });
}

TEST_CASE("read of a link's text: a directory exchanged with a link never leads outside") {
  race_directory("read link", [](const Arena& arena, int) {
    return judged(read_link_beneath(arena.root.get(), "dir/link"));
  });
}

TEST_CASE("open of a directory: a directory exchanged with a link never leads outside") {
  race_directory("open directory", [](const Arena& arena, int) {
    return judged(arena, open_directory_beneath(arena.root.get(), "dir/sub"));
  });
}

TEST_CASE("look: a directory exchanged with a link never leads outside") {
  race_directory("look", [](const Arena& arena, int) {
    return judged(arena, identify_beneath(arena.root.get(), "dir/sub/leaf"));
  });
}

TEST_CASE("find: a directory exchanged with a link never leads outside") {
  race_directory("find", [](const Arena& arena, int i) -> std::string {
    const auto found = find(arena.root.get(), i % 2 == 0 ? "dir" : "dir/tree");
    if (found.has_error()) {
      return found.error().code;
    }
    for (const Found& entry : found.value().entries) {
      if (arena.is_outside(entry.identity)) {
        return "escape";
      }
    }
    return "";
  });
}

TEST_CASE("write: a directory exchanged with a link never leads outside") {
  race_directory("write", [](const Arena& arena, int) {
    return judged(arena, write_beneath(arena.root.get(), "dir/leaf", "inside", fast()));
  });
}

TEST_CASE("write of a new file: a directory exchanged with a link never leads outside") {
  race_directory("write new", [](const Arena& arena, int) {
    ::unlinkat(arena.dir.get(), "new", 0);
    return judged(arena, write_beneath(arena.root.get(), "dir/new", "inside", fast(false)));
  });
}

TEST_CASE("mkdir: a directory exchanged with a link never leads outside") {
  race_directory("mkdir", [](const Arena& arena, int i) {
    DirectoryOptions options;
    options.parents = i % 2 == 0;
    ::unlinkat(arena.dir.get(), "made/below", AT_REMOVEDIR);
    ::unlinkat(arena.dir.get(), "made", AT_REMOVEDIR);
    return judged(
        arena, make_directory_beneath(arena.root.get(), i % 2 == 0 ? "dir/made/below" : "dir/made", options));
  });
}

TEST_CASE("chmod: a directory exchanged with a link never leads outside") {
  race_directory("chmod", [](const Arena& arena, int i) {
    return code(chmod_beneath(arena.root.get(), "dir/leaf", i % 2 == 0 ? 0600 : 0640));
  });
}

TEST_CASE("rename: a directory exchanged with a link never leads outside") {
  race_directory("rename", [](const Arena& arena, int) {
    const std::string there = code(rename_beneath(arena.root.get(), "dir/leaf", "dir/sub/moved"));
    const std::string back = code(rename_beneath(arena.root.get(), "dir/sub/moved", "dir/leaf"));
    return there.empty() ? back : there;
  });
}

TEST_CASE("link: a directory exchanged with a link never leads outside") {
  race_directory("link", [](const Arena& arena, int) {
    ::unlinkat(arena.dir.get(), "second", 0);
    return code(link_beneath(arena.root.get(), "dir/leaf", "dir/second"));
  });
}

TEST_CASE("remove of a file: a directory exchanged with a link never leads outside") {
  race_directory("remove file", [](const Arena& arena, int) {
    refill(arena.dir.get(), "victim", "inside");
    return code(remove_file_beneath(arena.root.get(), "dir/victim"));
  });
}

TEST_CASE("remove of a directory: a directory exchanged with a link never leads outside") {
  race_directory("remove directory", [](const Arena& arena, int) {
    ::mkdirat(arena.dir.get(), "empty", 0755);
    return code(remove_directory_beneath(arena.root.get(), "dir/empty"));
  });
}

TEST_CASE("remove of a tree: a directory exchanged with a link never leads outside") {
  race_directory("remove tree", [](const Arena& arena, int) {
    ::mkdirat(arena.dir.get(), "tree", 0755);
    ::mkdirat(arena.dir.get(), "tree/below", 0755);
    refill(arena.dir.get(), "tree/below/leaf", "inside");
    return code(remove_tree_beneath(arena.root.get(), "dir/tree"));
  });
}

TEST_CASE("remove of a tree: what is exchanged inside the tree never leads outside") {
  Arena arena;
  // The turning side builds what the other removes, a link in every second directory's place.
  const auto turn = [&arena] {
    const int dir = arena.dir.get();
    ::mkdirat(dir, "tree", 0755);
    ::mkdirat(dir, "tree/below", 0755);
    ::mkdirat(dir, "tree/below/leaf", 0755);
    (void)!::symlinkat((arena.top / "outside").c_str(), dir, "tree/turn");
    ::renameat2(dir, "tree/below", dir, "tree/turn", RENAME_EXCHANGE);
  };
  int done = 0;
  const int tries = wanted_tries();
  {
    const Turning turning(turn);
    for (int i = 0; i < tries || (done == 0 && i < 50 * tries); ++i) {
      done += remove_tree_beneath(arena.root.get(), "dir/tree").has_value() ? 1 : 0;
    }
  }
  std::cout << "remove tree, inside" << (without_openat2() ? " (walk)" : "") << ": " << tries << " tries, "
            << done << " done" << std::endl;
  CHECK(done > 0);
  CHECK(picture(arena.top / "outside") == arena.before);
}

TEST_CASE("patch: a directory exchanged with a link never leads outside") {
  std::vector<Edit> edits(5);
  edits[0].path = "dir/leaf";
  edits[0].bytes = "inside";
  edits[1].path = "dir/first";
  edits[2].kind = Edit::Kind::rename;
  edits[2].path = "dir/first";
  edits[2].to = "dir/sub/second";
  edits[3].kind = Edit::Kind::remove;
  edits[3].path = "dir/sub/second";
  edits[4].kind = Edit::Kind::chmod;
  edits[4].path = "dir/sub/leaf";
  edits[4].mode = 0640;
  race_directory("patch", [&edits](const Arena& arena, int) -> std::string {
    const PatchResult result = apply_patch(arena.root.get(), edits);
    ::unlinkat(arena.dir.get(), "first", 0);  // what an undo could not reach
    ::unlinkat(arena.dir.get(), "sub/second", 0);
    return result.failed ? result.failed->code : "";
  });
}

TEST_CASE("snapshot and rollback: a directory exchanged with a link never leads outside") {
  Arena arena;
  const Snapshot snapshot =
      Snapshot::take(arena.root.get(), {"dir", "dir/leaf", "dir/sub/leaf", "dir/none"}).value();
  race("snapshot and rollback", arena, exchange(arena.root.get(), "dir", "swap"),
       [&snapshot](const Arena& a, int i) -> std::string {
         refill(a.dir.get(), "leaf", "changed");
         refill(a.dir.get(), "none", "made");
         (void)!::fchmodat(a.dir.get(), "sub/leaf", i % 2 == 0 ? 0600 : 0400, 0);
         const Snapshot::Report report = snapshot.restore(a.root.get());
         const auto taken = Snapshot::take(a.root.get(), {"dir/leaf"});
         if (taken.has_error() && !code_of(taken.error())) {
           return "escape";
         }
         return report.complete() ? "" : report.unrestored.front().error.code;
       });
}

// The entry itself, now a file, now a link to the file outside.
void race_leaf(const char* name, const Try& attempt) {
  Arena arena;
  const auto turn = [&arena] {
    const int dir = arena.dir.get();
    ::unlinkat(dir, "planted", 0);
    (void)!::symlinkat((arena.top / "outside/leaf").c_str(), dir, "planted");
    ::renameat(dir, "planted", dir, "leaf");
    refill(dir, "planted", "inside");
    ::renameat(dir, "planted", dir, "leaf");
  };
  race(name, arena, turn, attempt);
}

TEST_CASE("read, write, chmod and rollback: a file replaced by a link never leads outside") {
  race_leaf("read, leaf",
            [](const Arena& a, int) { return judged(read_beneath(a.root.get(), "dir/leaf", 100)); });
  race_leaf("write, leaf", [](const Arena& a, int) {
    return judged(a, write_beneath(a.root.get(), "dir/leaf", "inside", fast()));
  });
  race_leaf("chmod, leaf", [](const Arena& a, int i) {
    return code(chmod_beneath(a.root.get(), "dir/leaf", i % 2 == 0 ? 0600 : 0640));
  });
  std::vector<Edit> edits(1);
  edits[0].path = "dir/leaf";
  edits[0].bytes = "inside";
  race_leaf("patch, leaf", [&edits](const Arena& a, int) {
    const PatchResult result = apply_patch(a.root.get(), edits);
    return result.failed ? result.failed->code : "";
  });
}

TEST_CASE("rollback: a file replaced by a link never leads outside") {
  Arena arena;
  const Snapshot snapshot = Snapshot::take(arena.root.get(), {"dir/leaf"}).value();
  const auto turn = [&arena] {
    const int dir = arena.dir.get();
    ::unlinkat(dir, "planted", 0);
    (void)!::symlinkat((arena.top / "outside/leaf").c_str(), dir, "planted");
    ::renameat(dir, "planted", dir, "leaf");
    refill(dir, "planted", "changed");
    (void)!::fchmodat(dir, "planted", 0600, 0);
    ::renameat(dir, "planted", dir, "leaf");
  };
  race("rollback, leaf", arena, turn, [&snapshot](const Arena& a, int) -> std::string {
    const Snapshot::Report report = snapshot.restore(a.root.get());
    return report.complete() ? "" : report.unrestored.front().error.code;
  });
}

}  // namespace
}  // namespace hitchrail::pathfs
