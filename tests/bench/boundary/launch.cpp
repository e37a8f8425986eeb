// What a whole boundary costs around `true`, beside bubblewrap with the same namespaces, roots and devices
// (but without Landlock and seccomp, which it does not have), all in one run and interleaved, so that the
// machine's mood hits both.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "boundary/boundary.hpp"
#include "core/ids.hpp"

namespace {

using namespace hitchrail;
using namespace hitchrail::boundary;

struct Series {
  std::string name;
  std::function<bool()> once;
  std::vector<double> ms;
};

double percentile(std::vector<double>& values, double part) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1))];
}

bool spawn_and_wait(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (const std::string& word : words) {
    argv.push_back(const_cast<char*>(word.c_str()));
  }
  argv.push_back(nullptr);
  char* env[] = {nullptr};
  pid_t pid = -1;
  int status = -1;
  return posix_spawn(&pid, argv[0], nullptr, nullptr, argv.data(), env) == 0 &&
         waitpid(pid, &status, 0) == pid && status == 0;
}

std::vector<std::string> bubblewrap(const Compiled& compiled) {
  std::vector<std::string> words{"/usr/bin/bwrap", "--unshare-all", "--die-with-parent", "--new-session"};
  for (const SystemLink& link : compiled.links) {
    if (link.target.find('/', 1) == std::string::npos) {
      words.insert(words.end(), {"--symlink", link.text, link.target});
    }
  }
  for (const Grant& grant : compiled.grants) {
    words.insert(words.end(), {"--ro-bind", grant.source.path, grant.target});
  }
  words.insert(words.end(),
               {"--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--chdir", "/tmp", "/bin/true"});
  return words;
}

template <class T>
T must(Result<T> result) {
  if (result.has_error()) {
    std::fprintf(stderr, "%s: %s: %s\n", result.error().code.c_str(), result.error().object.c_str(),
                 result.error().detail.c_str());
    std::exit(1);
  }
  return std::move(result).value();
}

// `binds` more read-only roots than the system's own.
void add_binds(Compiled& compiled, const std::string& base, int binds) {
  for (int i = 0; i < binds; ++i) {
    const std::string path = base + "/bind" + std::to_string(i);
    std::filesystem::create_directory(path);
    compiled.grants.push_back({"read", must(resolve_root(path)), path, false, true});
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 100;
  const std::string only = argc > 2 ? argv[2] : "";  // one series alone, for a profiler
  if (access("/usr/bin/bwrap", X_OK) != 0) {
    std::fprintf(stderr, "The peer is missing. Remedy: apt-get install bubblewrap\n");
    return 1;
  }
  std::string base = (std::filesystem::temp_directory_path() / "hitchrail-bench-XXXXXX").string();
  if (mkdtemp(base.data()) == nullptr) {
    return 1;
  }
  const Machine machine = probe_machine();
  Compiled plain = must(probe_boundary({}, machine, {.backend = Backend::native}));
  // As many roots as the peer gets: its own list of /etc files is not part of the comparison.
  std::erase_if(plain.grants, [](const Grant& grant) { return grant.target.rfind("/etc/", 0) == 0; });
  Compiled many = plain;
  add_binds(many, base, 40);
  const Compiled whole = must(probe_boundary({}, machine, {.backend = Backend::native}));
  const Compiled landlock = must(probe_boundary({}, machine, {.backend = Backend::landlock}));
  Command command;
  command.executable = must(resolve_executable(must(resolve_trusted("/bin/true")).path));
  command.argv = {"true"};
  const auto inside = [&](const Compiled& compiled) {
    return [&compiled, &command] {
      auto output = run(compiled, command, {});
      return output.has_value() && output.value().ok();
    };
  };
  const std::vector<std::string> peer = bubblewrap(plain);
  const std::vector<std::string> peer_many = bubblewrap(many);
  Series series[] = {{"true", [] { return spawn_and_wait({"/bin/true"}); }, {}},
                     {"bwrap", [&] { return spawn_and_wait(peer); }, {}},
                     {"native, the same roots", inside(plain), {}},
                     {"native, with the list of /etc", inside(whole), {}},
                     {"landlock backend", inside(landlock), {}},
                     {"bwrap, 40 binds more", [&] { return spawn_and_wait(peer_many); }, {}},
                     {"native, 40 binds more", inside(many), {}}};
  bool ok = true;
  for (int round = -3; round < rounds; ++round) {
    for (Series& each : series) {
      if (!only.empty() && each.name != only) {
        continue;
      }
      const std::int64_t start = monotonic_nanos();
      ok = each.once() && ok;
      if (round >= 0) {
        each.ms.push_back(static_cast<double>(monotonic_nanos() - start) / 1e6);
      }
    }
  }
  std::filesystem::remove_all(base);
  if (!only.empty()) {
    return ok ? 0 : 1;
  }
  std::printf("%-32s %8s %8s   (ms, %d rounds)\n", "", "p50", "p99", rounds);
  for (Series& each : series) {
    const double median = percentile(each.ms, 0.5);
    std::printf("%-32s %8.2f %8.2f\n", each.name.c_str(), median, percentile(each.ms, 0.99));
  }
  std::printf("native / bwrap: %.2f, with 40 binds more: %.2f\n",
              percentile(series[2].ms, 0.5) / percentile(series[1].ms, 0.5),
              percentile(series[6].ms, 0.5) / percentile(series[5].ms, 0.5));
  return ok ? 0 : 1;
}
