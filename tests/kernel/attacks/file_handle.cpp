// A file is opened by its handle, past every path.
#include "attack.hpp"

int main() {
  alignas(file_handle) char buffer[sizeof(file_handle) + 128] = {};
  auto* handle = reinterpret_cast<file_handle*>(buffer);
  handle->handle_bytes = 128;
  int mount_id = 0;
  const std::string tree = attack::place("HR_WORKTREE");
  if (name_to_handle_at(AT_FDCWD, tree.c_str(), handle, &mount_id, 0) < 0) {
    return attack::result(-1);
  }
  const int anchor = open(tree.c_str(), O_RDONLY | O_DIRECTORY);
  return attack::result(open_by_handle_at(anchor, handle, O_RDONLY));
}
