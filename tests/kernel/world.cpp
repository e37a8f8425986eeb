#include "kernel/world.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <climits>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace hitchrail::test {

namespace fs = std::filesystem;

World::World() {
  std::string pattern = (fs::temp_directory_path() / "hitchrail-world-XXXXXX").string();
  REQUIRE(mkdtemp(pattern.data()) != nullptr);
  base_ = fs::canonical(pattern).string();
  for (const char* name :
       {"tree", "tree/src", "tree/.git", "outside", "attempt", "attempt/home", "attempt/temp"}) {
    fs::create_directory(path(name));
  }
  write(path("tree/src/main.c"), "int main;\n");
  write(path("tree/.git/HEAD"), "ref: refs/heads/main\n");
  write(path("outside/secret"), "secret\n");
  attempt_ = Fd(open(path("attempt").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

World::~World() {
  std::error_code ignored;
  fs::remove_all(base_, ignored);
}

void World::write(const std::string& path, const std::string& text) const {
  std::ofstream file(path, std::ios::binary);
  file << text;
  REQUIRE(file.good());
}

std::string World::read(const std::string& path) const {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void World::give_to_user() const {
  if (geteuid() != 0) {
    return;
  }
  for (const char* top : {"tree", "attempt/home", "attempt/temp"}) {
    REQUIRE(lchown(path(top).c_str(), 65534, 65534) == 0);
    for (const auto& entry : fs::recursive_directory_iterator(path(top))) {
      REQUIRE(lchown(entry.path().c_str(), 65534, 65534) == 0);
    }
  }
}

boundary::Preset World::preset() const {
  boundary::Preset preset;
  preset.id = "test";
  preset.name = "test";
  preset.required_capabilities = {"filesystem.protected-names", "filesystem.read", "filesystem.write"};
  preset.write_paths = {"<workspace>"};
  preset.digest = "sha256:test";
  return preset;
}

boundary::Roots World::roots(const std::string& programs) const {
  boundary::Roots roots;
  auto tree = boundary::inspect_writable_root(worktree());
  REQUIRE(tree.has_value());
  roots.worktree = tree.value();
  if (!programs.empty()) {
    auto package = boundary::resolve_trusted(programs);
    REQUIRE(package.has_value());
    roots.packages.push_back(package.value());
  }
  roots.operator_home = "/nonexistent/home";
  roots.host_private = {path("attempt")};
  boundary::look_at_mounts(machine(), path("attempt"), roots);
  return roots;
}

boundary::RunDirectories World::run() const {
  boundary::RunDirectories run;
  run.home = boundary::resolve_root(path("attempt/home")).value();
  run.temp = boundary::resolve_root(path("attempt/temp")).value();
  return run;
}

boundary::Compiled World::compiled(boundary::Backend backend) const {
  auto compiled = boundary::compile(preset(), roots(), machine(), {.backend = backend});
  REQUIRE(compiled.has_value());
  const Status admitted = boundary::admit(compiled.value());
  INFO((admitted.has_error() ? admitted.error().code + ": " + admitted.error().detail : ""));
  REQUIRE(admitted.has_value());
  REQUIRE(boundary::make_placeholders(compiled.value(), attempt()).has_value());
  return compiled.value();
}

boundary::Command World::shell(const boundary::Compiled& compiled, const std::string& script) const {
  boundary::Command command;
  command.executable =
      boundary::resolve_executable(boundary::resolve_trusted("/bin/sh").value().path).value();
  command.argv = {"sh", "-c", script};
  command.env = boundary::inside(compiled, run()).environment;
  return command;
}

boundary::RunOutput World::run_shell(boundary::Backend backend, const std::string& script,
                                     boundary::RunLimits limits) const {
  const boundary::Compiled boundary = compiled(backend);
  auto output = boundary::run(boundary, shell(boundary, script), limits, {}, run());
  INFO((output.has_error() ? output.error().code + " " + output.error().object + ": " + output.error().detail
                           : ""));
  REQUIRE(output.has_value());
  REQUIRE(boundary::remove_placeholders(attempt()).has_value());
  return output.value();
}

int processes_with(const std::string& token) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "cmdline", std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    count += text.str().find(token) != std::string::npos ? 1 : 0;
  }
  return count;
}

bool becomes(const std::string& token, int count) {
  for (int i = 0; i < 500; ++i) {
    if (processes_with(token) == count) {
      return true;
    }
    usleep(10'000);
  }
  return false;
}

bool World::has_landlock() {
  return machine().landlock_abi >= 3;
}

std::vector<boundary::Backend> World::backends() {
  std::vector<boundary::Backend> backends{boundary::Backend::native};
  if (has_landlock()) {
    backends.push_back(boundary::Backend::landlock);
  } else {
    WARN("this kernel's Landlock is older than ABI 3: the landlock backend is not tested");
  }
  return backends;
}

const boundary::Machine& World::machine() {
  static const boundary::Machine machine = boundary::probe_machine();
  return machine;
}

}  // namespace hitchrail::test
