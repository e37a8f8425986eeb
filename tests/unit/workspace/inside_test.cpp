// The private git directory as a run sees it: the run's own boundary, compiled from a preset, with the real
// git program in it.

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "boundary/boundary.hpp"
#include "repository.hpp"

namespace hitchrail::workspace::test {
namespace {

namespace fs = std::filesystem;

const boundary::Machine& machine() {
  static const boundary::Machine found = boundary::probe_machine();
  return found;
}

template <class T>
T need(Result<T> result) {
  if (result.has_error()) {
    FAIL(told(result));
  }
  return std::move(result).value();
}

// One run: private directory, boundary, and git in it.
class Run {
 public:
  Run(const Repository& repository, const std::string& worktree_path) : repository_(repository) {
    worktree_ = need(open_worktree(worktree_path));
    boundary::Preset preset;
    preset.id = "test";
    preset.name = "test";
    preset.required_capabilities = {"filesystem.read", "filesystem.write"};
    preset.read_paths = {"<workspace>"};
    preset.write_paths = {"<workspace>"};
    preset.network = boundary::Network::none;
    boundary::Roots roots;
    roots.worktree = need(boundary::inspect_writable_root(worktree_.root));
    roots.git_objects = need(boundary::resolve_root(worktree_.object_stores.front()));
    compiled_ = need(boundary::compile(preset, roots, machine()));
    if (boundary::admit(compiled_).has_error()) {
      FAIL(told(boundary::admit(compiled_)));
    }
    PrivateGitOptions options;
    if (compiled_.backend == boundary::Backend::native) {
      options.objects_inside = boundary::inside_objects;
    }
    need(prepare_private_git(worktree_, repository.attempt_fd.get(), repository.attempt, options));
    for (const char* name : {"home", "temp"}) {
      fs::create_directory(repository.attempt + "/" + name);
      ::chmod((repository.attempt + "/" + name).c_str(), 0700);
    }
    directories_.home = need(boundary::resolve_root(repository.attempt + "/home"));
    directories_.temp = need(boundary::resolve_root(repository.attempt + "/temp"));
    directories_.git = need(boundary::resolve_root(repository.attempt + "/git"));
    if (boundary::make_placeholders(compiled_, repository.attempt_fd.get()).has_error()) {
      FAIL("no placeholders");
    }
  }
  ~Run() { (void)boundary::remove_placeholders(repository_.attempt_fd.get()); }

  boundary::RunOutput program(const std::string& path, std::vector<std::string> argv,
                              const std::string& cwd = "") {
    boundary::Command command;
    const boundary::Root root = need(boundary::resolve_trusted(path));
    command.executable = need(boundary::resolve_executable(root.path));
    command.argv = std::move(argv);
    command.env = boundary::inside(compiled_, directories_).environment;
    for (const char* who : {"AUTHOR", "COMMITTER"}) {
      command.env.emplace_back(std::string("GIT_") + who + "_NAME", "Run");
      command.env.emplace_back(std::string("GIT_") + who + "_EMAIL", "run@example.org");
    }
    command.cwd = cwd.empty() ? worktree_.root : cwd;
    return need(boundary::run(compiled_, command, {}, {}, directories_));
  }

  std::string git(std::vector<std::string> args, const std::string& cwd = "") {
    args.insert(args.begin(), "git");
    boundary::RunOutput output = program("/usr/bin/git", args, cwd);
    if (!output.ok()) {
      FAIL(args.at(1) << ": " << output.value << " " << output.err);
    }
    while (!output.out.empty() && output.out.back() == '\n') {
      output.out.pop_back();
    }
    return output.out;
  }

  // Exit status of a shell line inside.
  int shell(const std::string& line) { return program("/bin/sh", {"sh", "-c", line}).value; }

  const Worktree& worktree() const { return worktree_; }

 private:
  const Repository& repository_;
  Worktree worktree_;
  boundary::Compiled compiled_;
  boundary::RunDirectories directories_;
};

TEST_CASE("git inside the run answers as outside, and its commit comes out by the policy") {
  const Repository repository;
  std::string path = repository.path;
  std::string branch = "refs/heads/main";
  SECTION("a plain repository") {}
  SECTION("a linked worktree") {
    path = repository.scratch.path() + "/linked";
    git(repository.path, {"worktree", "add", "-q", path, "-b", "side"});
    branch = "refs/heads/side";
  }
  SECTION("a submodule") {
    const Repository inner;
    git(repository.path, {"submodule", "--quiet", "add", inner.path, "sub"});
    path = repository.path + "/sub";
  }
  fs::create_directories(path + "/deep/er");
  Run run(repository, path);
  CHECK(run.git({"rev-parse", "--show-toplevel"}) == path);
  CHECK(run.git({"rev-parse", "--show-toplevel"}, path + "/deep/er") ==
        git(path + "/deep/er", {"rev-parse", "--show-toplevel"}));
  CHECK(run.git({"log", "--format=%H"}) == git(path, {"log", "--format=%H"}));
  CHECK(run.git({"status", "--porcelain"}).find("one.txt") == std::string::npos);
  write(path + "/one.txt", "by the run\n");
  run.git({"add", "one.txt"});
  run.git({"commit", "-q", "-m", "inside"});
  CHECK(run.git({"status", "--porcelain"}).find("one.txt") == std::string::npos);
  CHECK(git(path, {"log", "-1", "--format=%s"}) == "second");
  const ImportReport report = need(import_commits(need(open_worktree(path)), repository.attempt_fd.get(),
                                                  repository.attempt, CommitPolicy::allowed, direct_git()));
  REQUIRE(report.imported.size() == 2);
  CHECK(report.imported.at(0).ref == branch);
  CHECK(git(path, {"log", "-1", "--format=%an %s"}) == "Run inside");
  CHECK(git(path, {"status", "--porcelain"}).find("one.txt") == std::string::npos);
}

TEST_CASE("nothing of the real git directory can be written from inside") {
  const Repository repository;
  std::string path = repository.path;
  SECTION("a plain repository") {}
  SECTION("a linked worktree") {
    path = repository.scratch.path() + "/linked";
    git(repository.path, {"worktree", "add", "-q", path, "-b", "side"});
  }
  const auto state = [&] {
    std::string out;
    for (const auto& entry : fs::recursive_directory_iterator(repository.path + "/.git")) {
      out += entry.path().string() + (entry.is_regular_file() ? read(entry.path().string()) : "") + "\n";
    }
    return out + read(path + "/.git");
  };
  const std::string before = state();
  Run run(repository, path);
  // Inside, these write to the private directory, or fail; outside there is no trace of them.
  (void)run.shell("git config core.fsmonitor /bin/false");
  (void)run.shell("echo x > .git/hooks/pre-commit; mkdir -p .git/hooks; echo x > .git/hooks/pre-commit");
  (void)run.shell("git pack-refs --all; git reflog expire --all --expire=now; git gc -q --prune=now");
  (void)run.shell("rm -rf .git; mv .git away; echo gitdir: /tmp > .git");
  (void)run.shell("rm -rf " + repository.path + "/.git/*; echo x > " + repository.path + "/.git/config");
  (void)run.shell("git worktree add /tmp/w; git branch -D main; git update-ref -d HEAD");
  CHECK(state() == before);
  CHECK(run.shell("touch written-in-the-worktree") == 0);
  CHECK(exists(path + "/written-in-the-worktree"));
}

TEST_CASE("a repository with submodules can be looked at and committed to from inside") {
  const Repository inner;
  const Repository repository;
  git(repository.path, {"submodule", "--quiet", "add", inner.path, "sub"});
  git(repository.path, {"commit", "-q", "-m", "sub"});
  Run run(repository, repository.path);
  CHECK(run.git({"status", "--porcelain"}).empty());
  write(repository.path + "/one.txt", "by the run\n");
  run.git({"add", "one.txt"});
  run.git({"commit", "-q", "-m", "inside"});
  CHECK(run.git({"diff", "--stat", "HEAD~1"}).find("sub") == std::string::npos);
}

}  // namespace
}  // namespace hitchrail::workspace::test
