// How fast a harness's output becomes evidence, on one core:
//   mapping alone                         framing, the adapter's map_events, callbacks; in this process
//   pipe -> mapped -> redacted -> durable a writer on a socket pair, a ring, the real hitchrail-runner,
//   fdatasync
// Peers in the same run: `jq -c .` on the same bytes, and writing the bytes to a file with one fdatasync a
// MiB. HITCHRAIL_BENCH_STRICT=1 makes a missed target (150 and 80 MB/s on the made stream) an error.

#include <fcntl.h>
#include <hitchrail/adapter.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "../unit/runner/fake_shim.hpp"
#include "bench.hpp"
#include "codex_stream.hpp"
#include "core/file.hpp"
#include "journal/reader.hpp"
#include "plugins/elf.hpp"
#include "plugins/planner.hpp"
#include "runner/framing.hpp"
#include "runner/load.hpp"
#include "runner/session.hpp"

using namespace hitchrail;

namespace {

constexpr std::size_t stream_bytes = 48u << 20;
constexpr int rounds = 5;
const std::string adapter_path = std::string(HITCHRAIL_BINARY_DIR) + "/plugins/codex-cli.so";
constexpr std::string_view launch_json =
    R"({"profileId":"codex-cli","providerVersion":"0.145.0","worktree":"/w","home":"/h","temp":"/t","providerSandbox":"delegated"})";

template <class T>
T must(Result<T> result) {
  if (result.has_error()) {
    throw std::runtime_error(result.error().code + ": " + result.error().object + ": " +
                             result.error().detail);
  }
  return std::move(result).value();
}

Fd sealed_adapter() {
  const Fd file(::open(adapter_path.c_str(), O_RDONLY | O_CLOEXEC));
  return must(sealed_copy("adapter", file.get(), 64u << 20));
}

plugins::PlannedLaunch planned() {
  const Fd runner(
      ::open((std::string(HITCHRAIL_BINARY_DIR) + "/bin/hitchrail-runner").c_str(), O_RDONLY | O_CLOEXEC));
  const Fd adapter = sealed_adapter();
  auto planner = must(plugins::Planner::start(runner.get(), adapter.get()));
  return must(planner.launch(launch_json, HR_LAUNCH_NEW, "do it"));
}

// ---- mapping alone ----

std::uint64_t map_all(const hr_adapter& adapter, const std::string& snapshot, const std::string& stream) {
  wire::Current current{};
  runner::Session session(adapter, current);
  if (session.reattach(HR_STATE_OPEN, snapshot).has_error()) {
    throw std::runtime_error("reattach failed");
  }
  runner::Framer framer({1, HR_FRAME_LINES, HR_OVERFLOW_FAIL, 8u << 20});
  framer.restore(0, false, 0);
  std::uint64_t events = 0;
  while (framer.next(std::string_view(stream).substr(static_cast<std::size_t>(framer.position())), false) ==
         runner::Framer::Step::record) {
    runner::Cause cause;
    cause.origin.kind = journal::Origin::Kind::record;
    cause.origin.stream = 1;
    cause.origin.offset = framer.record().offset;
    cause.raw = framer.record().bytes;
    if (const Status status = session.map_events(cause, 0); status.has_error()) {
      throw std::runtime_error("map_events: " + status.error().detail);
    }
    events += session.staged().size();
    session.effects = {};
    framer.accept();
  }
  session.close();
  return events;
}

// ---- pipe to durable ----

bench::Spent durable(const plugins::PlannedLaunch& launch, const std::string& stream,
                     std::uint64_t& journal_bytes) {
  test::ShimSetup setup;
  setup.adapter = adapter_path;
  setup.snapshot = launch.snapshot;
  setup.config = runner::config_for(launch.plan);
  setup.config.journal.max_bytes = 8ull << 30;
  setup.config.journal.max_events = 50'000'000;
  setup.config.journal.max_spill_bytes = 8ull << 30;
  setup.streams = {1, 2, 8, 9};
  setup.secrets = {{"OPENAI_API_KEY", "sk-bench-0123456789abcdef0123456789abcdef"},
                   {"CODEX_API_KEY", "another-secret-value-77"}};
  // Kept to the end: ext4 spends long on new files while thousands were just deleted, which no run does.
  static std::vector<std::unique_ptr<test::FakeShim>> attempts;
  attempts.push_back(std::make_unique<test::FakeShim>(setup));
  test::FakeShim& shim = *attempts.back();
  shim.start();
  while (shim.area().current.count == 0) {  // loaded and reattached: the start is another benchmark
    shim.step(10);
  }
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    throw std::runtime_error("socketpair");
  }
  const pid_t writer = ::fork();
  if (writer == 0) {
    ::close(pair[0]);
    std::string_view rest = stream;
    while (!rest.empty()) {
      const ssize_t sent = ::write(pair[1], rest.data(), std::min<std::size_t>(rest.size(), 64u << 10));
      if (sent <= 0) {
        ::_exit(1);
      }
      rest.remove_prefix(static_cast<std::size_t>(sent));
    }
    ::_exit(0);
  }
  ::close(pair[1]);
  clockid_t runner_clock = 0;
  ::clock_getcpuclockid(shim.pid(), &runner_clock);
  const double runner_cpu = bench::cpu_now(runner_clock);
  bench::Spent spent = bench::spent_by([&] {
    std::string buffer(256u << 10, '\0');
    for (;;) {
      const ssize_t got = ::read(pair[0], buffer.data(), buffer.size());
      if (got <= 0) {
        break;
      }
      shim.arrive(1, std::string_view(buffer).substr(0, static_cast<std::size_t>(got)));
      while (shim.step(0)) {
      }
    }
    while (shim.alive() && shim.slot().streams[0].mapped < stream.size()) {
      shim.step(100);
    }
    ::waitpid(writer, nullptr, 0);
  });
  spent.cpu += bench::cpu_now(runner_clock) - runner_cpu;
  ::close(pair[0]);
  if (!shim.alive()) {
    throw std::runtime_error("the runner failed: " + shim.failure_code + " " + shim.failure_detail);
  }
  journal_bytes = shim.slot().journal_size;
  shim.kill();
  return spent;
}

bench::Spent jq(const std::string& path) {
  return bench::spent_by([&] {
    if (std::system(("jq -c . " + path + " > /dev/null 2>&1").c_str()) != 0) {
      throw std::runtime_error("jq failed");
    }
  });
}

bench::Spent plain(const test::TempDir& at, const std::string& stream) {
  const Fd out(::open((at / "plain").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  return bench::spent_by([&] {
    for (std::size_t done = 0; done < stream.size(); done += 1u << 20) {
      const std::string_view part = std::string_view(stream).substr(done, 1u << 20);
      if (::write(out.get(), part.data(), part.size()) < 0 || ::fdatasync(out.get()) != 0) {
        throw std::runtime_error("write");
      }
    }
  });
}

bool measure(const std::string& name, const std::string& stream, const hr_adapter& adapter,
             const plugins::PlannedLaunch& launch) {
  const test::TempDir at;
  test::spit(at / "stream", stream);
  std::uint64_t events = 0;
  std::uint64_t journal_bytes = 0;
  const auto jq_rate = bench::rate(stream.size(), 3, [&] { return jq(at / "stream"); });
  const auto plain_rate = bench::rate(stream.size(), 3, [&] { return plain(at, stream); });
  const auto mapping = bench::rate(stream.size(), rounds, [&] {
    return bench::spent_by([&] { events = map_all(adapter, launch.snapshot, stream); });
  });
  bench::print("mapping alone, " + name, mapping, "jq -c .", jq_rate);
  const auto whole =
      bench::rate(stream.size(), rounds, [&] { return durable(launch, stream, journal_bytes); });
  bench::print("pipe to durable, " + name, whole, "jq -c .", jq_rate);
  bench::print("pipe to durable, " + name, whole, "write + fdatasync a MiB", plain_rate);
  std::printf("  %zu bytes in, %llu events, %llu bytes of journal\n", stream.size(),
              static_cast<unsigned long long>(events), static_cast<unsigned long long>(journal_bytes));
  return mapping.p50 >= 150 && whole.p50 >= 80;
}

}  // namespace

int main() {
  try {
    bench::pin_to_one_core();
    const auto launch = planned();
    const Fd sealed = sealed_adapter();
    const auto note = must(plugins::read_adapter_note(sealed.get(), "codex-cli"));
    const auto loaded = must(runner::load_adapter(sealed.get(), note));
    measure("recordings repeated", bench::recorded_stream(stream_bytes / 4), loaded.table(), launch);
    const bool good = measure("made stream", bench::MadeStream().make(stream_bytes), loaded.table(), launch);
    const char* strict = std::getenv("HITCHRAIL_BENCH_STRICT");
    return strict != nullptr && !good ? 1 : 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "stream_bench: %s\n", error.what());
    return 1;
  }
}
