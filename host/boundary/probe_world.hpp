#pragma once
// A scratch world held by `hitchrail-probe world`, and runs of hitchrail-probe in boundaries around it.
// Shared by the prover and the tests of single layers; nobody else includes it.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "boundary/boundary.hpp"

namespace hitchrail::boundary {

// hitchrail-probe beside hitchrail-init; code probe-missing.
Result<std::string> probe_path();
// id → answer; an id without a line was not reached.
using Answers = std::map<std::string, std::string>;
Answers parse_answers(const std::string& text);

// A new private directory below the temporary directory, removed with all that is in it.
class ScratchDirectory {
 public:
  static Result<ScratchDirectory> make();
  ScratchDirectory(ScratchDirectory&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  ScratchDirectory& operator=(ScratchDirectory&&) = delete;
  ~ScratchDirectory();
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  explicit ScratchDirectory(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// `hitchrail-probe control` for these ids.
Result<Answers> run_controls(const std::vector<std::string>& ids);

class ProbeWorld {
 public:
  static Result<std::unique_ptr<ProbeWorld>> make();
  ~ProbeWorld();
  ProbeWorld(const ProbeWorld&) = delete;
  ProbeWorld& operator=(const ProbeWorld&) = delete;

  using Change = std::function<void(std::string& plan)>;
  struct Setup {
    Backend backend = Backend::native;
    bool network = true;  // the host's
    bool git = false;     // a private git directory
    // As a launch does it here: overlay and a uid of the run's own where they can be had. False:
    // placeholders, and root keeps its uid.
    bool as_launched = true;
  };
  // These probes in one boundary. `change` edits the flat plan before it is applied.
  Result<Answers> run(const Machine& machine, const Setup& setup, const std::vector<std::string>& ids,
                      const Change& change = {});
  [[nodiscard]] std::string variable(const std::string& name) const;

 private:
  explicit ProbeWorld(ScratchDirectory base) : base_(std::move(base)) {}
  Status start();
  Result<Compiled> compile_boundary(const Machine& machine, const Setup& setup);
  Result<RunDirectories> run_directories(const Compiled& compiled);
  Result<std::string> plan(const Compiled& compiled, const std::vector<std::string>& ids);
  Status open_inherited();
  [[nodiscard]] bool daemon_lives() const;

  ScratchDirectory base_;
  std::string program_;
  std::map<std::string, std::string> variables_;
  pid_t keeper_ = -1;
  Fd keeper_input_;
  std::vector<Fd> inherited_;
  unsigned runs_ = 0;
};

}  // namespace hitchrail::boundary
