#include "workspace/git_config.hpp"

#include <catch2/catch.hpp>

#include "repository.hpp"
#include "workspace/index_entries.hpp"
#include "workspace/refs.hpp"
#include "workspace/status.hpp"

namespace hitchrail::workspace::test {
namespace {

TEST_CASE("git's configuration is read as git reads it") {
  const std::string text =
      "\xef\xbb\xbf# comment\n[core]\n\tBare = false ; trailing\n\tEditor = \"a # b\" c  \n"
      "[Remote \"Or\\\"igin\"]\n\turl = x\\\n  y\n[section.Sub]\nFlag\n[core] autocrlf=input\n\tname = "
      "tab\\there\n";
  const GitConfig config = GitConfig::parse(text, "config").value();
  CHECK(config.get("core.bare") == "false");
  CHECK(config.get("core.editor") == "a # b c");
  CHECK(config.get("remote.Or\"igin.url") == "x  y");
  CHECK(config.get("section.sub.flag") == "true");
  CHECK(config.get_bool("section.sub.flag", false));
  CHECK(config.get("core.autocrlf") == "input");
  CHECK(config.get("core.name") == "tab\there");
  CHECK_FALSE(config.get("core.none").has_value());
}

TEST_CASE("every value that git writes is read back, and every line of ours is read by git") {
  const Scratch scratch;
  git(scratch.path(), {"init", "-q"});
  const std::string file = scratch.path() + "/.git/config";
  for (const std::string value : {"plain", "two words", " leading", "trailing ", "\"quoted\"", "back\\slash",
                                  "tab\tin", "line\nfeed", "# hash", "semi;colon", "\xc3\xa4", ""}) {
    INFO(value);
    git(scratch.path(), {"config", "test.value", value});
    CHECK(GitConfig::parse(read(file), "config").value().get("test.value") == value);
    write(scratch.path() + "/ours", "[test]\n" + config_line("value", value));
    CHECK(git(scratch.path(), {"config", "--file", "ours", "-z", "test.value"}) ==
          value + std::string(1, '\0'));
  }
}

TEST_CASE("a configuration that git refuses is refused with its line") {
  for (const char* text : {"[core\n", "[core]\nbare false\n", "bare = true\n", "[core]\nx = \"open\n",
                           "[core]\nx = \\q\n", "[a \"b]\n", "[]\n", "[core]\n= 1\n"}) {
    INFO(text);
    const auto config = GitConfig::parse(text, "config");
    CHECK(code(config) == "worktree-metadata-unsafe");
  }
  CHECK(GitConfig::parse("[core]\n\n!\n", "config").error().object == "config:3");
}

TEST_CASE("names of refs follow git check-ref-format") {
  const Scratch scratch;
  for (const std::string name :
       {"refs/heads/main", "refs/heads/a/b", "refs/heads/.a", "refs/heads/a.lock", "refs/heads/a..b",
        "refs/heads/a b", "refs/heads/a~1", "refs/heads/@{x", "refs/heads/", "refs/heads//a", "refs/heads/a.",
        "refs/heads/\xc3\xa4", "refs/heads/a\\b", "refs/../HEAD", "refs/heads/a:b", "refs/heads/a[b",
        "refs/heads/@"}) {
    INFO(name);
    CHECK(valid_ref(name) == git_ok(scratch.path(), {"check-ref-format", name}));
  }
  CHECK_FALSE(valid_ref("HEAD"));
  CHECK_FALSE(valid_ref("refs/heads/\x7f"));
}

TEST_CASE("status output with odd names is read by its NULs") {
  const std::string oid(40, 'a');
  const std::string zero(40, '0');
  std::string text = "# branch.oid " + oid + '\0' + "# branch.head main" + '\0';
  text += "1 .M N... 100644 100644 100644 " + oid + " " + oid + " b c\nd" + '\0';
  text += "1 A. N... 000000 100644 100644 " + zero + " " + oid + " \x1b[31m" + '\0';
  text += "1 .D N... 100644 100644 000000 " + oid + " " + oid + " gone" + '\0';
  text += "2 R. N... 100644 100644 100644 " + oid + " " + oid + " R100 new" + '\0' + "old" + '\0';
  text += "u UU N... 100644 100644 100644 100644 " + oid + " " + oid + " " + oid + " both" + '\0';
  text += std::string("? un tracked") + '\0';
  const StatusOutput status = parse_status(text).value();
  CHECK(status.head_oid == oid);
  REQUIRE(status.files.size() == 6);
  CHECK(status.files[0].path == "\x1b[31m");
  CHECK(status.files[0].status == "added");
  CHECK(status.files[1].path == "b c\nd");
  CHECK(status.files[1].index_blob == oid);
  CHECK(status.files[2].status == "conflicted");
  CHECK(status.files[3].status == "deleted");
  CHECK(status.files[4].previous_path == "old");
  CHECK(status.files[5].path == "un tracked");
  CHECK(parse_status(std::string("# branch.oid (initial)") + '\0').value().head_oid.empty());
  CHECK(code(parse_status(std::string("9 what") + '\0')) == "git-output-invalid");
}

TEST_CASE("an index entry that could leave the worktree or enter .git is refused") {
  const std::string oid(40, 'a');
  const auto parse = [&](const std::string& path, const std::string& mode = "100644") {
    return code(parse_index(mode + " " + oid + " 0\t" + path + std::string(1, '\0'), "sha1"));
  };
  CHECK(parse("a/b\nc").empty());
  for (const char* path : {"../a", "/a", "a//b", "a/./b", ".git/hooks/x", "a/.GIT/config", ""}) {
    INFO(path);
    CHECK(parse(path) == "git-output-invalid");
  }
  CHECK(parse("a", "100777") == "git-output-invalid");
}

TEST_CASE("the run's index is merged entry by entry, and a double change is a conflict") {
  const IndexEntry a{"100644", std::string(40, 'a')};
  const IndexEntry b{"100644", std::string(40, 'b')};
  const IndexEntry c{"100755", std::string(40, 'c')};
  const auto key = [](const char* path) { return IndexKey(path, 0); };
  const IndexEntries launch = {
      {key("same"), a}, {key("run"), a}, {key("mine"), a}, {key("gone"), a}, {key("both"), a}};
  IndexEntries ours = launch;
  ours[key("mine")] = b;
  ours[key("both")] = b;
  IndexEntries theirs = launch;
  theirs[key("run")] = b;
  theirs[key("new")] = c;
  theirs.erase(key("gone"));
  theirs[key("both")] = b;
  const IndexMerge merge = merge_index(launch, ours, theirs);
  CHECK_FALSE(merge.conflict.has_value());
  CHECK(merge.set == IndexEntries{{key("run"), b}, {key("new"), c}});
  CHECK(merge.removed == std::vector<IndexKey>{key("gone")});
  theirs[key("both")] = c;
  CHECK(merge_index(launch, ours, theirs).conflict == "both");
  ours = theirs;
  CHECK(merge_index(launch, ours, theirs).empty());
}

}  // namespace
}  // namespace hitchrail::workspace::test
