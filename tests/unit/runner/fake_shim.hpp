#pragma once
// The shim's end of a live runner, in the test's own process: rings, state area, timeline, exact resends. It
// starts the real hitchrail-runner, and may kill it at any time.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/fd.hpp"
#include "journal/journal.hpp"
#include "runner/config.hpp"
#include "shim/wire.hpp"
#include "support/scratch.hpp"

namespace hitchrail::test {

struct ShimSetup {
  std::string adapter = std::string(HITCHRAIL_BINARY_DIR) + "/test-plugins/script.so";
  std::string snapshot = "0;0;0;0;0;0;";  // of a planned script session
  std::vector<std::uint32_t> streams = {1, 2};
  runner::RunnerConfig config;
  std::vector<std::pair<std::string, std::string>> secrets;
};

// stdout LINES FAIL 8 MiB, stderr LINES TRUNCATE 64 KiB, as the script adapter's plan says.
runner::RunnerConfig script_config();

class FakeShim {
 public:
  explicit FakeShim(ShimSetup setup);
  ~FakeShim();
  FakeShim(const FakeShim&) = delete;
  FakeShim& operator=(const FakeShim&) = delete;

  // ---- what happens, in order ----
  void arrive(std::uint32_t stream, std::string_view bytes);
  void eof(std::uint32_t stream, std::uint64_t flags = 0);
  std::uint64_t input(std::uint64_t kind, std::string_view payload = {});
  void exit_and_end(std::uint32_t kind = wire::kind_code,
                    std::int32_t value = 0);  // Eofs of 1 and 2, exit, Eofs of files, end
  void control(std::uint32_t kind, std::string_view text);
  void decide(std::uint32_t decision, std::string_view approval_id);

  // ---- the runner ----
  void start();
  // Sends what is due and takes answers until: done (0), failed, or the process is gone. "timeout" after 20
  // s.
  std::string run();
  // The same until the runner has committed everything sent so far.
  std::string settle();
  bool step(int wait_ms);  // one turn; false when nothing came
  void kill();
  [[nodiscard]] bool alive() const { return pid_ > 0; }

  // ---- what came out ----
  std::string sent_to_harness;  // bytes; a secret part as <NAME:ENCODING>
  std::vector<std::int32_t> signals;
  bool input_closed = false;
  bool end_run = false;
  std::map<std::uint32_t, wire::Timer> timers;
  std::uint64_t commits = 0;
  std::uint32_t failure = 0;  // wire::RunnerFailure
  std::string failure_code, failure_detail;
  int wait_status = 0;
  bool hold_applied = false;  // keeps frame_applied back
  [[nodiscard]] wire::SharedState& area() { return *area_; }
  [[nodiscard]] wire::Slot slot() const;
  [[nodiscard]] bool all_covered() const;  // by the published slot
  [[nodiscard]] int attempt() const { return dir_.fd(); }
  [[nodiscard]] const std::string& path() const { return dir_.path(); }
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  struct Entry {
    wire::Frame frame{};
    std::string payload;
  };
  bool covered(const Entry& entry) const;
  void send_due();
  void take(const wire::Frame& frame, std::string_view payload);
  void apply();
  void apply(const wire::Slot& now);
  void send_applied();
  void reap();

  ShimSetup setup_;
  TempDir dir_;
  Fd state_;
  wire::SharedState* area_ = nullptr;
  std::vector<Fd> rings_;
  std::vector<std::uint64_t> sizes_;
  Fd adapter_, config_, socket_;
  pid_t pid_ = -1;
  std::vector<Entry> timeline_;
  std::size_t next_ = 0;
  std::size_t known_at_start_ = 0;
  std::string out_, in_;
  std::uint64_t next_input_ = 1;
  std::uint64_t outbox_at_ = 0;
  std::int64_t clock_ = 1'767'225'600'000;
  bool done_ = false;
};

// Events of the journal as values, spilled payloads whole; ids, times, hashes and sequence removed; adjacent
// deltas of one item joined: what must be equal whoever was killed when.
std::vector<std::string> comparable_journal(int attempt_dirfd);
// Kind and text (or fields) of each event, for expectations that read well.
std::vector<std::string> kinds(int attempt_dirfd);
// True when these bytes are in any file below the directory.
bool anywhere(const std::string& directory, std::string_view bytes);

}  // namespace hitchrail::test
