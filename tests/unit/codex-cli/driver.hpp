#pragma once
// Drives the adapter through its one exported symbol, as the host does: structs in, callbacks out, nothing
// shared. Keeps everything the adapter asked for. Optionally throws the session away after every call and
// goes on from its snapshot.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hitchrail/adapter.h"

namespace hitchrail::codex_cli::test {

struct Event {
  std::uint32_t kind = 0;
  std::uint32_t flags = 0;
  std::string kind_name, provider_type, item_id, summary, text, fields, raw;
  bool operator==(const Event&) const = default;
};

struct Verdict {
  std::uint32_t status = 0;
  std::string code, summary, error, continuation_kind, continuation_reference, details;
  bool operator==(const Verdict&) const = default;
};

struct PlanCopy {
  std::uint32_t flags = 0;
  std::uint32_t transport = 0;
  std::vector<std::string> argv;
  struct Env {
    std::uint32_t source;
    std::string name, value;
  };
  std::vector<Env> env;
  std::vector<hr_stream_spec> streams;
  struct FileStream {
    std::uint32_t stream, framing, record_cap, flags;
    std::string pattern;
  };
  std::vector<FileStream> file_streams;
  struct HomeFile {
    std::string path, bytes;
  };
  std::vector<HomeFile> home_files;
  std::vector<hr_stop_step> stop;
  std::string input;
  [[nodiscard]] const Env* find_env(std::string_view name) const;
};

// What the callbacks got since the last clear.
struct Heard {
  std::vector<Event> events;
  std::vector<std::string> conversations;
  std::vector<int> signals;
  std::vector<std::pair<std::uint64_t, std::uint32_t>> control_results;
  std::optional<PlanCopy> plan;
  std::optional<Verdict> verdict;
  std::optional<std::string> rendered;
  std::optional<std::string> probe_result;
  std::vector<std::vector<std::string>> probe_steps;
  std::string snapshot;
  std::string fail_code, fail_text;
};

std::string default_launch();  // a launch request with worktree, home and temp

class Run {
 public:
  // Launches and reattaches, as a live run does. The first failure is in `result`.
  explicit Run(std::string_view launch_json, std::uint32_t mode = HR_LAUNCH_NEW,
               bool reattach_always = false);
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run();

  hr_result stdout_line(std::string_view bytes, std::uint32_t flags = 0) {
    return record(HR_STREAM_STDOUT, bytes, flags);
  }
  hr_result record(std::uint32_t stream, std::string_view bytes, std::uint32_t flags = 0);
  hr_result exit(std::uint32_t kind, int value, bool stop_requested = false);
  hr_result control(std::uint64_t id, std::uint32_t kind);
  hr_result end();
  std::string snapshot();
  [[nodiscard]] const Event& last() const { return heard.events.back(); }

  Heard heard;
  hr_result result = HR_OK;

 private:
  void reattach(std::uint32_t state);
  hr_result after(hr_result result);

  hr_session* session_ = nullptr;
  std::uint32_t state_ = HR_STATE_OPEN;
  bool reattach_always_;
  std::uint64_t offset_ = 0;
  std::string_view current_;
};

// A hr_host whose callbacks write into `heard`; `record` is what HR_EVENT_RAW_RECORD stands for.
struct HostContext {
  Heard* heard;
  std::string_view record;
};
hr_host make_host(HostContext& context);
std::string text_of(hr_str text);

}  // namespace hitchrail::codex_cli::test
