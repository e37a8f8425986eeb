// The second look at trust: what was compiled is compared with what is, and with what is decided now.

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include <cstdlib>
#include <fstream>

#include "core/ids.hpp"
#include "launch/stages.hpp"
#include "launch/trust.hpp"
#include "launch/trust_store.hpp"
#include "support/scratch.hpp"

using namespace hitchrail;
using namespace hitchrail::launch;

namespace {

void put(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// A repository that git would take for one, and a launch that was judged on it.
struct Launch {
  hitchrail::test::TempDir at;
  std::string repo = at.path() + "/repo";
  std::string state = at.path() + "/state";
  Ground ground;
  WorktreeStage worktree;
  TrustStage trust;

  Launch() {
    for (const char* name : {"", "/.git", "/.git/objects", "/.git/refs", "/.git/refs/heads"}) {
      REQUIRE(::mkdir((repo + name).c_str(), 0755) == 0);
    }
    put(repo + "/.git/HEAD", "ref: refs/heads/main\n");
    put(repo + "/.git/config", "[core]\n\trepositoryformatversion = 0\n\tbare = false\n");
    put(repo + "/AGENTS.md", "one\n");
    ::setenv("HITCHRAIL_HOME", state.c_str(), 1);
    auto opened = workspace::open_worktree(repo);
    REQUIRE(opened.has_value());
    worktree.worktree = std::move(opened).value();
    look();
  }
  ~Launch() { ::unsetenv("HITCHRAIL_HOME"); }

  void look() {
    trust = TrustStage{};
    trust.agent = "script";
    trust.files = {true, {".../AGENTS.md"}, {}};
    trust.identity = workspace::trust_identity(worktree.worktree).value();
    trust.inventory = workspace::scan_trust(worktree.worktree, trust.files).value();
    auto home = store::StateHome::open(store::Access::read);
    const auto decisions =
        trust_decisions(home.has_value() ? &home.value() : nullptr, trust.identity.digest).value();
    trust.standing =
        workspace::trust_standing(decisions, trust.inventory.digest, trust.agent, unix_millis_now());
  }
  void decide(const std::string& mode, std::int64_t expires = 0) const {
    const auto home = store::StateHome::open(store::Access::write);
    REQUIRE(home.has_value());
    auto database = store::Store::open(home.value());
    REQUIRE(database.has_value());
    store::TrustRecord record;
    record.id = random_id("decision_", 12);
    record.identity = trust.identity.digest;
    record.inventory = mode == "trusted" ? trust.inventory.digest : "";
    record.mode = mode;
    record.expires_unix_ms = expires;
    REQUIRE(database.value().add_trust_decision(record).has_value());
  }
  [[nodiscard]] std::string again() const {
    const Status status = recheck_trust(ground, trust, worktree);
    return status.has_error() ? status.error().code : "same";
  }
};

}  // namespace

TEST_CASE("what has not changed passes the second look at trust, with and without a decision") {
  Launch launch;
  CHECK(launch.again() == "same");
  launch.decide("trusted");
  launch.look();
  CHECK(launch.again() == "same");
}

TEST_CASE("a decision that was revoked, denied, made or has expired in between is seen before the spawn") {
  Launch launch;
  launch.decide("trusted");
  CHECK(launch.again() == "workspace-trust-changed");  // decided now, and not what the launch was judged by
  for (const char* mode : {"revoked", "denied"}) {
    launch.decide("trusted");
    launch.look();
    CHECK(launch.again() == "same");
    launch.decide(mode);
    CHECK(launch.again() == "workspace-trust-changed");
  }
  launch.decide("trusted", unix_millis_now() + 3'600'000);
  launch.look();
  CHECK(launch.again() == "same");
  REQUIRE(launch.trust.standing.current);
  launch.decide("revoked");
  launch.decide("trusted", 1);  // long over
  CHECK(launch.again() == "workspace-trust-changed");
}

TEST_CASE("an inventory or a remote that changed in between is seen before the spawn") {
  Launch launch;
  put(launch.repo + "/AGENTS.md", "two\n");
  CHECK(launch.again() == "workspace-trust-changed");
  put(launch.repo + "/AGENTS.md", "one\n");
  CHECK(launch.again() == "same");
  put(launch.repo + "/.envrc", "x\n");  // listed only, and part of what was looked at
  CHECK(launch.again() == "workspace-trust-changed");
  REQUIRE(::unlink((launch.repo + "/.envrc").c_str()) == 0);
  put(launch.repo + "/.git/config",
      "[core]\n\trepositoryformatversion = 0\n\tbare = false\n[remote \"origin\"]\n\turl = "
      "https://other.example/x\n");
  CHECK(launch.again() == "workspace-trust-changed");
}

TEST_CASE("the line that allows is one line of plain characters, whatever the paths hold") {
  CHECK(allow_line({{}, {"/p"}, "/w", "codex", true}, "sha256:1") ==
        "hitchrail trust allow --worktree /w --agent codex --profile-dir /p --trust-owner --inventory "
        "sha256:1");
  const std::string odd = allow_line({{}, {}, "/a b\n'\x1b\xff", "", false}, "sha256:1");
  CHECK(odd == "hitchrail trust allow --worktree $'/a\\x20b\\x0a\\x27\\x1b\\xff' --inventory sha256:1");
}
