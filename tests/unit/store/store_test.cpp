#include "store/store.hpp"

#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "support/scratch.hpp"

using namespace hitchrail;
using namespace hitchrail::test;
using store::ManagedWorktree;
using store::Store;

namespace {

template <class T>
std::string code(const Result<T>& result) {
  return result.has_error() ? result.error().code : "";
}
store::WorktreeLease lease(const std::string& id, const std::string& path, std::uint64_t root,
                           std::uint64_t git) {
  return {id, path, {1, root}, {1, git}, 1000};
}
store::AttemptRow row(const std::string& id, const std::string& state = "starting") {
  return {id, "task", "codex-cli", "codex", "/w", state, "", 5, 0};
}

}  // namespace

TEST_CASE("one live run a worktree: same root, same git directory and overlapping roots are refused") {
  TempDir at;
  Store store = Store::open(at.fd()).value();
  REQUIRE(store.claim_worktree(lease("a", "/w/one", 10, 20)).has_value());
  const auto same = store.claim_worktree(lease("b", "/elsewhere", 10, 21));
  CHECK(code(same) == "worktree-busy");
  CHECK(same.error().object == "a");
  CHECK(same.error().kind == ErrorClass::refused);
  CHECK(code(store.claim_worktree(lease("b", "/w/one", 11, 21))) == "worktree-busy");
  CHECK(code(store.claim_worktree(lease("b", "/w/two", 11, 20))) == "worktree-git-dir-busy");
  CHECK(code(store.claim_worktree(lease("b", "/w/one/sub", 11, 21))) == "worktree-overlap");
  CHECK(code(store.claim_worktree(lease("b", "/w", 11, 21))) == "worktree-overlap");
  CHECK(code(store.claim_worktree(lease("b", "/", 11, 21))) == "worktree-overlap");
  CHECK(store.leases().value().size() == 1);
}

TEST_CASE("a linked worktree beside and a name with the same beginning are admitted") {
  TempDir at;
  Store store = Store::open(at.fd()).value();
  REQUIRE(store.claim_worktree(lease("a", "/w/one", 10, 20)).has_value());
  CHECK(code(store.claim_worktree(lease("b", "/w/one-linked", 11, 21))) == "");
  CHECK(store.leases().value().size() == 2);
}

TEST_CASE("a released worktree can be claimed again, releasing twice is nothing") {
  TempDir at;
  Store store = Store::open(at.fd()).value();
  REQUIRE(store.claim_worktree(lease("a", "/w", 10, 20)).has_value());
  CHECK(store.release_worktree("b").has_value());
  CHECK(store.leases().value().size() == 1);
  CHECK(store.release_worktree("a").has_value());
  CHECK(store.release_worktree("a").has_value());
  CHECK(code(store.claim_worktree(lease("b", "/w", 10, 20))) == "");
}

TEST_CASE("lease and attempt come and go together") {
  TempDir at;
  Store store = Store::open(at.fd()).value();
  REQUIRE(store.begin_attempt(lease("a", "/w", 10, 20), row("a")).has_value());
  CHECK(code(store.begin_attempt(lease("b", "/w", 10, 20), row("b"))) == "worktree-busy");
  CHECK(store.attempts().value().size() == 1);
  auto done = row("a", "completed");
  done.finished_unix_ms = 9;
  CHECK(store.finish_attempt(done).has_value());
  CHECK(store.finish_attempt(done).has_value());
  CHECK(store.leases().value().empty());
  CHECK(store.attempts().value().at(0).state == "completed");
  CHECK(store.finish_attempt(row("c", "failed")).has_value());
  CHECK(store.attempts().value().size() == 2);
  CHECK(store.remove_attempt("c").has_value());
  CHECK(store.attempts().value().size() == 1);
}

TEST_CASE("a pin changes only from the digest its maker saw") {
  TempDir at;
  Store store = Store::open(at.fd()).value();
  Store other = Store::open(at.fd()).value();
  const store::PluginPin first{"codex-cli", "/p", "sha256:1", true, 1};
  CHECK(code(store.set_plugin_pin(first, "sha256:0")) == "store-conflict");
  CHECK(code(store.set_plugin_pin(first, std::nullopt)) == "");
  CHECK(code(other.set_plugin_pin({"codex-cli", "/q", "sha256:9", true, 2}, std::nullopt)) ==
        "store-conflict");
  CHECK(code(other.set_plugin_pin({"codex-cli", "/q", "sha256:2", false, 2}, "sha256:1")) == "");
  const auto pin = store.plugin_pin("codex-cli").value();
  REQUIRE(pin);
  CHECK(pin->digest == "sha256:2");
  CHECK_FALSE(pin->enabled);
  CHECK(store.remove_plugin_pin("codex-cli").has_value());
  CHECK_FALSE(store.plugin_pin("codex-cli").value());
}

TEST_CASE("reading makes no file, and an empty state reads as empty") {
  TempDir at;
  Store store = Store::open(at.fd(), store::Access::read).value();
  CHECK(store.plugin_pins().value().empty());
  CHECK(store.attempts().value().empty());
  CHECK(list_directory(at.fd()).value().empty());
}

TEST_CASE("the database is 0600 with its side files, and a link or a hard link in its place is refused") {
  TempDir at;
  {
    Store store = Store::open(at.fd()).value();
    REQUIRE(store.claim_worktree(lease("a", "/w", 10, 20)).has_value());
    for (const std::string& name : list_directory(at.fd()).value()) {
      struct stat info {};
      REQUIRE(::stat((at / name).c_str(), &info) == 0);
      CHECK((info.st_mode & 07777) == 0600);
    }
  }
  REQUIRE(::link((at / "hitchrail.db").c_str(), (at / "other").c_str()) == 0);
  CHECK(code(Store::open(at.fd())) == "store-unsafe");
  REQUIRE(::unlink((at / "hitchrail.db").c_str()) == 0);
  REQUIRE(::symlink("other", (at / "hitchrail.db").c_str()) == 0);
  CHECK(code(Store::open(at.fd())) == "store-unsafe");
}

TEST_CASE("a damaged and a newer database are refused by name") {
  TempDir damaged;
  spit(damaged / "hitchrail.db", std::string(4096, 'x'));
  REQUIRE(::chmod((damaged / "hitchrail.db").c_str(), 0600) == 0);
  CHECK(code(Store::open(damaged.fd())) == "store-damaged");

  TempDir newer;
  { Store store = Store::open(newer.fd()).value(); }
  sqlite3* raw = nullptr;
  REQUIRE(sqlite3_open((newer / "hitchrail.db").c_str(), &raw) == SQLITE_OK);
  REQUIRE(sqlite3_exec(raw, "PRAGMA user_version = 999", nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(raw);
  CHECK(code(Store::open(newer.fd())) == "store-newer");
}

TEST_CASE("two processes claim one worktree: exactly one wins, twenty times") {
  for (int round = 0; round < 20; ++round) {
    TempDir at;
    { Store store = Store::open(at.fd()).value(); }
    pid_t children[4];
    for (int i = 0; i < 4; ++i) {
      children[i] = ::fork();
      if (children[i] == 0) {
        auto store = Store::open(at.fd());
        const bool won = store.has_value() &&
                         store.value().claim_worktree(lease(std::to_string(i), "/w", 10, 20)).has_value();
        ::_exit(won ? 7 : 8);
      }
    }
    int wins = 0;
    int losses = 0;
    for (const pid_t child : children) {
      int status = 0;
      ::waitpid(child, &status, 0);
      wins += WIFEXITED(status) && WEXITSTATUS(status) == 7;
      losses += WIFEXITED(status) && WEXITSTATUS(status) == 8;
    }
    CHECK(wins == 1);
    CHECK(losses == 3);
  }
}

TEST_CASE("a full disk refuses a claim and leaves the database as it was") {
  const std::string said = on_small_disk(1 << 20, [](const std::string& mount_point) -> std::string {
    const Fd dir(::open(mount_point.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    auto opened = Store::open(dir.get());
    if (opened.has_error()) {
      return opened.error().code;
    }
    std::string failure;
    int claimed = 0;
    fill_disk(mount_point);
    for (int i = 0; i < 2000 && failure.empty(); ++i) {
      failure = code(opened.value().claim_worktree(lease("a" + std::to_string(i), "/w" + std::to_string(i),
                                                         100 + static_cast<std::uint64_t>(i),
                                                         9000 + static_cast<std::uint64_t>(i))));
      claimed += failure.empty();
    }
    if (failure != "store-full") {
      return "expected store-full, got " + failure;
    }
    ::unlink((mount_point + "/filler").c_str());
    const auto leases = opened.value().leases();
    return leases.has_value() && leases.value().size() == static_cast<std::size_t>(claimed) ? ""
                                                                                            : "leases differ";
  });
  CHECK(said == "");
}

TEST_CASE("a preset's record changes only from the value its maker saw, together with who did it") {
  TempDir at;
  Store store = Store::open(at.fd()).value();
  CHECK_FALSE(store.preset("mine").value().has_value());
  const store::PresetRecord first{"mine", "/c/mine.yaml", "sha256:1", "advisory", true, 5};
  const store::PresetDecision added{"mine", "sha256:1", "advisory", "added", 1000, "ann", 5, ""};
  REQUIRE(store.set_preset(first, std::nullopt, added).has_value());
  CHECK(store.preset("mine").value() == first);
  store::PresetRecord second = first;
  second.digest = "sha256:2";
  const store::PresetDecision changed{"mine", "sha256:2", "advisory", "changed", 1001, "", 6, ""};
  CHECK(code(store.set_preset(second, std::nullopt, changed)) == "store-conflict");
  CHECK(code(store.set_preset(second, second, changed)) == "store-conflict");
  CHECK(store.preset_decisions("mine").value().size() == 1);  // nothing of a refused change is kept
  REQUIRE(store.set_preset(second, first, changed).has_value());
  REQUIRE(store.add_preset_decision({"mine", "sha256:2", "advisory", "selected", 1000, "ann", 7, "attempt_x"})
              .has_value());

  Store again = Store::open(at.fd()).value();
  CHECK(again.presets().value() == std::vector<store::PresetRecord>{second});
  const auto decisions = again.preset_decisions("mine").value();
  REQUIRE(decisions.size() == 3);
  CHECK(decisions[0].action == "added");
  CHECK(decisions[0].user == "ann");
  CHECK(decisions[1].uid == 1001);
  CHECK(decisions[2].run == "attempt_x");
  CHECK(again.preset_decisions("other").value().empty());
}

TEST_CASE("a database of the first version keeps what it has when later tables come to it") {
  TempDir at;
  {
    Store store = Store::open(at.fd()).value();
    REQUIRE(store.set_plugin_pin({"p", "/p.so", "sha256:1", true, 1}, std::nullopt).has_value());
  }
  sqlite3* raw = nullptr;
  REQUIRE(sqlite3_open((at.path() + "/hitchrail.db").c_str(), &raw) == SQLITE_OK);
  REQUIRE(sqlite3_exec(raw,
                       "DROP TABLE sandbox_presets; DROP TABLE sandbox_decisions; DROP TABLE "
                       "worktree_manifests; DROP TABLE trust_decisions; PRAGMA user_version = 1",
                       nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(raw);
  Store store = Store::open(at.fd()).value();
  CHECK(store.plugin_pins().value().size() == 1);
  CHECK(store.presets().value().empty());
  CHECK(store
            .set_preset({"m", "/m", "sha256:1", "required", true, 1}, std::nullopt,
                        {"m", "sha256:1", "required", "added", 0, "root", 1, ""})
            .has_value());
}

TEST_CASE("the projection of a managed worktree only goes forward") {
  TempDir at;
  Store store = Store::open(at.fd()).value();
  ManagedWorktree row{"worktree_a", 2, "/src/a", "b", "/src/r/.git", "", "ready", "active", "sha256:2"};
  REQUIRE(store.project_worktree(row).has_value());
  ManagedWorktree older = row;
  older.revision = 1;
  older.creation = "creating";
  REQUIRE(store.project_worktree(older).has_value());
  CHECK((store.managed_worktrees().value() == std::vector<ManagedWorktree>{row}));
  row.revision = 3;
  row.owner_attempt = "attempt_x";
  REQUIRE(store.project_worktree(row).has_value());
  CHECK((store.managed_worktrees().value() == std::vector<ManagedWorktree>{row}));
}

TEST_CASE("decisions on trust are kept in order, and each names the one of its agent that it replaces") {
  TempDir at;
  Store store = Store::open(at.fd()).value();
  const auto add = [&](const std::string& id, const std::string& identity, const std::string& agent) {
    store::TrustRecord record;
    record.id = id;
    record.identity = identity;
    record.inventory = "sha256:i";
    record.mode = "trusted";
    record.agent = agent;
    record.uid = 7;
    record.workspace = std::string("/w\xff\n\0x", 6);
    return store.add_trust_decision(record);
  };
  CHECK(add("a", "one", "").value().supersedes.empty());
  CHECK(add("b", "one", "codex").value().supersedes.empty());
  CHECK(add("c", "one", "").value().supersedes == "a");
  CHECK(add("d", "two", "").value().supersedes.empty());
  CHECK(code(add("a", "one", "")) != "");  // an id is given once
  const auto all = store.trust_decisions("one").value();
  REQUIRE(all.size() == 3);
  CHECK(all[0].id == "c");
  CHECK(all[2].id == "a");
  CHECK(all[0].uid == 7);
  CHECK(all[0].workspace == std::string("/w\xff\n\0x", 6));
  Store reader = Store::open(at.fd(), store::Access::read).value();
  CHECK(reader.trust_decisions("two").value().size() == 1);
}
