// Who is at the other end of a socket file? A datagram socket's connect() tells, and tells nobody: a stream
// listener refuses the type without seeing a connection, and a file whose socket is gone refuses altogether.
// The kernel looks sockets up by inode, so this also holds across network namespaces and for a second name.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "boundary/internal.hpp"
#include "boundary/scan_walk.hpp"
#include "core/file.hpp"
#include "pathfs/pathfs.hpp"

namespace hitchrail::boundary {
namespace {

constexpr std::size_t max_listing = 64u << 20;

bool lies_in(const std::vector<Root>& roots, const std::string& path) {
  return std::any_of(roots.begin(), roots.end(), [&](const Root& root) { return contains(root.path, path); });
}

// A socket was bound by whatever path its owner wrote: with dots, or through links. What a link of the root
// leads out to is not in it.
void add_socket(const std::string& path, const std::vector<Root>& granted, std::vector<Root>& found) {
  const std::size_t slash = path.rfind('/');
  auto folder = pathfs::resolve_directory(slash == 0 ? "/" : path.substr(0, slash));
  const std::string name = path.substr(slash + 1);
  Stat info;
  if (folder.has_value() && look(folder.value().fd.get(), name.c_str(), info) && S_ISSOCK(info.mode)) {
    const std::string real = joined_path(folder.value().path, name.c_str());
    if (lies_in(granted, real)) {
      found.push_back(as_root(real, info));
    }
  }
}

}  // namespace

bool somebody_listens(const Root& socket) {
  auto opened = pathfs::open_absolute(socket.path, O_PATH);
  Stat found;
  if (opened.has_error()) {
    return !pathfs::is(opened.error(), pathfs::Code::not_found);
  }
  if (!look(opened.value().get(), "", found) || !S_ISSOCK(found.mode)) {
    return false;
  }
  const Fd probe(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d", opened.value().get());
  if (!probe) {
    return true;
  }
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    return true;
  }
  // Not ours to connect to: nor is it the run's, unless it owns the file and could open it up.
  const bool closed = errno == EACCES && found.uid != ::geteuid() && ::geteuid() != 0;
  return errno != ECONNREFUSED && !closed;
}

std::vector<Root> known_sockets(const std::vector<Root>& granted) {
  std::vector<Root> found;
  const Fd file(::open("/proc/net/unix", O_RDONLY | O_CLOEXEC));
  if (!file) {
    return found;
  }
  auto text = read_all(file.get(), max_listing);
  if (text.has_error()) {
    return found;
  }
  std::size_t begin = 0;
  while (begin < text.value().size()) {
    const std::size_t end = std::min(text.value().find('\n', begin), text.value().size());
    const std::size_t slash = text.value().find(" /", begin);  // the path is the last column
    if (slash < end) {
      const std::string path = text.value().substr(slash + 1, end - slash - 1);
      if (lies_in(granted, path)) {
        add_socket(path, granted, found);
      }
    }
    begin = end + 1;
  }
  return found;
}

}  // namespace hitchrail::boundary
