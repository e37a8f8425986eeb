// The proof: what it is remembered by, what is never remembered, and that a launch relies on it.
#include <fcntl.h>
#include <signal.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "boundary/probe_world.hpp"
#include "boundary/prove.hpp"
#include "kernel/world.hpp"

namespace hitchrail::test {
namespace {

namespace fs = std::filesystem;
using boundary::Backend;

// A copy of the three programs that the test may change, and a cache beside it.
class Copy {
 public:
  Copy() {
    const std::string init = boundary::init_path().value();
    from_ = init.substr(0, init.rfind('/'));
    before_ = std::getenv("HITCHRAIL_LIBEXEC") != nullptr ? std::getenv("HITCHRAIL_LIBEXEC") : "";
    std::string pattern = (fs::temp_directory_path() / "hitchrail-copy-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    folder = fs::canonical(pattern).string();
    for (const char* name : {"hitchrail-init", "hitchrail-probe"}) {
      fs::copy_file(from_ + "/" + name, folder + "/" + name);
    }
    fs::create_directory(folder + "/cache");
    cache = Fd(open((folder + "/cache").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    setenv("HITCHRAIL_LIBEXEC", folder.c_str(), 1);
  }
  ~Copy() {
    before_.empty() ? unsetenv("HITCHRAIL_LIBEXEC") : setenv("HITCHRAIL_LIBEXEC", before_.c_str(), 1);
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;

  boundary::Proof prove() const {
    auto proof = boundary::prove(World::machine(), Backend::native, cache.get());
    INFO((proof.has_error() ? proof.error().code + ": " + proof.error().detail : ""));
    REQUIRE(proof.has_value());
    boundary::remember_proof(cache.get(), proof.value().cache_name, proof.value().cache_document);
    return std::move(proof).value();
  }
  [[nodiscard]] std::string cached() const {
    for (const auto& entry : fs::directory_iterator(folder + "/cache")) {
      return entry.path().string();
    }
    return "";
  }

  std::string folder;
  Fd cache;

 private:
  std::string from_, before_;
};

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The same size, other bytes (behind the ELF's sections: it still runs), the old times put back.
void replace_quietly(const std::string& path) {
  struct stat before {};
  REQUIRE(stat(path.c_str(), &before) == 0);
  const int fd = open(path.c_str(), O_WRONLY);
  REQUIRE(fd >= 0);
  // The padding bytes of the ELF identification are looked at by nobody.
  REQUIRE(pwrite(fd, "x", 1, 15) == 1);
  close(fd);
  const timespec times[] = {before.st_atim, before.st_mtim};
  REQUIRE(utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
  struct stat after {};
  REQUIRE(stat(path.c_str(), &after) == 0);
  REQUIRE(after.st_size == before.st_size);
  REQUIRE(after.st_mtim.tv_nsec == before.st_mtim.tv_nsec);
}

}  // namespace

TEST_CASE("a proof is remembered, privately, and believed while the programs are the same") {
  const Copy copy;
  const boundary::Proof first = copy.prove();
  CHECK_FALSE(first.from_cache);
  CHECK(first.proves("filesystem.read"));
  CHECK(first.proves("workspace.usable"));
  struct stat info {};
  REQUIRE(stat(copy.cached().c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  const boundary::Proof second = copy.prove();
  CHECK(second.from_cache);
  CHECK(second.proved() == first.proved());
  CHECK(second.outcomes.size() == first.outcomes.size());
  // Touched, but the same content: hashed again and believed.
  REQUIRE(utimensat(AT_FDCWD, (copy.folder + "/hitchrail-init").c_str(), nullptr, 0) == 0);
  CHECK(copy.prove().from_cache);
  // Other bytes of the same size with the old times: not believed.
  replace_quietly(copy.folder + "/hitchrail-init");
  CHECK_FALSE(copy.prove().from_cache);
  CHECK(copy.prove().from_cache);
  replace_quietly(copy.folder + "/hitchrail-probe");
  // (Nothing but the probe's bytes changed by one; the init's are equal again.)
  CHECK_FALSE(copy.prove().from_cache);
  // What others could have written, what is damaged, what is another machine's: not believed.
  REQUIRE(chmod(copy.cached().c_str(), 0644) == 0);
  CHECK_FALSE(copy.prove().from_cache);
  std::string text = content(copy.cached());
  text.replace(text.find("\"proved\":true"), 13, "\"proved\":null");
  std::ofstream(copy.cached(), std::ios::binary | std::ios::trunc) << text;
  CHECK_FALSE(copy.prove().from_cache);
  boundary::Machine other = World::machine();
  other.landlock_abi = 1;
  CHECK_FALSE(boundary::prove(other, Backend::native, copy.cache.get()).value().from_cache);
}

TEST_CASE("a proof that failed is not remembered, and what it required is refused by name") {
  const Copy copy;
  // An init that cannot build a boundary proves nothing.
  fs::remove(copy.folder + "/hitchrail-init");
  fs::copy_file("/bin/true", copy.folder + "/hitchrail-init");
  const auto failed = boundary::prove(World::machine(), Backend::native, copy.cache.get());
  REQUIRE(failed.has_error());
  CHECK(copy.cached().empty());
  boundary::ProofRequest request;
  request.backend = Backend::native;
  request.required = {"filesystem.read"};
  const auto proofs = boundary::proof(World::machine(), request);
  REQUIRE(proofs.has_value());
  const World world;
  boundary::Options options;
  options.backend = Backend::native;
  options.proven = proofs.value();
  boundary::Preset preset = world.preset();
  const auto compiled = boundary::compile(preset, world.roots(), World::machine(), options);
  REQUIRE(compiled.value().blockers.size() == 1);
  CHECK(compiled.value().blockers.front().error.code == "capability-unproven");
  CHECK(compiled.value().blockers.front().error.detail.find("filesystem.read") != std::string::npos);
}

TEST_CASE(
    "one probe that gets through is a refusal that names capability, probe and backend; another backend is "
    "taken") {
  const World world;
  boundary::Preset preset = world.preset();
  preset.required_capabilities = {"filesystem.read"};
  boundary::ProvenBackend native;
  native.backend = Backend::native;
  native.capabilities = {"kernel.surface", "workspace.usable"};
  native.failed = {"filesystem.read: read_outside"};
  boundary::Options options;
  options.proven = std::vector<boundary::ProvenBackend>{native};
  const auto refused = boundary::compile(preset, world.roots(), World::machine(), options).value();
  REQUIRE_FALSE(refused.blockers.empty());
  const Error& error = refused.blockers.front().error;
  CHECK(error.code == "capability-unproven");
  CHECK(error.object == "backend native");
  CHECK(error.detail.find("filesystem.read: read_outside") != std::string::npos);
  if (World::has_landlock()) {
    boundary::ProvenBackend landlock;
    landlock.backend = Backend::landlock;
    landlock.capabilities = {"filesystem.read", "kernel.surface", "workspace.usable"};
    options.proven->push_back(landlock);
    const auto other = boundary::compile(preset, world.roots(), World::machine(), options).value();
    CHECK(other.blockers.empty());
    CHECK(other.backend == Backend::landlock);
  }
}

TEST_CASE("proving leaves nothing behind") {
  const auto names = [] {
    std::set<std::string> list;
    for (const char* folder : {"/tmp", "/dev/shm"}) {
      std::error_code ignored;
      for (const auto& entry : fs::directory_iterator(folder, ignored)) {
        const std::string name = entry.path().filename().string();
        if (name.rfind("hr-probe-", 0) == 0 || name.rfind("hitchrail-probe-", 0) == 0) {
          list.insert(name);
        }
      }
    }
    return list;
  };
  const auto before = names();
  REQUIRE(boundary::prove(World::machine(), Backend::native).has_value());
  // Another program may prove something at the same time: each name that is new has to go (they are random).
  std::set<std::string> left;
  for (const std::string& name : names()) {
    if (before.count(name) == 0) {
      left.insert(name);
    }
  }
  for (int i = 0; i < 300 && !left.empty(); ++i) {
    usleep(100'000);
    const auto now = names();
    std::erase_if(left, [&](const std::string& name) { return now.count(name) == 0; });
  }
  CHECK(left.empty());
}

TEST_CASE("a prover that is killed leaves no shared memory, no queue and no folder") {
  std::string base = (fs::temp_directory_path() / "hitchrail-prover-XXXXXX").string();
  REQUIRE(mkdtemp(base.data()) != nullptr);
  int in[2];
  int out[2];
  REQUIRE(pipe2(in, O_CLOEXEC) == 0);
  REQUIRE(pipe2(out, O_CLOEXEC) == 0);
  const std::string program = boundary::probe_path().value();
  const pid_t prover = fork();
  if (prover == 0) {
    dup2(in[0], 0);
    dup2(out[1], 1);
    execl(program.c_str(), "hitchrail-probe", "world", base.c_str(), nullptr);
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  std::string told;
  char buffer[512];
  ssize_t got = 0;
  while (told.find("ready") == std::string::npos && (got = read(out[0], buffer, sizeof buffer)) > 0) {
    told.append(buffer, static_cast<std::size_t>(got));
  }
  const auto value = [&](const std::string& name) {
    const std::size_t at = told.find(name + "=");
    REQUIRE(at != std::string::npos);
    return told.substr(at + name.size() + 1, told.find('\n', at) - at - name.size() - 1);
  };
  const auto key = static_cast<key_t>(std::stol(value("HR_KEY")));
  const std::string memory = value("HR_SHM_NAME");
  REQUIRE(shmget(key, 0, 0) >= 0);
  REQUIRE(fs::exists(memory));
  kill(prover, SIGKILL);
  waitpid(prover, nullptr, 0);
  bool gone = false;
  for (int tries = 0; tries < 500 && !gone; ++tries) {
    gone = shmget(key, 0, 0) < 0 && errno == ENOENT && !fs::exists(memory) && fs::is_empty(base);
    usleep(10'000);
  }
  CHECK(gone);
  close(in[1]);
  close(out[0]);
  fs::remove_all(base);
}

}  // namespace hitchrail::test
