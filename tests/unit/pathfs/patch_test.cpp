// A patch is made as a whole or not at all.
#include "pathfs/patch.hpp"

#include <catch2/catch.hpp>

#include "pathfs/edit.hpp"
#include "unit/pathfs/world.hpp"

namespace hitchrail::pathfs {
namespace {

using namespace test;
using Kind = Edit::Kind;

struct Tree {
  Tree() {
    fs::create_directories(top / "root/src/old");
    fs::create_directories(top / "outside");
    put(top / "root/src/a", "a");
    put(top / "root/src/b", "b");
    put(top / "root/src/old/c", "c");
    put(top / "outside/file", "outside");
    fs::create_symlink(top / "outside", top / "root/linked");
    fs::create_symlink(top / "outside/file", top / "root/src/link");
    REQUIRE(::chmod((top / "root/src/b").c_str(), 0751) == 0);
    root = Fd(::open((top / "root").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    REQUIRE(root);
    outside = picture(top / "outside");
  }
  ~Tree() { CHECK(picture(top / "outside") == outside); }
  Temporary top;
  Fd root;
  std::map<std::string, std::string> outside;
};

Edit edit(Kind kind, const std::string& path, const std::string& text = "") {
  Edit out;
  out.kind = kind;
  out.path = path;
  (kind == Kind::rename ? out.to : out.bytes) = text;
  return out;
}
Edit mode(const std::string& path, mode_t bits) {
  Edit out = edit(Kind::chmod, path);
  out.mode = bits;
  return out;
}

// Names, kinds, inodes, modes, owners and content; not the times, which a rename there and back changes.
std::map<std::string, std::string> state(const std::string& top) {
  std::map<std::string, std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(top)) {
    struct stat st {};
    REQUIRE(::lstat(entry.path().c_str(), &st) == 0);
    out[entry.path().string()] = std::to_string(st.st_ino) + " " + std::to_string(st.st_mode) + " " +
                                 std::to_string(st.st_uid) + " " +
                                 std::to_string(st.st_mtim.tv_nsec * S_ISREG(st.st_mode)) + " " +
                                 (S_ISREG(st.st_mode) ? get(entry.path().string()) : "");
  }
  return out;
}

std::vector<Edit> every_kind() {
  return {edit(Kind::write, "src/a", "new a"),
          edit(Kind::make_directory, "src/new"),
          edit(Kind::write, "src/new/file", "made"),
          edit(Kind::rename, "src/b", "src/new/b"),
          edit(Kind::remove, "src/old/c"),
          edit(Kind::remove, "src/link"),
          mode("src/a", 0600),
          edit(Kind::rename, "src/old", "older")};
}

TEST_CASE("every kind of edit is made, and nothing else is there afterwards") {
  const Tree tree;
  const PatchResult result = apply_patch(tree.root.get(), every_kind());
  REQUIRE(result.applied());
  CHECK(result.leftovers.empty());
  CHECK(get(tree.top / "root/src/a") == "new a");
  CHECK(get(tree.top / "root/src/new/file") == "made");
  CHECK(get(tree.top / "root/src/new/b") == "b");
  CHECK(identify_beneath(tree.root.get(), "src/new/b").value().mode == 0751);
  CHECK(identify_beneath(tree.root.get(), "src/a").value().mode == 0600);
  std::vector<std::string> paths;
  for (const auto& entry : fs::recursive_directory_iterator(tree.top / "root")) {
    paths.push_back(entry.path().string().substr((tree.top / "root/").size()));
  }
  std::sort(paths.begin(), paths.end());
  CHECK(paths ==
        std::vector<std::string>{"linked", "older", "src", "src/a", "src/new", "src/new/b", "src/new/file"});
}

TEST_CASE("an edit that fails takes all that were made back, to the very files") {
  const std::map<std::string, Edit> failing = {
      {"not-found", edit(Kind::remove, "src/none")},
      {"symlink-rejected", edit(Kind::write, "linked/file", "x")},
      {"not-directory", edit(Kind::write, "src/a/x", "x")},
      {"not-regular-file", edit(Kind::write, "src/new", "x")},
      {"io", edit(Kind::make_directory, "src")},
  };
  for (const auto& [wanted, last] : failing) {
    INFO(wanted);
    const Tree tree;
    const auto before = state(tree.top / "root");
    std::vector<Edit> edits = every_kind();
    edits.push_back(last);
    const PatchResult result = apply_patch(tree.root.get(), edits);
    REQUIRE(result.failed);
    CHECK(result.failed->code == wanted);
    CHECK(result.failed_edit == edits.size() - 1);
    CHECK(result.unrestored.empty());
    CHECK(state(tree.top / "root") == before);
  }
}

TEST_CASE("wherever a patch fails, all before is taken back") {
  for (std::size_t cut = 0; cut < every_kind().size(); ++cut) {
    INFO(cut);
    const Tree tree;
    const auto before = state(tree.top / "root");
    std::vector<Edit> edits = every_kind();
    edits.resize(cut);
    edits.push_back(edit(Kind::write, "linked/file", "x"));
    const PatchResult result = apply_patch(tree.root.get(), edits);
    CHECK(result.failed_edit == cut);
    CHECK(result.unrestored.empty());
    CHECK(state(tree.top / "root") == before);
  }
}

TEST_CASE("paths and bounds are judged before anything changes") {
  const Tree tree;
  const auto before = picture(tree.top / "root");
  std::vector<Edit> edits = every_kind();
  edits.push_back(edit(Kind::write, "../outside/file", "x"));
  CHECK(apply_patch(tree.root.get(), edits).failed->code == "path-escape");
  edits.back() = edit(Kind::rename, "src/a", "/etc/x");
  CHECK(apply_patch(tree.root.get(), edits).failed->code == "path-escape");
  edits.back() = edit(Kind::chmod, "src/a");
  CHECK(io_reason(*apply_patch(tree.root.get(), edits).failed) == "einval");
  CHECK(apply_patch(tree.root.get(), std::vector<Edit>(max_edits + 1, edit(Kind::write, "x", "x")))
            .failed->code == "too-large");
  CHECK(picture(tree.top / "root") == before);
}

TEST_CASE("a file that is not as the caller saw it fails the patch") {
  const Tree tree;
  const Identity seen = identify_beneath(tree.root.get(), "src/a").value();
  put(tree.top / "root/src/a", "somebody else's");
  for (const Kind kind : {Kind::write, Kind::remove, Kind::rename, Kind::chmod}) {
    Edit last = edit(kind, "src/a", "x");
    last.mode = 0600;
    last.expected = seen;
    const PatchResult result = apply_patch(tree.root.get(), {edit(Kind::write, "src/b", "new b"), last});
    REQUIRE(result.failed);
    CHECK(io_reason(*result.failed) == "estale");
  }
  CHECK(get(tree.top / "root/src/a") == "somebody else's");
  CHECK(get(tree.top / "root/src/b") == "b");
  Edit fresh = edit(Kind::write, "src/a", "x");
  fresh.expected = Identity{};
  CHECK(io_reason(*apply_patch(tree.root.get(), {fresh}).failed) == "eexist");
  Edit right = edit(Kind::write, "src/a", "x");
  right.expected = identify_beneath(tree.root.get(), "src/a").value();
  CHECK(apply_patch(tree.root.get(), {right}).applied());
}

TEST_CASE("a rename never replaces") {
  const Tree tree;
  const PatchResult result = apply_patch(tree.root.get(), {edit(Kind::rename, "src/a", "src/b")});
  CHECK(io_reason(*result.failed) == "eexist");
  CHECK(get(tree.top / "root/src/b") == "b");
}

TEST_CASE("a thousand files in a hundred directories need few descriptors") {
  const Tree tree;
  std::vector<Edit> edits;
  for (int i = 0; i < 100; ++i) {
    const std::string directory = "d" + std::to_string(i);
    edits.push_back(edit(Kind::make_directory, directory));
    for (int j = 0; j < 10; ++j) {
      edits.push_back(edit(Kind::write, directory + "/" + std::to_string(j), "x"));
    }
  }
  edits.push_back(edit(Kind::remove, "none"));
  const auto before = state(tree.top / "root");
  const PatchResult failed = apply_patch(tree.root.get(), edits);
  CHECK(failed.failed->code == "not-found");
  CHECK(state(tree.top / "root") == before);
  edits.pop_back();
  CHECK(apply_patch(tree.root.get(), edits).applied());
  CHECK(get(tree.top / "root/d99/9") == "x");
}

}  // namespace
}  // namespace hitchrail::pathfs
