#pragma once
// One run of the real hitchrail-shim with small fake init, runner and finisher and the scripted harness. The
// test process is a subreaper: whatever the run leaves alive becomes its child and is found.

#include <cstdint>
#include <string>
#include <vector>

#include "shim/slot.hpp"

namespace shim_test {

namespace wire = hitchrail::wire;

struct Options {
  std::string script{};        // the prompt; `end` is added
  std::string init = "plain";  // see fake_init.cpp
  std::string runner{};        // see fake_runner.cpp
  std::uint32_t flags = wire::flag_no_pid_namespace;
  wire::Limits limits{};
  std::vector<wire::StopStep> stop_steps{};
  std::vector<std::string> file_patterns{};
  std::string secret{};  // of the key "key"
  bool bad_document = false;
  bool wait_report = true;
  std::string program{};  // "" = script-harness
};

// Of wire::Limits: 0 is the default of each.
wire::Limits limits(std::uint64_t ring_bytes, std::uint64_t hook_cpu_ms = 0, std::uint64_t hook_wall_ms = 0,
                    std::uint64_t run_wall_ms = 0);

struct Reply {
  bool answered = false;
  std::uint32_t outcome = 0;
  wire::StatusPayload status{};
};

class Run {
 public:
  explicit Run(Options options);
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  wire::StartReport report{};
  int pid = 0;
  std::string dir;  // attempt directory
  std::string home;

  bool wait(int ms = 15000);  // until the shim has exited; its status must be 0
  [[nodiscard]] int exit_code() const { return exit_code_; }
  [[nodiscard]] bool no_process_left() const;  // after wait
  [[nodiscard]] wire::ExitSlot slot(const std::string& name = "exit") const;
  [[nodiscard]] std::string journal() const;
  [[nodiscard]] std::vector<std::string> journal_lines() const;
  [[nodiscard]] std::string file(const std::string& name) const;
  [[nodiscard]] bool exists(const std::string& name) const;
  bool wait_journal(const std::string& text, int ms = 8000) const;

  Reply ask(char socket, std::uint32_t type, const std::string& payload = "", std::uint8_t id = 0,
            bool good_token = true) const;
  Reply say(const std::string& text, std::uint8_t id = 0) const;
  [[nodiscard]] int connect_to(char socket) const;
  [[nodiscard]] std::string hello(bool good_token = true) const;
  [[nodiscard]] int runner_pid() const;

 private:
  Options options_;
  int exit_code_ = -1;
  bool waited_ = false;
  int attempt_ = -1;
};

std::string read_path(const std::string& path);
void write_path(const std::string& path, const std::string& bytes, int mode = 0600);
std::string expected_line(const std::string& stream, std::uint64_t offset, const std::string& line);

}  // namespace shim_test
