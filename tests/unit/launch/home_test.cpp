#include "launch/home.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "core/file.hpp"

using namespace hitchrail;

namespace {

struct Folder {
  Folder() {
    char name[] = "/var/tmp/hitchrail-home-XXXXXX";
    path = ::mkdtemp(name);
    fd = Fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  ~Folder() {
    const auto slash = path.rfind('/');
    Fd parent(::open(path.substr(0, slash).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    (void)remove_tree_at(parent.get(), path.substr(slash + 1));
  }
  void write(const std::string& name, std::string_view text) const {
    Fd file(::open((path + "/" + name).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    REQUIRE(write_all(file.get(), text).has_value());
  }
  std::string read(const std::string& name) const {
    Fd file(::open((path + "/" + name).c_str(), O_RDONLY | O_CLOEXEC));
    return file ? read_all(file.get(), 1u << 20).value() : "(absent)";
  }
  bool has(const std::string& name) const { return ::access((path + "/" + name).c_str(), F_OK) == 0; }
  std::string path;
  Fd fd;
};

launch::PlanStage plan_with(std::vector<plugins::HomeFile> files) {
  launch::PlanStage plan;
  plan.planned.plan.home_files = std::move(files);
  return plan;
}

}  // namespace

TEST_CASE("home files get their folders, and mode 0600") {
  Folder home;
  const auto plan = plan_with({{"a/b/config.toml", "x = 1\n"}, {"plain", "y"}});
  REQUIRE(launch::fill_home(home.fd.get(), plan, {}, {}, {}).has_value());
  REQUIRE(home.read("a/b/config.toml") == "x = 1\n");
  struct stat status {};
  REQUIRE(::stat((home.path + "/a/b/config.toml").c_str(), &status) == 0);
  REQUIRE((status.st_mode & 0777) == 0600);
  REQUIRE(home.read("plain") == "y");
}

TEST_CASE("a login file's place is an empty file to bind on") {
  Folder home;
  launch::BoundaryStage boundary;
  boundary.login_file = "/somewhere/auth.json";
  launch::ProfileStage profile;
  profile.profile.login_home_path = "tool/auth.json";
  REQUIRE(launch::fill_home(home.fd.get(), plan_with({}), boundary, profile, {}).has_value());
  REQUIRE(home.has("tool/auth.json"));
  REQUIRE(home.read("tool/auth.json").empty());
}

TEST_CASE("a resume carries that conversation's own session file and nothing else") {
  Folder before;
  Folder home;
  REQUIRE(::mkdir((before.path + "/sessions").c_str(), 0700) == 0);
  REQUIRE(::mkdir((before.path + "/sessions/2026").c_str(), 0700) == 0);
  before.write("sessions/2026/rollout-mine.jsonl", "mine");
  before.write("sessions/2026/rollout-other.jsonl", "other");
  before.write("sessions/2026/notes-mine.txt", "notes");
  before.write("config.toml", "planted");
  REQUIRE(::symlink("/etc/hostname", (before.path + "/sessions/2026/rollout-mine2.jsonl").c_str()) == 0);
  launch::PlanStage plan = plan_with({});
  plan.planned.plan.file_streams.push_back({8, 1, 1u << 20, true, "sessions/*/rollout-*.jsonl"});
  launch::WorktreeStage worktree;
  worktree.resumed.emplace();
  worktree.resumed->conversation_id = "mine";
  worktree.resumed->home = Fd(::dup(before.fd.get()));
  REQUIRE(launch::fill_home(home.fd.get(), plan, {}, {}, worktree).has_value());
  REQUIRE(home.read("sessions/2026/rollout-mine.jsonl") == "mine");
  REQUIRE_FALSE(home.has("sessions/2026/rollout-other.jsonl"));
  REQUIRE_FALSE(home.has("sessions/2026/rollout-mine2.jsonl"));
  REQUIRE_FALSE(home.has("sessions/2026/notes-mine.txt"));
  REQUIRE_FALSE(home.has("config.toml"));
}
