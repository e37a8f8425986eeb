#pragma once
// The directory of one `sandbox exec` below the state home (exec/ID: home, temp, git, placeholders) and its
// end. Its lock tells whether the command lives; the janitor, a child in a session of its own, keeps the lock
// over a killed caller, waits for the boundary's init and cleans up.

#include <string>

#include "core/fd.hpp"
#include "core/result.hpp"
#include "store/state_home.hpp"

namespace hitchrail::launch {

class ExecDirectory {
 public:
  static Result<ExecDirectory> make(const store::StateHome& home);
  ExecDirectory(ExecDirectory&&) noexcept;
  ExecDirectory& operator=(ExecDirectory&&) = delete;
  ~ExecDirectory();  // cleans up

  [[nodiscard]] const std::string& id() const { return id_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int fd() const { return fd_.get(); }
  // To be called when init lives; `init` is its pidfd: the janitor waits for its end.
  Status tell_init(int init);
  // git/ stays, in what is left of the directory; the lock is given back.
  void keep_git() { keep_git_ = true; }
  // Everything but what is kept; idempotent. The caller's last act.
  Status clean();

 private:
  ExecDirectory() = default;
  Status start_janitor();
  Fd state_, parent_, fd_, lock_, janitor_;
  std::string id_, path_;
  int janitor_pid_ = -1;
  bool keep_git_ = false;
  bool cleaned_ = false;
};

// Cleans exec/ID when nobody holds its lock; true when it is gone (or kept work alone is left).
Result<bool> sweep_directory(const store::StateHome& home, const std::string& id);

}  // namespace hitchrail::launch
