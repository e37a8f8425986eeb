#pragma once
// The state home: $HITCHRAIL_HOME, else $XDG_STATE_HOME/hitchrail, else $HOME/.local/state/hitchrail. Opened
// once per process; everything below is reached from that descriptor.
//
// Promises: no component of the path is a link, the directory is ours and 0700; made (0700) when absent and
// asked for. Refuses, each before anything is written below it:
//   state-directory-unset      none of the variables gives an absolute path
//   state-directory-absent     it does not exist and Access::read was asked for
//   state-directory-unsafe     a component is a link, not a directory, or writable by everybody without the
//   sticky bit state-directory-foreign    another user owns it state-directory-shared     its mode lets
//   others in state-directory-read-only  Access::write, and it cannot be written (read-only file system, no
//   permission) state-directory-full       Access::write, and the file system has no room for a run's own
//   files

#include <string>
#include <string_view>

#include "core/fd.hpp"
#include "core/result.hpp"

namespace hitchrail::store {

// Read commands change nothing: they never make the directory. `write` also proves that a file can be made
// there.
enum class Access { read, write };

// The path the environment asks for, without opening it; error state-directory-unset.
Result<std::string> state_home_path();

class StateHome {
 public:
  static Result<StateHome> open(Access access);                         // state_home_path()
  static Result<StateHome> open_path(std::string path, Access access);  // absolute

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] const std::string& path() const { return path_; }  // for messages and overlap checks only
  // A directory directly below the state home, ours and 0700; Access::write makes it.
  [[nodiscard]] Result<Fd> directory(const std::string& name, Access access) const;

 private:
  StateHome(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  Fd fd_;
  std::string path_;
};

}  // namespace hitchrail::store
