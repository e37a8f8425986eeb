// The handle of a file outside is asked for.
#include "probe/attack.hpp"

HR_PROBE(file_handle_outside) {
  alignas(file_handle) char buffer[sizeof(file_handle) + 128] = {};
  auto* handle = reinterpret_cast<file_handle*>(buffer);
  handle->handle_bytes = 128;
  int mount_id = 0;
  return result(name_to_handle_at(AT_FDCWD, place("HR_OUTSIDE", "/secret"), handle, &mount_id, 0));
}
