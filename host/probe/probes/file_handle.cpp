// A file is opened by its handle, past every path.
#include "probe/attack.hpp"

HR_PROBE(file_handle) {
  alignas(file_handle) char buffer[sizeof(file_handle) + 128] = {};
  auto* handle = reinterpret_cast<file_handle*>(buffer);
  handle->handle_bytes = 128;
  int mount_id = 0;
  if (name_to_handle_at(AT_FDCWD, place("HR_WORKTREE"), handle, &mount_id, 0) < 0) {
    return refused(errno);
  }
  const int anchor = open(place("HR_WORKTREE"), O_RDONLY | O_DIRECTORY);
  return result(open_by_handle_at(anchor, handle, O_RDONLY));
}
