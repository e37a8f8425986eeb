#pragma once
// How this service reaches the git program: always inside a boundary, never directly. The caller plugs in a
// GitRunner that builds an inspector boundary from a GitCall: nothing of the host is visible but system
// directories and the listed paths, no home, no network and nothing writable but what the call says. A
// filter, a textconv or a promisor planted in a repository may therefore run, and can harm nothing; time and
// output are bounded.

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/result.hpp"

namespace hitchrail::workspace {

struct GitCall {
  std::vector<std::string> args;                         // after the program's name
  std::vector<std::pair<std::string, std::string>> env;  // the whole environment but HOME and PATH
  // What of the host is visible besides the system, each at its own canonical path.
  std::string worktree;
  std::vector<std::string> readable;  // git directories, object stores
  // Absolute paths in the worktree that git sees as an empty file (native backend only): what it would wait
  // on.
  std::vector<std::string> hidden;
  std::vector<std::string> writable;  // directories that git may write; nothing in them is executed
  bool network = false;               // the host's: for a fetch alone
  std::string import_git_dir;  // "" or the one git directory that is writable, except config*, hooks, info
  std::string input;           // stdin, unless input_fd >= 0
  int input_fd = -1;           // a regular file, read from its beginning; not owned
  int output_fd = -1;          // stdout goes to this regular file instead of GitOutcome::output; not owned
  std::size_t max_output = 16u << 20;
  std::size_t max_error = 16u << 10;
  std::chrono::milliseconds timeout{10'000};
};

struct GitOutcome {
  int exit_code = -1;  // -1: ended by `signal`, or not at all (timed_out)
  int signal = 0;
  bool timed_out = false;         // killed, with everything it had started
  bool output_truncated = false;  // more than max_output
  std::string output;
  std::string error;  // first max_error bytes of stderr
};

// An error of the Result means that git was not started; what git did is in the outcome.
using GitRunner = std::function<Result<GitOutcome>(const GitCall&)>;

}  // namespace hitchrail::workspace
