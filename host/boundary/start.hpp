#pragma once
// Starting hitchrail-init, for the two callers that are its supervisor themselves: run() and run_attached().
// Nobody else includes it.

#include <sys/socket.h>

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "core/fd.hpp"
#include "core/result.hpp"
#include "gate/helper.hpp"
#include "shim/wire.hpp"

namespace hitchrail::boundary {

// Init and everything below it, until it is certain that nothing of it is left.
class Tree {
 public:
  Tree(pid_t pid, Fd socket) : pid_(pid), socket_(std::move(socket)) {}
  Tree(Tree&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)),
        socket_(std::move(other.socket_)),
        init_(std::move(other.init_)) {}
  Tree& operator=(Tree&&) = delete;
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;
  ~Tree() { end(); }

  [[nodiscard]] int socket() const { return socket_.get(); }
  void watch(Fd init) { init_ = std::move(init); }  // init's pidfd, from its first message: end() waits on it

  // Init sees its socket close, ends the tree and exits; one that does not is killed, which ends a pid
  // namespace.
  void end();

 private:
  bool reaped();

  pid_t pid_;
  Fd socket_;
  Fd init_;
  bool first_gone_ = false;
};

struct Streams {
  int in;
  int out;
  int err;
};

Result<Tree> start_init(const std::string& plan, const Streams& streams);
// Init's listening sockets have come: a gate is started on them, and init told to go on. Without a policy
// they are a fault of the plan.
Result<gate::Helper> start_gate(const gate::Compiled* policy, std::vector<Fd> listeners, int init_socket);
Error failure_of(const wire::InitMessage& message);

// Those that came with one message.
std::vector<Fd> received_descriptors(const msghdr& header);

}  // namespace hitchrail::boundary
