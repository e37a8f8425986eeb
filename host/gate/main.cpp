// hitchrail-gate: see loop.hpp. Started by the shim, or by gate::Helper, with the descriptors of
// gatewire::GateFd; its policy is its only input besides what the run sends. Exit 0 when asked to end, 1 when
// it could not start: its parent then starts another, and says so when that happens too often.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>

#include "gate/confine.hpp"
#include "gate/loop.hpp"

namespace hitchrail::gate {
namespace {

std::optional<Document> read_policy() {
  constexpr int wanted = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
  const int seals = fcntl(gatewire::gate_policy, F_GET_SEALS);
  struct stat info {};
  constexpr off_t max_size = sizeof(gatewire::Header) + gatewire::max_listeners * sizeof(gatewire::Listener) +
                             gatewire::max_rules * sizeof(gatewire::Rule);
  if (seals < 0 || (seals & wanted) != wanted || fstat(gatewire::gate_policy, &info) != 0 ||
      info.st_size <= 0 || info.st_size > max_size) {
    return std::nullopt;
  }
  const auto size = static_cast<std::size_t>(info.st_size);
  const void* bytes = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, gatewire::gate_policy, 0);
  return bytes == MAP_FAILED ? std::nullopt
                             : read_document(std::string_view(static_cast<const char*>(bytes), size));
}

int serve() {
  const auto document = read_policy();
  if (!document) {
    return 1;
  }
  const int listeners = static_cast<int>(document->header->listener_count);
  if (give_up_privileges(gatewire::gate_listeners + listeners) != nullptr) {
    return 1;
  }
  // Names are taken as they are: no search list, and no minute for a dead name server.
  setenv("LOCALDOMAIN", "", 1);
  setenv("RES_OPTIONS", "timeout:3 attempts:2", 1);
  Resolver resolver;
  if (!resolver.start()) {
    return 1;
  }
  std::vector<int> sockets;
  for (int i = 0; i < listeners; ++i) {
    sockets.push_back(gatewire::gate_listeners + i);
  }
  Gate gate(*document, gatewire::gate_events, std::move(sockets), resolver);
  if (!gate.start() || load_filter() != nullptr) {
    return 1;
  }
  gate.run();
  return 0;
}

}  // namespace
}  // namespace hitchrail::gate

int main() {
  int code = 1;
  try {
    code = hitchrail::gate::serve();
  } catch (const std::exception&) {  // no memory: connections break, the next gate takes over
  }
  _exit(code);  // the resolver's threads are not waited for
}
