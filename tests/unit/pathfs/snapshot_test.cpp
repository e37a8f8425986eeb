// Going back to a snapshot in a workspace that somebody else prepared meanwhile.
#include "pathfs/snapshot.hpp"

#include <catch2/catch.hpp>

#include "pathfs/edit.hpp"
#include "unit/pathfs/world.hpp"

namespace hitchrail::pathfs {
namespace {

using namespace test;

struct Tree {
  Tree() {
    fs::create_directories(top / "root/dir/sub");
    fs::create_directories(top / "outside/sub");
    for (const char* name : {"file", "sub/deep"}) {
      put(top / ("root/dir/" + std::string(name)), "inside");
      put(top / ("outside/" + std::string(name)), "outside");
      REQUIRE(::chmod((top / ("root/dir/" + std::string(name))).c_str(), 0640) == 0);
    }
    root = Fd(::open((top / "root").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    REQUIRE(root);
    outside = picture(top / "outside");
  }
  ~Tree() { CHECK(picture(top / "outside") == outside); }
  [[nodiscard]] Snapshot take(const std::vector<std::string>& paths) const {
    return Snapshot::take(root.get(), paths).value();
  }
  [[nodiscard]] Identity at(const std::string& path) const {
    return identify_beneath(root.get(), path).value();
  }
  Temporary top;
  Fd root;
  std::map<std::string, std::string> outside;
};

const std::vector<std::string> everything{"dir",          "dir/file", "dir/sub",
                                          "dir/sub/deep", "dir/none", "dir/later/none"};

std::string why(const Snapshot::Report& report, const std::string& path) {
  for (const Unrestored& each : report.unrestored) {
    if (each.path == path) {
      return each.error.code;
    }
  }
  return "";
}

TEST_CASE("content, modes, absence and directories come back") {
  const Tree tree;
  const Snapshot snapshot = tree.take(everything);
  put(tree.top / "root/dir/file", "changed and longer");
  fs::remove_all(tree.top / "root/dir/sub");
  put(tree.top / "root/dir/none", "made");
  fs::create_directory(tree.top / "root/dir/later");
  put(tree.top / "root/dir/later/none", "made");
  REQUIRE(::chmod((tree.top / "root/dir").c_str(), 0500) == 0);
  const Snapshot::Report report = snapshot.restore(tree.root.get());
  CHECK(report.complete());
  CHECK(get(tree.top / "root/dir/file") == "inside");
  CHECK(get(tree.top / "root/dir/sub/deep") == "inside");
  CHECK(tree.at("dir").mode == 0755);
  CHECK(tree.at("dir/file").mode == 0640);
  CHECK(tree.at("dir/sub/deep").mode == 0640);
  CHECK(tree.at("dir/sub").mode == 0755);
  CHECK_FALSE(fs::exists(tree.top / "root/dir/none"));
  CHECK_FALSE(fs::exists(tree.top / "root/dir/later/none"));
}

TEST_CASE("what has not changed is not touched") {
  const Tree tree;
  const Snapshot snapshot = tree.take(everything);
  const auto before = picture(tree.top / "root");
  const Snapshot::Report report = snapshot.restore(tree.root.get());
  CHECK(report.complete());
  CHECK(report.restored.empty());
  CHECK(picture(tree.top / "root") == before);
}

TEST_CASE("a mode alone is restored on the same file") {
  const Tree tree;
  const Snapshot snapshot = tree.take({"dir/file"});
  const Identity before = tree.at("dir/file");
  for (const mode_t mode : {mode_t{0600}, mode_t{0666}}) {
    REQUIRE(::chmod((tree.top / "root/dir/file").c_str(), mode) == 0);
    CHECK(snapshot.restore(tree.root.get()).complete());
    CHECK(tree.at("dir/file").same_file(before));
    CHECK(tree.at("dir/file").mode == 0640);
  }
}

TEST_CASE(
    "PB-23 (a): a leaf replaced by a link to outside leaves the restore incomplete and outside unchanged") {
  const Tree tree;
  const Snapshot snapshot = tree.take({"dir/file", "dir/none", "dir/sub/deep"});
  put(tree.top / "root/dir/sub/deep", "changed");
  fs::remove(tree.top / "root/dir/file");
  fs::create_symlink(tree.top / "outside/file", tree.top / "root/dir/file");
  fs::create_symlink(tree.top / "outside/file", tree.top / "root/dir/none");
  const Snapshot::Report report = snapshot.restore(tree.root.get());
  CHECK_FALSE(report.complete());
  CHECK(why(report, "dir/file") == "symlink-rejected");
  CHECK(why(report, "dir/none") == "symlink-rejected");
  CHECK(fs::is_symlink(tree.top / "root/dir/file"));
  CHECK(get(tree.top / "root/dir/sub/deep") == "inside");  // the others are restored
}

TEST_CASE(
    "PB-23 (b): a parent replaced by a link to outside leaves the restore incomplete and outside unchanged") {
  const Tree tree;
  const Snapshot snapshot = tree.take(everything);
  fs::rename(tree.top / "root/dir", tree.top / "root/moved");
  fs::create_symlink(tree.top / "outside", tree.top / "root/dir");
  const Snapshot::Report report = snapshot.restore(tree.root.get());
  CHECK_FALSE(report.complete());
  for (const std::string& path : everything) {
    INFO(path);
    CHECK(why(report, path) == "symlink-rejected");
  }
  CHECK(report.restored.empty());
}

TEST_CASE("PB-23 (b): a parent that is gone is made again only where no link stands") {
  const Tree tree;
  const Snapshot snapshot = tree.take({"dir/sub/deep"});
  fs::remove_all(tree.top / "root/dir/sub");
  fs::create_symlink(tree.top / "outside/sub", tree.top / "root/dir/sub");
  CHECK(why(snapshot.restore(tree.root.get()), "dir/sub/deep") == "symlink-rejected");
  fs::remove(tree.top / "root/dir/sub");
  CHECK(snapshot.restore(tree.root.get()).complete());
  CHECK(get(tree.top / "root/dir/sub/deep") == "inside");
}

TEST_CASE("what is of another kind now is left and reported") {
  const Tree tree;
  const Snapshot snapshot = tree.take(everything);
  fs::remove(tree.top / "root/dir/file");
  REQUIRE(::mkfifo((tree.top / "root/dir/file").c_str(), 0600) == 0);
  fs::create_directories(tree.top / "root/dir/none/full");
  fs::remove_all(tree.top / "root/dir/sub");
  put(tree.top / "root/dir/sub", "a file now");
  const Snapshot::Report report = snapshot.restore(tree.root.get());
  CHECK(why(report, "dir/file") == "not-regular-file");
  CHECK(why(report, "dir/none") == "io");
  CHECK(why(report, "dir/sub") == "not-directory");
  CHECK(why(report, "dir/sub/deep") == "not-directory");
  CHECK(get(tree.top / "root/dir/sub") == "a file now");
}

TEST_CASE("a snapshot refuses links, what is no file, too much, and paths out of the root") {
  const Tree tree;
  fs::create_symlink("file", tree.top / "root/dir/link");
  REQUIRE(::mkfifo((tree.top / "root/dir/fifo").c_str(), 0600) == 0);
  const auto refusal = [&tree](const std::string& path, const SnapshotLimits& limits = {}) {
    return code(Snapshot::take(tree.root.get(), {path}, limits));
  };
  CHECK(refusal("dir/link") == "symlink-rejected");
  CHECK(refusal("dir/fifo") == "not-regular-file");
  CHECK(refusal("dir/file/x") == "not-directory");
  CHECK(refusal("../outside/file") == "path-escape");
  SnapshotLimits small;
  small.file_bytes = 5;
  CHECK(refusal("dir/file", small) == "too-large");
  small.entries = 0;
  CHECK(refusal("dir/file", small) == "too-large");
}

TEST_CASE("PB-24: an artifact that the run planted as a link is not collected") {
  const Tree tree;
  fs::create_symlink("/etc/hostname", tree.top / "root/out");
  fs::create_symlink(tree.top / "outside", tree.top / "root/linked");
  fs::create_symlink(tree.top / "outside/file", tree.top / "root/dir/artifact");
  CHECK(code(read_stable_beneath(tree.root.get(), "out", 1000)) == "symlink-rejected");
  CHECK(code(read_beneath(tree.root.get(), "out", 1000)) == "symlink-rejected");
  CHECK(code(read_stable_beneath(tree.root.get(), "linked/file", 1000)) == "symlink-rejected");
  CHECK(code(read_stable_beneath(tree.root.get(), "dir/artifact", 1000)) == "symlink-rejected");
  CHECK(code(open_directory_beneath(tree.root.get(), "linked")) == "symlink-rejected");
  CHECK(read_stable_beneath(tree.root.get(), "dir/file", 1000).value().bytes == "inside");
}

}  // namespace
}  // namespace hitchrail::pathfs
