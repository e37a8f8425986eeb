// The inventory: what is found where, as what, and that nothing at a place is passed over.

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include <cstdlib>
#include <map>

#include "core/canonical.hpp"
#include "repository.hpp"
#include "workspace/trust_scan.hpp"

using namespace hitchrail;
using namespace hitchrail::workspace;
using namespace hitchrail::workspace::test;

namespace {

const TrustFiles nobody{true, {}, {}};

void put(const std::string& root, const std::string& path, const std::string& bytes = "x\n") {
  for (std::size_t at = path.find('/'); at != std::string::npos; at = path.find('/', at + 1)) {
    ::mkdir((root + "/" + path.substr(0, at)).c_str(), 0755);
  }
  write(root + "/" + path, bytes);
}
TrustInventory scan(const Repository& repository, const TrustFiles& files = nobody,
                    const TrustLimits& limits = {}, const std::string& below = "") {
  const auto worktree = open_worktree(repository.path + (below.empty() ? "" : "/" + below));
  REQUIRE(told(worktree) == "");
  auto found = scan_trust(worktree.value(), files, limits);
  REQUIRE(told(found) == "");
  return std::move(found).value();
}
const TrustEntry* at(const TrustInventory& inventory, const std::string& path) {
  for (const TrustEntry& entry : inventory.entries) {
    if (entry.path == path) {
      return &entry;
    }
  }
  return nullptr;
}
std::string seen(const TrustInventory& inventory, const std::string& path) {
  const TrustEntry* entry = at(inventory, path);
  return entry == nullptr
             ? "absent"
             : entry->kind + " " + std::string(to_string(entry->posture)) +
                   (entry->problem.empty() ? "" : " " + entry->problem) + (entry->loaded ? " loaded" : "");
}
std::string read_as(const TrustInventory& inventory, const std::string& path) {
  const TrustEntry* entry = at(inventory, path);
  return entry == nullptr ? "absent" : !entry->loaded ? "listed" : std::string(to_string(entry->effect));
}

}  // namespace

TEST_CASE("every place of the table is found with its kind and posture") {
  const Repository repository;
  const std::map<std::string, std::string> places = {
      {"AGENTS.md", "agent-instruction model-influencing"},
      {"deep/er/AGENTS.md", "agent-instruction model-influencing"},
      {"deep/CLAUDE.md", "provider-instruction model-influencing"},
      {"GEMINI.md", "provider-instruction model-influencing"},
      {".github/copilot-instructions.md", "provider-instruction model-influencing"},
      {".github/instructions/a/b.md", "provider-instruction model-influencing"},
      {".github/workflows/ci.yml", "workflow-configuration executable"},
      {".cursor/rules/a.mdc", "provider-instruction model-influencing"},
      {".mcp.json", "tool-server-configuration executable"},
      {"pkg/.mcp.json", "tool-server-configuration executable"},
      {".codex/config.toml", "provider-configuration executable"},
      {".codex/rules/x.rules", "provider-configuration executable"},
      {".codex/skills/s/SKILL.md", "skill-definition model-influencing"},
      {".codex/skills/s/run.sh", "skill-definition model-influencing"},
      {".codex/anything", "unknown-executable executable"},
      {".claude/settings.json", "provider-configuration executable"},
      {".claude/settings.local.json", "provider-configuration executable"},
      {".claude/mcp.json", "tool-server-configuration executable"},
      {".claude/agents/a.md", "agent-definition model-influencing"},
      {".claude/commands/c.md", "agent-definition model-influencing"},
      {".claude/skills/s/SKILL.md", "skill-definition model-influencing"},
      {".claude/hooks/h.sh", "runtime-hook executable"},
      {".copilot/mcp-config.json", "tool-server-configuration executable"},
      {".github/copilot/mcp.json", "tool-server-configuration executable"},
      {".vscode/mcp.json", "tool-server-configuration executable"},
      {".vscode/settings.json", "language-server-configuration executable"},
      {".vscode/tasks.json", "workflow-configuration executable"},
      {".vscode/extensions.json", "extension-configuration executable"},
      {".devcontainer/devcontainer.json", "workflow-configuration executable"},
      {".envrc", "runtime-hook executable"},
      {".agents/note.md", "agent-definition model-influencing"},
      {".agents/tool.toml", "agent-definition executable"},
      {".agents/skills/s/run.py", "skill-definition model-influencing"},
      {".agent/x.yaml", "agent-definition executable"},
      {".buzz/x.md", "provider-configuration model-influencing"},
      {".grok-build/x.json", "provider-configuration executable"},
      {".gemini/settings.json", "provider-configuration executable"},
      {".gemini/style.md", "provider-configuration model-influencing"},
      {".husky/pre-commit", "runtime-hook executable"},
      {".hitchrail/workspace-trust.json", "project-trust-policy declarative-only"},
      {".hitchrail/other", "unknown-executable executable"},
  };
  for (const auto& [path, what] : places) {
    put(repository.path, path);
  }
  const TrustInventory found = scan(repository);
  for (const auto& [path, what] : places) {
    INFO(path);
    CHECK(seen(found, path) == what);
  }
  CHECK(found.entries.size() == places.size());
}

TEST_CASE("other names, other cases and a git directory below are not places") {
  const Repository repository;
  for (const char* path : {"agents.md", "Agents.md", "AGENTS.md.bak", "xAGENTS.md", "claude.md",
                           "sub/.husky/x", "vendor/.git/AGENTS.md"}) {
    put(repository.path, path);
  }
  CHECK(scan(repository).entries.empty());
}

TEST_CASE("git's hooks and where core.hooksPath leads are listed, samples are not") {
  const Repository repository;
  put(repository.path, ".git/hooks/pre-commit");
  put(repository.path, ".git/hooks/pre-push.sample");
  CHECK(::symlink("/bin/true", (repository.path + "/.git/hooks/post-merge").c_str()) == 0);
  git(repository.path, {"config", "core.hooksPath", "/elsewhere"});
  const TrustInventory found = scan(repository);
  CHECK(seen(found, "hooks/pre-commit") == "runtime-hook executable");
  CHECK(seen(found, "hooks/post-merge") == "runtime-hook executable symbolic-link");
  CHECK(seen(found, "git:core.hooksPath") == "runtime-hook executable outside");
  CHECK(at(found, "hooks/pre-commit")->scope == "git-common-directory");
  CHECK(found.entries.size() == 3);
}

TEST_CASE("of a package.json only the scripts count that run unasked") {
  const Repository repository;
  put(repository.path, "package.json", R"({"version": "1", "scripts": {"test": "x", "build": "y"}})");
  CHECK(scan(repository).entries.empty());
  put(repository.path, "package.json", R"({"version": "1", "scripts": {"test": "x", "postinstall": "z"}})");
  const TrustInventory first = scan(repository);
  CHECK(seen(first, "package.json") == "runtime-hook executable");
  put(repository.path, "package.json", R"({"version": "2", "scripts": {"test": "n", "postinstall": "z"}})");
  CHECK(scan(repository).digest == first.digest);
  put(repository.path, "package.json", R"({"version": "2", "scripts": {"postinstall": "other"}})");
  CHECK(scan(repository).digest != first.digest);
  put(repository.path, "package.json", "no json");
  CHECK(seen(scan(repository), "package.json") == "runtime-hook executable");
  put(repository.path, "sub/package.json", R"({"scripts": {"install": "z"}})");
  CHECK(seen(scan(repository), "sub/package.json") == "absent");
  CHECK(seen(scan(repository, nobody, {}, "sub"), "sub/package.json") == "runtime-hook executable");
}

TEST_CASE("what stands in a file's place instead is an executable entry of its own") {
  const Repository repository;
  const std::string& root = repository.path;
  write(root + "/secret", "s");
  CHECK(::symlink("/etc/passwd", (root + "/AGENTS.md").c_str()) == 0);
  CHECK(::mkfifo((root + "/CLAUDE.md").c_str(), 0644) == 0);
  CHECK(::mkdir((root + "/GEMINI.md").c_str(), 0755) == 0);
  CHECK(::symlink("secret", (root + "/.mcp.json").c_str()) == 0);
  CHECK(::symlink("/tmp", (root + "/.codex").c_str()) == 0);
  write(root + "/.claude", "a file");
  put(root, ".gemini/settings.json");
  CHECK(::mkfifo((root + "/.gemini/pipe").c_str(), 0644) == 0);
  CHECK(::symlink("x", (root + "/.gemini/dangling.md").c_str()) == 0);
  const TrustInventory found = scan(repository);
  CHECK(seen(found, "AGENTS.md") == "agent-instruction executable symbolic-link");
  CHECK(at(found, "AGENTS.md")->requested_capabilities ==
        std::vector<std::string>{"filesystem.external-read", "process.execute"});
  CHECK(seen(found, "CLAUDE.md") == "provider-instruction executable not-a-file");
  CHECK(seen(found, "GEMINI.md") == "provider-instruction executable not-a-file");
  CHECK(seen(found, ".mcp.json") == "tool-server-configuration executable symbolic-link");
  CHECK(seen(found, ".codex") == "provider-configuration executable symbolic-link");
  CHECK(seen(found, ".claude") == "provider-configuration executable not-a-directory");
  CHECK(seen(found, ".gemini/pipe") == "provider-configuration executable not-a-file");
  CHECK(seen(found, ".gemini/dangling.md") == "provider-configuration executable symbolic-link");
  CHECK(found.entries.size() == 9);
}

TEST_CASE("a link is bound with its text and with the file of the worktree that it leads to") {
  const Repository repository;
  put(repository.path, "docs/rules.md", "one");
  CHECK(::symlink("docs/rules.md", (repository.path + "/AGENTS.md").c_str()) == 0);
  const std::string before = scan(repository).digest;
  CHECK(scan(repository).digest == before);
  put(repository.path, "docs/rules.md", "two");
  CHECK(scan(repository).digest != before);
}

TEST_CASE("what goes beyond a bound says so and is executable") {
  const Repository repository;
  TrustLimits limits;
  limits.max_file_bytes = 8;
  limits.max_depth = 2;
  put(repository.path, "AGENTS.md", "123456789");
  put(repository.path, ".codex/skills/a/SKILL.md", "1");
  put(repository.path, ".codex/skills/a/b/c/SKILL.md", "1");
  const TrustInventory found = scan(repository, nobody, limits);
  CHECK(seen(found, "AGENTS.md") == "agent-instruction executable too-large");
  CHECK(seen(found, ".codex/skills/a/SKILL.md") == "skill-definition model-influencing");
  CHECK(seen(found, ".codex/skills/a/b") == "skill-definition executable too-deep");
  CHECK(seen(found, ".codex/skills/a/b/c/SKILL.md") == "absent");
  const std::string digest = found.digest;
  put(repository.path, "AGENTS.md", "123456780");
  CHECK(scan(repository, nobody, limits).digest != digest);
  const std::string deep = scan(repository, nobody, limits).digest;
  put(repository.path, ".codex/skills/a/b/c/SKILL.md", "22");
  CHECK(scan(repository, nobody, limits).digest != deep);
}

TEST_CASE("the 2000th entry stands for all that follow, and changes when one of them does") {
  const Repository repository;
  TrustLimits limits;
  limits.max_entries = 5;
  for (int i = 0; i < 9; ++i) {
    put(repository.path, "d" + std::to_string(i) + "/AGENTS.md");
  }
  const TrustInventory found = scan(repository, nobody, limits);
  CHECK(found.entries.size() == 5);
  CHECK(seen(found, "") == "unknown-executable executable too-many loaded");
  put(repository.path, "d8/AGENTS.md", "changed");
  CHECK(scan(repository, nobody, limits).digest != found.digest);
}

TEST_CASE("a directory that cannot be entered is named, and is harmless where it is nobody's of ours") {
  const Repository repository;
  put(repository.path, "own/CLAUDE.md");
  ::chmod((repository.path + "/own").c_str(), 0);
  if (::geteuid() == 0) {
    CHECK(seen(scan(repository), "own/CLAUDE.md") == "provider-instruction model-influencing");
  } else {
    CHECK(seen(scan(repository), "own") == "unknown-executable executable unreadable");
    CHECK(read_as(scan(repository, {true, {"**/CLAUDE.md"}, {}}), "own") == "executable");
    CHECK(read_as(scan(repository, {true, {".../AGENTS.md"}, {}}), "own") == "listed");
  }
  ::chmod((repository.path + "/own").c_str(), 0755);
}

TEST_CASE("the same content gives the same digest, and every difference another one") {
  const Repository one;
  const Repository two;
  for (const char* path : {"a/AGENTS.md", "b/AGENTS.md", ".mcp.json", ".husky/pre-commit"}) {
    put(one.path, path);
  }
  for (const char* path : {".husky/pre-commit", ".mcp.json", "b/AGENTS.md", "a/AGENTS.md"}) {
    put(two.path, path);
  }
  const std::string digest = scan(one).digest;
  CHECK(scan(two).digest == digest);
  CHECK(scan(one).digest == digest);
  CHECK(verify_document(scan(one).document).has_value());
  put(two.path, "b/AGENTS.md", "y\n");
  CHECK(scan(two).digest != digest);
  put(two.path, "b/AGENTS.md", "x\n");
  CHECK(scan(two).digest == digest);
  put(two.path, "c\nd/AGENTS.md");
  CHECK(scan(two).digest != digest);
  put(two.path, "\xff/CLAUDE.md");
  CHECK(verify_document(scan(two).document).has_value());
}

TEST_CASE("what the harness reads is what its profile says, at the levels it says") {
  const Repository repository;
  for (const char* path : {"AGENTS.md", "src/AGENTS.md", "src/deep/AGENTS.md", "other/AGENTS.md", "CLAUDE.md",
                           ".codex/config.toml", ".codex/skills/s/SKILL.md", "src/.codex/skills/s/SKILL.md",
                           ".agents/x.toml", ".tool/hooks/run.sh", ".tool/text/a.txt", ".mcp.json"}) {
    put(repository.path, path);
  }
  const TrustFiles files{true,
                         {".../AGENTS.md", ".../.codex/skills/**", ".tool/text/**", ".agents/**"},
                         {".tool/hooks/**", ".mcp.json", "CLAUDE.md"}};
  const TrustInventory found = scan(repository, files, {}, "src");
  CHECK(read_as(found, "AGENTS.md") == "model-influencing");
  CHECK(read_as(found, "src/AGENTS.md") == "model-influencing");
  CHECK(read_as(found, "src/deep/AGENTS.md") == "listed");
  CHECK(read_as(found, "other/AGENTS.md") == "listed");
  CHECK(read_as(found, ".codex/skills/s/SKILL.md") == "model-influencing");
  CHECK(read_as(found, "src/.codex/skills/s/SKILL.md") == "model-influencing");
  CHECK(read_as(found, ".codex/config.toml") == "listed");
  CHECK(read_as(found, ".mcp.json") == "executable");
  CHECK(read_as(found, "CLAUDE.md") == "executable");       // text for others, configuration for this one
  CHECK(read_as(found, ".agents/x.toml") == "executable");  // the table's word stands
  CHECK(read_as(found, ".tool/hooks/run.sh") == "executable");
  CHECK(read_as(found, ".tool/text/a.txt") == "model-influencing");
  CHECK(at(found, "AGENTS.md")->content == "x\n");
  CHECK(at(found, ".mcp.json")->content.empty());
  CHECK(scan(repository).digest != found.digest);  // the places that only this profile has
}

TEST_CASE("a link or a bound on the way to what a harness reads is read by it") {
  const Repository repository;
  CHECK(::symlink("/tmp", (repository.path + "/.codex").c_str()) == 0);
  CHECK(::symlink("README", (repository.path + "/AGENTS.md").c_str()) == 0);
  const TrustInventory found = scan(repository, {true, {".../AGENTS.md", ".../.codex/skills/**"}, {}});
  CHECK(read_as(found, ".codex") == "executable");
  CHECK(read_as(found, "AGENTS.md") == "executable");
  CHECK(read_as(scan(repository), "AGENTS.md") == "listed");
}

TEST_CASE("a profile that says nothing reads whatever harnesses are known to read") {
  const Repository repository;
  for (const char* path : {"AGENTS.md", ".mcp.json", ".envrc", ".husky/x", ".github/workflows/ci.yml"}) {
    put(repository.path, path);
  }
  put(repository.path, ".git/hooks/pre-commit");
  const TrustInventory found = scan(repository, TrustFiles{});
  CHECK(read_as(found, "AGENTS.md") == "model-influencing");
  CHECK(read_as(found, ".mcp.json") == "executable");
  for (const char* path : {".envrc", ".husky/x", ".github/workflows/ci.yml", "hooks/pre-commit"}) {
    CHECK(read_as(found, path) == "listed");
  }
}

TEST_CASE("the repository's policy is read strictly: what is not exactly one is denied") {
  const Repository repository;
  CHECK(scan(repository).maximum == MaximumTrust::trusted);
  const auto policy = [&](const std::string& text) {
    put(repository.path, ".hitchrail/workspace-trust.json", text);
    return scan(repository).maximum;
  };
  const std::string head = R"({"schemaVersion": "workspace-trust-policy/v1", "maximumTrust": )";
  CHECK(policy(head + R"("trusted"})") == MaximumTrust::trusted);
  CHECK(policy(head + R"("restricted"})") == MaximumTrust::restricted);
  CHECK(policy(head + R"("denied"})") == MaximumTrust::denied);
  CHECK(policy(head + R"("everything"})") == MaximumTrust::denied);
  CHECK(policy(head + R"("trusted", "more": 1})") == MaximumTrust::denied);
  CHECK(policy(head + R"("denied", "maximumTrust": "trusted"})") == MaximumTrust::denied);
  CHECK(policy(R"({"maximumTrust": "trusted"})") == MaximumTrust::denied);
  CHECK(policy("") == MaximumTrust::denied);
  CHECK(policy(std::string(100'000, ' ')) == MaximumTrust::denied);
  CHECK(::unlink((repository.path + "/.hitchrail/workspace-trust.json").c_str()) == 0);
  write(repository.path + "/good.json", head + R"("trusted"})");
  CHECK(::symlink("../good.json", (repository.path + "/.hitchrail/workspace-trust.json").c_str()) == 0);
  CHECK(scan(repository).maximum == MaximumTrust::denied);
  CHECK(::unlink((repository.path + "/.hitchrail/workspace-trust.json").c_str()) == 0);
  CHECK(::rmdir((repository.path + "/.hitchrail").c_str()) == 0);
  CHECK(::mkdir((repository.path + "/p").c_str(), 0755) == 0);
  write(repository.path + "/p/workspace-trust.json", head + R"("trusted"})");
  CHECK(::symlink("p", (repository.path + "/.hitchrail").c_str()) == 0);
  CHECK(scan(repository).maximum == MaximumTrust::denied);
}

TEST_CASE("another clone at the same path is another identity") {
  const Repository repository;
  const std::string root = repository.path;
  const TrustIdentity first = trust_identity(repository.open()).value();
  CHECK(trust_identity(repository.open()).value().digest == first.digest);
  CHECK(::rename(root.c_str(), (root + "-old").c_str()) == 0);
  git(repository.scratch.path(), {"clone", "-q", root + "-old", root});
  CHECK(trust_identity(repository.open()).value().digest != first.digest);
  const auto old = open_worktree(root + "-old");
  REQUIRE(told(old) == "");
  CHECK(trust_identity(old.value()).value().digest != first.digest);  // another path
}

TEST_CASE("the remote counts without its credentials") {
  const Repository repository;
  const auto remote = [&](const std::string& url) {
    git(repository.path, {"config", "remote.origin.url", url});
    return trust_identity(repository.open()).value();
  };
  const TrustIdentity plain = remote("https://example.org/a.git");
  CHECK(plain.remote == "https://example.org/a.git");
  CHECK(remote("https://user:pass@example.org/a.git").digest == plain.digest);
  CHECK(remote("https://token@example.org/a.git?key=1#x").digest == plain.digest);
  CHECK(remote("https://p@ss:w@rd@example.org/a.git").digest == plain.digest);
  CHECK(remote("https://example.org/b.git").digest != plain.digest);
  CHECK(remote("git@example.org:a.git").remote == "example.org:a.git");
  CHECK(remote("/srv/x@y/a.git").remote == "/srv/x@y/a.git");
}

TEST_CASE("patterns are plain names with a prefix and an end") {
  for (const char* good : {"AGENTS.md", ".../AGENTS.md", "**/a/b", ".tool/**", "**/.tool/x/**"}) {
    CHECK(parse_trust_pattern(good).value().text() == good);
  }
  for (const char* bad : {"", "/a", "a/", "a//b", "../a", "a/../b", "./a", "a*", "**", ".../", "a/**/b",
                          "x/.../y", ".git", ".git/hooks/**", "[a]", "**/"}) {
    INFO(bad);
    CHECK(code(parse_trust_pattern(bad)) == "trust-pattern");
  }
}
