#pragma once
// An attempt is one run of one harness; its directory (state home, attempts/ID) is the truth about it.
//
// Promises: a directory appears whole or not at all (built as .new-ID, renamed last); reading changes
// nothing; the state is derived from exit slot, process identity and journal, never from a guess. Refuses:
// directories that are links, foreign or shared. Not yet: retries and fallback, approvals, remote sessions.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/fd.hpp"
#include "core/json.hpp"
#include "core/result.hpp"
#include "journal/journal.hpp"

namespace hitchrail::attempt {

inline constexpr const char* attempts_folder = "attempts";

// ---- making one
// ---------------------------------------------------------------------------------------------------------
struct NewAttempt {
  journal::Identity identity;  // attempt_id: "attempt_" + 18 of [A-Za-z0-9], see new_attempt_id()
  std::string worktree;        // canonical path, any bytes
  std::int64_t created_unix_ms = 0;
  // Digests, boundary, resume source …: members of header.json beside those above; no secrets.
  json::Value header;
  // Files of manifests/: name and bytes (runtime-manifest.json, task-envelope.json, launch-manifest.json).
  std::vector<std::pair<std::string, std::string>> documents;
  // Paths below home/ that hold copies of a login: removed by the finisher.
  std::vector<std::string> login_files;
};
std::string new_attempt_id();

// The lock of an attempt (file `lock`), held by whoever makes, starts or recovers it; another lock than the
// journal's. An open-file-description lock: it dies with its holder, is not inherited over exec, and can be
// asked about without being taken.
class Lock {
 public:
  Lock() = default;
  explicit Lock(Fd fd) : fd_(std::move(fd)) {}
  [[nodiscard]] bool held() const { return fd_.valid(); }
  void release() { fd_.reset(); }

 private:
  Fd fd_;
};

class Directory {
 public:
  // `id` may be a unique prefix, with or without "attempt_". Errors: attempt-not-found, attempt-ambiguous,
  // attempt-unsafe.
  static Result<Directory> open(int state_dirfd, const std::string& id);
  static Result<Directory> adopt(Fd attempt_dirfd);  // the finisher's inherited descriptor
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] const std::string& id() const { return id_; }
  [[nodiscard]] const json::Value& header() const { return header_; }  // header.json
  // Error attempt-locked when another process holds it beyond `wait_ms`.
  [[nodiscard]] Result<Lock> lock(int wait_ms = 0) const;
  [[nodiscard]] bool locked() const;

 private:
  friend class Builder;
  Directory(Fd fd, std::string id, json::Value header)
      : fd_(std::move(fd)), id_(std::move(id)), header_(std::move(header)) {}
  Fd fd_;
  std::string id_;
  json::Value header_;
};

// Builds .new-ID with header.json, manifests/, token, exit slot `prepared`, reserve, lock (held), empty
// home/, temp/, git/, spill/. The launch fills home/ and git/ through fd(), makes the journal, takes the
// lease, then publishes. Destroyed without publish(): removed. Order that makes leases decidable: begin,
// lease (Store::begin_attempt), publish, spawn, unlock.
class Builder {
 public:
  static Result<Builder> begin(int state_dirfd, const NewAttempt& attempt);
  Builder(Builder&&) noexcept;
  Builder& operator=(Builder&&) noexcept;
  ~Builder();
  [[nodiscard]] int fd() const;
  // Syncs, renames into place, syncs attempts/. The lock stays held until `Published::lock` goes.
  struct Published;
  Result<Published> publish();

 private:
  struct State;
  explicit Builder(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};
struct Builder::Published {
  Directory directory;
  Lock lock;
};

// ---- reading them
// -------------------------------------------------------------------------------------------------------
Result<std::vector<std::string>> list_ids(
    int state_dirfd);  // oldest first by directory name's creation time; empty when none

enum class State { starting, running, stopping, finishing, completed, failed, interrupted, needs_recovery };
const char* state_name(State state);  // "needs-recovery" …

struct AttemptStatus {
  State state = State::starting;
  std::string code;  // terminal: "" for a plain success; needs-recovery: why (launcher-gone, supervisor-gone,
                     // finish-incomplete …)
  std::string status;     // terminal: success, blocked, failed, interrupted, partial
  std::string summary;    // terminal
  std::string exit_kind;  // "code", "signal", "unknown", "none"
  int exit_value = 0;
  std::uint64_t last_sequence = 0;
  std::int64_t created_unix_ms = 0;
  std::int64_t started_unix_ms = 0;
  std::int64_t exited_unix_ms = 0;
  int shim_pid = 0;  // 0 when it is not alive
  [[nodiscard]] bool live() const {
    return state == State::starting || state == State::running || state == State::stopping ||
           state == State::finishing;
  }
  [[nodiscard]] bool terminal() const {
    return state == State::completed || state == State::failed || state == State::interrupted;
  }
};
// The table is in attempt/status.cpp. Changes nothing, takes no lock.
Result<AttemptStatus> status(const Directory& directory);
// completion.json; error completion-absent.
Result<json::Value> completion(const Directory& directory);

// What a lease's holder is: `gone` when neither its directory nor a locked .new-ID exists (its launcher died
// before publishing).
enum class LeaseHolder { live, terminal, needs_recovery, gone };
Result<LeaseHolder> lease_holder(int state_dirfd, const std::string& attempt_id);

}  // namespace hitchrail::attempt
