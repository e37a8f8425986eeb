// Repositories made by an attacker. Each plant is first shown to work (the plain git program, outside, runs
// it or follows it), then the service is shown the same repository: nothing runs outside the boundary,
// nothing hangs, the outcome has a code.

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>

#include "repository.hpp"

namespace hitchrail::workspace::test {
namespace {

namespace fs = std::filesystem;

using Clock = std::chrono::steady_clock;

// A program that leaves a file outside the repository when it runs anywhere but in a boundary.
struct Canary {
  explicit Canary(const Repository& repository) : file(repository.scratch.path() + "/canary/ran") {
    program = repository.scratch.path() + "/canary/program";
    write(program, "#!/bin/sh\ntouch " + file + "\ncat\n");
    ::chmod(program.c_str(), 0755);
  }
  bool take() const { return fs::remove(file); }
  std::string file, program;
};

// What a launch and a finish do with a repository; "" or the first error's code.
std::string whole_visit(const Repository& repository, int seconds = 20) {
  auto worktree = open_worktree(repository.path);
  if (worktree.has_error()) {
    return worktree.error().code;
  }
  BaselineLimits limits;
  limits.timeout = std::chrono::seconds(seconds);
  auto baseline = capture_baseline(worktree.value(), confined_git(), limits);
  if (baseline.has_error()) {
    return baseline.error().code;
  }
  const int attempt = repository.attempt_fd.get();
  auto out = prepare_private_git(worktree.value(), attempt, repository.attempt);
  if (out.has_error()) {
    return out.error().code;
  }
  auto evidence =
      collect_evidence(worktree.value(), baseline.value(), attempt, repository.attempt, confined_git());
  if (evidence.has_error()) {
    return evidence.error().code;
  }
  auto report =
      import_commits(worktree.value(), attempt, repository.attempt, CommitPolicy::allowed, confined_git());
  return report.has_error() ? report.error().code : "";
}

TEST_CASE("a program planted in the configuration runs for git outside, and never for us") {
  const Repository repository;
  const Canary canary(repository);
  std::vector<std::string> provoke = {"status"};
  SECTION("core.fsmonitor") {
    git(repository.path, {"config", "core.fsmonitor", canary.program});
  }
  SECTION("core.fsmonitor through an include") {
    write(repository.path + "/included", "[core]\n\tfsmonitor = " + canary.program + "\n");
    git(repository.path, {"config", "include.path", repository.path + "/included"});
  }
  SECTION("filter.clean") {
    git(repository.path, {"config", "filter.evil.clean", canary.program});
    write(repository.path + "/.gitattributes", "* filter=evil\n");
    write(repository.path + "/one.txt", "changed\n");
    provoke = {"diff"};
  }
  SECTION("filter.process, required") {
    git(repository.path, {"config", "filter.evil.process", canary.program});
    git(repository.path, {"config", "filter.evil.required", "true"});
    write(repository.path + "/.gitattributes", "* filter=evil\n");
    write(repository.path + "/one.txt", "one, again?\n");
    provoke = {"diff"};
  }
  SECTION("textconv") {
    git(repository.path, {"config", "diff.evil.textconv", canary.program});
    write(repository.path + "/.gitattributes", "* diff=evil\n");
    write(repository.path + "/one.txt", "changed\n");
    provoke = {"diff"};
  }
  SECTION("a hook of the index") {
    write(repository.path + "/.git/hooks/post-index-change", "#!/bin/sh\ntouch " + canary.file + "\n");
    ::chmod((repository.path + "/.git/hooks/post-index-change").c_str(), 0755);
    provoke = {"update-index", "--force-write-index"};
  }
  SECTION("a hook of refs") {
    write(repository.path + "/.git/hooks/reference-transaction", "#!/bin/sh\ntouch " + canary.file + "\n");
    ::chmod((repository.path + "/.git/hooks/reference-transaction").c_str(), 0755);
    provoke = {"update-ref", "refs/heads/other", "HEAD"};
  }
  (void)git_ok(repository.path, provoke);
  REQUIRE(canary.take());  // the plant works
  const std::string answer = whole_visit(repository);
  CHECK((answer.empty() || answer == "git-timeout" || answer == "git-failed"));
  CHECK_FALSE(canary.take());
}

TEST_CASE("a planted program can write nowhere, not even into the repository") {
  const Repository repository;
  write(repository.scratch.path() + "/canary/program", "#!/bin/sh\necho x > " + repository.path +
                                                           "/.git/planted\necho x > " + repository.path +
                                                           "/planted\ncat\n");
  ::chmod((repository.scratch.path() + "/canary/program").c_str(), 0755);
  fs::copy(repository.scratch.path() + "/canary/program", repository.path + "/program");
  ::chmod((repository.path + "/program").c_str(), 0755);
  git(repository.path, {"config", "filter.evil.clean", repository.path + "/program"});
  write(repository.path + "/.gitattributes", "*.txt filter=evil\n");
  write(repository.path + "/one.txt", "changed\n");
  (void)whole_visit(repository);
  CHECK_FALSE(exists(repository.path + "/planted"));
  CHECK_FALSE(exists(repository.path + "/.git/planted"));
  (void)git_ok(repository.path, {"status"});
  CHECK(exists(repository.path + "/.git/planted"));  // outside it can
}

TEST_CASE("a filter that never ends is ended, with everything it started") {
  const Repository repository;
  write(repository.path + "/program", "#!/bin/sh\nsleep 987 & sleep 987\n");
  ::chmod((repository.path + "/program").c_str(), 0755);
  git(repository.path, {"config", "filter.evil.clean", repository.path + "/program"});
  write(repository.path + "/.gitattributes", "*.txt filter=evil\n");
  write(repository.path + "/one.txt", "changed\n");
  BaselineLimits limits;
  limits.timeout = std::chrono::milliseconds(700);
  const auto begun = Clock::now();
  CHECK(code(capture_baseline(repository.open(), confined_git(), limits)) == "git-timeout");
  CHECK(Clock::now() - begun < std::chrono::seconds(5));
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") == std::string::npos) {
      CHECK(read(entry.path().string() + "/cmdline") != std::string("sleep\0"
                                                                    "987\0",
                                                                    10));
    }
  }
}

TEST_CASE("links in git's metadata are refused before anything is read through them") {
  const Repository repository;
  write(repository.scratch.path() + "/outside", "ref: refs/heads/main\n");
  for (const std::string name : {"HEAD", "index", "config", "packed-refs", "info/exclude", "objects", "refs",
                                 "hooks", "refs/heads", "objects/pack", "objects/info", "info"}) {
    INFO(name);
    const std::string path = repository.path + "/.git/" + name;
    const std::string saved = repository.scratch.path() + "/saved";
    const bool there = exists(path);
    if (there) {
      fs::rename(path, saved);
    }
    fs::create_symlink(there ? saved : repository.scratch.path() + "/outside", path);
    CHECK(whole_visit(repository) == "worktree-metadata-unsafe");
    fs::remove(path);
    if (there) {
      fs::rename(saved, path);
    }
  }
  CHECK(whole_visit(repository).empty());
}

TEST_CASE("a link or a FIFO among the refs is refused") {
  const Repository repository;
  SECTION("link") {
    fs::create_symlink("/etc/hostname", repository.path + "/.git/refs/heads/evil");
  }
  SECTION("fifo") {
    REQUIRE(::mkfifo((repository.path + "/.git/refs/heads/evil").c_str(), 0600) == 0);
  }
  CHECK(whole_visit(repository) == "worktree-metadata-unsafe");
}

TEST_CASE("a .git that is a link, a FIFO or a socket is refused") {
  const Repository repository;
  const std::string dot_git = repository.path + "/.git";
  fs::rename(dot_git, repository.scratch.path() + "/real");
  SECTION("link") {
    fs::create_symlink("../real", dot_git);
  }
  SECTION("fifo") {
    REQUIRE(::mkfifo(dot_git.c_str(), 0600) == 0);
  }
  SECTION("socket") {
    const Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    REQUIRE(dot_git.size() < sizeof address.sun_path);
    dot_git.copy(address.sun_path, dot_git.size());
    REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  }
  CHECK(whole_visit(repository) == "worktree-metadata-unsafe");
}

TEST_CASE("a FIFO in the place of a file that git opens never makes us wait") {
  const Repository repository;
  std::string expected = "worktree-metadata-unsafe";
  const auto plant = [&](const std::string& name) {
    fs::remove(repository.path + "/" + name);
    REQUIRE(::mkfifo((repository.path + "/" + name).c_str(), 0644) == 0);
  };
  SECTION("config") {
    plant(".git/config");
  }
  SECTION("index") {
    plant(".git/index");
  }
  SECTION("HEAD") {
    plant(".git/HEAD");
  }
  SECTION("exclude") {
    plant(".git/info/exclude");
  }
  SECTION("alternates") {
    plant(".git/objects/info/alternates");
  }
  SECTION("top .gitignore") {
    plant(".gitignore");
    expected = "worktree-unsafe-entry";
  }
  SECTION("top .gitattributes") {
    plant(".gitattributes");
    expected = "worktree-unsafe-entry";
  }
  SECTION("a .gitignore further down, found by name after the time-out") {
    plant("dir/.gitignore");
    expected = "worktree-unsafe-entry";
  }
  const auto begun = Clock::now();
  CHECK(whole_visit(repository, 2) == expected);
  CHECK(Clock::now() - begun < std::chrono::seconds(15));
}

TEST_CASE("FIFOs, sockets and unreadable directories elsewhere in the tree do no harm") {
  const Repository repository;
  REQUIRE(::mkfifo((repository.path + "/pipe").c_str(), 0644) == 0);
  fs::remove(repository.path + "/one.txt");
  REQUIRE(::mkfifo((repository.path + "/one.txt").c_str(), 0644) == 0);
  fs::create_directories(repository.path + "/closed");
  write(repository.path + "/closed/x", "x");
  ::chmod((repository.path + "/closed").c_str(), 0000);
  fs::create_symlink("loop", repository.path + "/loop");
  const std::string answer = whole_visit(repository);
  ::chmod((repository.path + "/closed").c_str(), 0755);
  CHECK(answer.empty());
}

TEST_CASE("links in the worktree are told as links, never followed") {
  const Repository repository;
  write(repository.scratch.path() + "/secret", "secret");
  fs::remove(repository.path + "/one.txt");
  fs::create_symlink("../secret", repository.path + "/one.txt");
  fs::remove_all(repository.path + "/dir");
  fs::create_symlink("..", repository.path + "/dir");
  fs::create_symlink("/etc/hostname", repository.path + "/.gitignore");
  const Baseline baseline = capture_baseline(repository.open(), confined_git()).value();
  for (const FileState& file : baseline.files) {
    INFO(file.path);
    CHECK(file.path.find("secret") == std::string::npos);
    CHECK(file.path.find("dir/") != 0 + (file.status == "deleted" ? 1U : 0U));
  }
  CHECK(whole_visit(repository).empty());
}

TEST_CASE("a repository with more changed files than git may name is refused in time") {
  const Repository repository;
  const std::string many = repository.path + "/many";
  fs::create_directory(many);
  for (int i = 0; i < 100'000; ++i) {
    const std::string name = many + "/" + std::to_string(i);
    REQUIRE(::mknod(name.c_str(), S_IFREG | 0644, 0) == 0);
  }
  const auto begun = Clock::now();
  BaselineLimits limits;
  limits.max_status_bytes = 1u << 20;
  CHECK(code(capture_baseline(repository.open(), confined_git(), limits)) == "git-output");
  CHECK(Clock::now() - begun < std::chrono::seconds(30));
  write(repository.path + "/.gitignore", "many/\n");
  CHECK(whole_visit(repository).empty());
}

TEST_CASE("a private directory that the run has turned into a trap springs nothing") {
  const Repository repository;
  const Canary canary(repository);
  const Worktree worktree = repository.open();
  const Baseline baseline = capture_baseline(worktree, confined_git()).value();
  REQUIRE(prepare_private_git(worktree, repository.attempt_fd.get(), repository.attempt).has_value());
  write(repository.path + "/one.txt", "by the run\n");
  git_in_run(repository, {"commit", "-q", "-a", "-m", "x"});
  const std::string own = repository.attempt + "/git";
  write(own + "/config", "[core]\n\tfsmonitor = " + canary.program + "\n\tsshCommand = " + canary.program +
                             "\n\tpager = " + canary.program + "\n[uploadpack]\n\tpackObjectsHook = " +
                             canary.program + "\n[include]\n\tpath = /etc/hostname\n");
  for (const char* hook : {"post-index-change", "reference-transaction", "pre-push"}) {
    write(own + "/hooks/" + hook, "#!/bin/sh\ntouch " + canary.file + "\n");
    ::chmod((own + "/hooks/" + hook).c_str(), 0755);
  }
  write(own + "/objects/info/alternates", "/etc\n../../../nowhere\n");
  fs::remove_all(own + "/logs");
  fs::create_symlink("/etc", own + "/logs");
  fs::create_symlink("/etc/passwd", own + "/shallow");
  (void)git_ok(repository.path, {"--git-dir=" + own, "--work-tree=" + repository.path, "status"});
  REQUIRE(canary.take());
  REQUIRE(::mkfifo((own + "/info/grafts").c_str(), 0600) == 0);
  auto evidence =
      collect_evidence(worktree, baseline, repository.attempt_fd.get(), repository.attempt, confined_git());
  auto report = import_commits(worktree, repository.attempt_fd.get(), repository.attempt,
                               CommitPolicy::allowed, confined_git());
  CHECK_FALSE(canary.take());
  REQUIRE(evidence.has_value());
  CHECK(evidence.value().changed.size() == 1);
  // Its objects need the alternates that were overwritten only for what the real store has anyway.
  REQUIRE(report.has_value());
  CHECK(report.value().imported.size() == 2);
  CHECK(git(repository.path, {"show", "HEAD:one.txt"}) == "by the run");
}

TEST_CASE("a FIFO among the run's objects costs its commits, never the evidence of its files") {
  const Repository repository;
  const Worktree worktree = repository.open();
  const Baseline baseline = capture_baseline(worktree, confined_git()).value();
  REQUIRE(prepare_private_git(worktree, repository.attempt_fd.get(), repository.attempt).has_value());
  write(repository.path + "/one.txt", "by the run\n");
  git_in_run(repository, {"commit", "-q", "-a", "-m", "x"});
  const std::string own = repository.attempt + "/git";
  SECTION("alternates") {
    fs::remove(own + "/objects/info/alternates");
    REQUIRE(::mkfifo((own + "/objects/info/alternates").c_str(), 0600) == 0);
  }
  SECTION("a pack") {
    fs::create_directories(own + "/objects/pack");
    REQUIRE(::mkfifo((own + "/objects/pack/pack-x.idx").c_str(), 0600) == 0);
  }
  const auto begun = Clock::now();
  const Evidence evidence =
      collect_evidence(worktree, baseline, repository.attempt_fd.get(), repository.attempt, confined_git())
          .value();
  CHECK(evidence.changed.size() == 1);
  CHECK_FALSE(evidence.head_attributable);
  const ImportReport report = import_commits(worktree, repository.attempt_fd.get(), repository.attempt,
                                             CommitPolicy::allowed, confined_git())
                                  .value();
  CHECK(report.imported.empty());
  CHECK(report.not_imported.at(0).reason == "private-damaged");
  CHECK(Clock::now() - begun < std::chrono::seconds(8));
}

TEST_CASE("links planted where the run's objects are lead nowhere") {
  const Repository repository;
  const Worktree worktree = repository.open();
  REQUIRE(prepare_private_git(worktree, repository.attempt_fd.get(), repository.attempt).has_value());
  write(repository.path + "/one.txt", "by the run\n");
  git_in_run(repository, {"commit", "-q", "-a", "-m", "x"});
  const std::string own = repository.attempt + "/git";
  fs::rename(own + "/objects", repository.scratch.path() + "/elsewhere");
  fs::create_symlink(repository.scratch.path() + "/elsewhere", own + "/objects");
  auto report = import_commits(worktree, repository.attempt_fd.get(), repository.attempt,
                               CommitPolicy::allowed, confined_git());
  REQUIRE(report.has_value());
  CHECK(report.value().imported.empty());
  CHECK(report.value().keep_private);
}

}  // namespace
}  // namespace hitchrail::workspace::test
