// Git inside a run whose boundary masks dotfiles: what is masked is absent without a difference, and the
// operator's files and index are afterwards as they were.
#include "workspace/masks.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "boundary/scan.hpp"
#include "repository.hpp"
#include "workspace/inspector.hpp"

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

class MaskedRun {
 public:
  explicit MaskedRun(const Repository& repository) : repository_(repository) {
    worktree_ = need(open_worktree(repository.path));
    boundary::Preset preset;
    preset.id = "test";
    preset.name = "test";
    preset.required_capabilities = {"filesystem.read", "filesystem.write"};
    preset.write_paths = {"<workspace>"};
    preset.dotfile_masking = true;
    boundary::Roots roots;
    roots.worktree = need(boundary::inspect_writable_root(worktree_.root));
    roots.git_objects = need(boundary::resolve_root(worktree_.object_stores.front()));
    roots.scan = std::make_shared<const boundary::Scan>(need(boundary::scan(preset, roots)));
    compiled_ = need(boundary::compile(preset, roots, machine(), {.backend = boundary::Backend::native}));
    if (boundary::admit(compiled_).has_error()) {
      FAIL(told(boundary::admit(compiled_)));
    }
    PrivateGitOptions options;
    options.objects_inside = boundary::inside_objects;
    need(prepare_private_git(worktree_, repository.attempt_fd.get(), repository.attempt, options));
    for (const boundary::Root& mask : compiled_.masks) {
      masked.push_back(mask.path.substr(worktree_.root.size() + 1));
    }
    const Status hidden = hide_masked(worktree_, repository.attempt_fd.get(), repository.attempt, masked,
                                      inspector_git(machine()));
    if (hidden.has_error()) {
      FAIL(told(hidden));
    }
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
  ~MaskedRun() { (void)boundary::remove_placeholders(repository_.attempt_fd.get()); }

  // Output of a shell line inside; it must succeed.
  std::string shell(const std::string& line) {
    boundary::Command command;
    command.executable = need(boundary::resolve_executable(need(boundary::resolve_trusted("/bin/sh")).path));
    command.argv = {"sh", "-c", line};
    command.env = boundary::inside(compiled_, directories_).environment;
    for (const char* who : {"AUTHOR", "COMMITTER"}) {
      command.env.emplace_back(std::string("GIT_") + who + "_NAME", "Run");
      command.env.emplace_back(std::string("GIT_") + who + "_EMAIL", "run@example.org");
    }
    command.cwd = worktree_.root;
    boundary::RunOutput output = need(boundary::run(compiled_, command, {}, {}, directories_));
    INFO(line << ": " << output.value << " " << output.err);
    REQUIRE(output.ok());
    return output.out;
  }

  std::vector<std::string> masked;

 private:
  const Repository& repository_;
  Worktree worktree_;
  boundary::Compiled compiled_;
  boundary::RunDirectories directories_;
};

void fill(const Repository& repository) {
  const std::string& at = repository.path;
  fs::create_directories(at + "/.github/workflows");
  fs::create_directories(at + "/src");
  write(at + "/.github/workflows/ci.yml", "on: push\n");
  write(at + "/.env.example", "KEY=\n");
  write(at + "/src/.npmrc", "registry=x\n");
  write(at + "/.gitignore", "build/\n");
  fs::create_symlink("one.txt", at + "/.link");
  git(at, {"add", "-A"});
  git(at, {"commit", "-q", "-m", "dotfiles"});
  git(at, {"checkout", "-q", "-b", "elsewhere"});  // a branch with other contents of what is masked
  write(at + "/.env.example", "OTHER=\n");
  write(at + "/.github/workflows/ci.yml", "on: pull_request\n");
  git(at, {"commit", "-q", "-a", "-m", "elsewhere"});
  git(at, {"checkout", "-q", "main"});
  write(at + "/.env", "KEY=secret\n");
  fs::create_directory(at + "/.cache");
  write(at + "/.cache/x", "x");
  write(at + "/src/.odd *[x]?\\ \nname", "x");
  write(at + "/.github/untracked", "x");
  write(at + "/.env.example", "KEY=changed by the operator\n");
}

// What the operator's git says, flags of the index included.
std::string outside(const Repository& repository) {
  return git(repository.path, {"status", "--porcelain", "-uall"}) +
         git(repository.path, {"ls-files", "-v", "--stage"});
}

}  // namespace

TEST_CASE("git add and commit and status inside neither see, delete nor add what is masked") {
  const auto format =
      GENERATE(std::vector<std::string>{}, std::vector<std::string>{"--object-format=sha256"});
  const Repository repository(format);
  fill(repository);
  SECTION("an ordinary index") {}
  SECTION("a split index") {
    git(repository.path, {"update-index", "--split-index"});
    REQUIRE(std::any_of(
        fs::directory_iterator(repository.path + "/.git"), fs::directory_iterator(),
        [](const auto& entry) { return entry.path().filename().string().starts_with("sharedindex."); }));
  }
  SECTION("a sparse checkout") {
    git(repository.path, {"sparse-checkout", "set", "--no-cone", "/*"});
  }
  SECTION("something staged") {
    write(repository.path + "/staged.txt", "staged\n");
    git(repository.path, {"add", "staged.txt"});
  }
  const bool staged = exists(repository.path + "/staged.txt");
  const std::string before = outside(repository);
  const std::string tree =
      git(repository.path, {"ls-tree", "-r", "HEAD", ".github", ".env.example", "src", ".link"});
  {
    MaskedRun run(repository);
    CHECK(run.masked == std::vector<std::string>{".cache", ".env", ".env.example", ".github", ".link",
                                                 "src/.npmrc", "src/.odd *[x]?\\ \nname"});
    CHECK(run.shell("git status --porcelain -uall 2>/dev/null") == (staged ? "A  staged.txt\n" : ""));
    CHECK(run.shell("git diff HEAD --name-only") == (staged ? "staged.txt\n" : ""));
    run.shell(
        "echo by the run > one.txt; mkdir -p build; echo x > build/out; echo own > .own; "
        "git add -A 2>/dev/null && git commit -q -m inside");
    CHECK(run.shell("git show --name-status --format= HEAD | sort") ==
          std::string("A\t.own\n") + (staged ? "A\tstaged.txt\n" : "") + "M\tone.txt\n");
    CHECK(run.shell("git status --porcelain -uall 2>/dev/null").empty());
    run.shell("echo more >> one.txt; git commit -q -a -m again");
    CHECK(run.shell("git reset -q --hard HEAD~1 && git status --porcelain -uall 2>/dev/null").empty());
    CHECK(run.shell("git checkout -q elsewhere && git status --porcelain -uall 2>/dev/null && git checkout "
                    "-q main")
              .empty());
    CHECK(run.shell("git ls-tree -r HEAD .github .env.example src .link") == tree + "\n");
  }
  CHECK((staged || outside(repository).find(" M one.txt") != std::string::npos));
  const ImportReport report =
      need(import_commits(need(open_worktree(repository.path)), repository.attempt_fd.get(),
                          repository.attempt, CommitPolicy::allowed, direct_git()));
  REQUIRE(report.not_imported.empty());
  CHECK(git(repository.path, {"log", "-1", "--format=%s"}) == "inside");
  CHECK(git(repository.path, {"ls-tree", "-r", "HEAD", ".github", ".env.example", "src", ".link"}) == tree);
  CHECK(git(repository.path, {"status", "--porcelain", "-uall"}) ==
        git(repository.path, {"status", "--porcelain", "-uall"}));
  const std::string after = outside(repository);
  CHECK(after.find("S ") == std::string::npos);  // no skip-worktree bit came out
  CHECK(after.find(" M .env.example") != std::string::npos);
  CHECK(after.find("?? .env") != std::string::npos);
  CHECK(after.find("?? .github/untracked") != std::string::npos);
  CHECK(after.find("?? .own") == std::string::npos);
  CHECK(read(repository.path + "/.env") == "KEY=secret\n");
  CHECK(read(repository.path + "/.env.example") == "KEY=changed by the operator\n");
  CHECK(read(repository.path + "/.github/workflows/ci.yml") == "on: push\n");
}

TEST_CASE("nothing is masked: the private directory stays as it was made") {
  const Repository repository;
  const Worktree worktree = need(open_worktree(repository.path));
  need(prepare_private_git(worktree, repository.attempt_fd.get(), repository.attempt));
  const std::string config = read(repository.attempt + "/git/config");
  REQUIRE(
      hide_masked(worktree, repository.attempt_fd.get(), repository.attempt, {}, direct_git()).has_value());
  CHECK(read(repository.attempt + "/git/config") == config);
}

TEST_CASE("an exclude pattern means one path") {
  CHECK(exclude_pattern(".env") == "/.env");
  CHECK(exclude_pattern("a/.b*c?[d]\\ \n") == "/a/.b\\*c\\?\\[d]\\\\\\ ?");
}

}  // namespace hitchrail::workspace::test
