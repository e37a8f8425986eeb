#include "boundary/start.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "boundary/boundary.hpp"
#include "core/file.hpp"
#include "core/ids.hpp"

namespace hitchrail::boundary {
namespace {

struct SpawnActions {
  posix_spawn_file_actions_t actions{};
  SpawnActions() { posix_spawn_file_actions_init(&actions); }
  ~SpawnActions() { posix_spawn_file_actions_destroy(&actions); }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;
};

// What a path says that is no longer what it was; the rest (too many descriptors, no memory) is about this
// machine.
bool another_object(int error) {
  return error == ENOENT || error == ENOTDIR || error == ELOOP || error == ESTALE || error == EXDEV;
}

}  // namespace

void Tree::end() {
  if (pid_ < 0) {
    return;
  }
  socket_.reset();
  const std::int64_t deadline = monotonic_nanos() + 3'000'000'000;
  if (pollfd entry{init_.get(), POLLIN, 0}; init_) {
    (void)poll(&entry, 1, 3000);  // usually all there is to wait for: what follows only reaps
  }
  bool killed = false;
  while (!reaped()) {
    if (!killed && monotonic_nanos() > deadline) {
      kill(-pid_, SIGKILL);
      kill(pid_, SIGKILL);
      killed = true;
    }
    usleep(killed ? 1000 : 200);
  }
  pid_ = -1;
}

// The first process exits early when pid 1 is another one: its sibling, in the same process group.
bool Tree::reaped() {
  if (!first_gone_) {
    const pid_t got = waitpid(pid_, nullptr, WNOHANG);
    first_gone_ = got == pid_ || (got < 0 && errno == ECHILD);
    if (!first_gone_) {
      return false;
    }
  }
  pid_t got = 0;
  while ((got = waitpid(-pid_, nullptr, WNOHANG)) > 0) {
  }
  return got < 0 && errno == ECHILD;
}

Result<Tree> start_init(const std::string& plan, const Streams& streams) {
  HR_TRY(path, init_path());
  HR_TRY(plan_fd, sealed_memfd("hitchrail-plan", plan));
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
    return errno_error("make socket pair", "boundary", errno);
  }
  Fd ours(pair[0]);
  Fd theirs(pair[1]);
  Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) {
    return errno_error("open", "/dev/null", errno);
  }
  // Copies above the fixed numbers, so that no dup2 below overwrites what a later one needs.
  const int sources[] = {plan_fd.get(), theirs.get(), streams.in, streams.out, streams.err, null.get()};
  std::vector<Fd> copies;
  SpawnActions spawn;
  int target = wire::init_plan;
  for (const int source : sources) {
    copies.emplace_back(fcntl(source, F_DUPFD_CLOEXEC, 32));
    if (!copies.back()) {
      return errno_error("duplicate descriptor", "boundary", errno);
    }
    posix_spawn_file_actions_adddup2(&spawn.actions, copies.back().get(), target++);
  }
  for (int fd = 0; fd < 3; ++fd) {
    posix_spawn_file_actions_adddup2(&spawn.actions, copies.back().get(), fd);
  }
  char name[] = "hitchrail-init";
  char* argv[] = {name, nullptr};
  char* env[] = {nullptr};
  pid_t pid = -1;
  const int error = posix_spawn(&pid, path.c_str(), &spawn.actions, nullptr, argv, env);
  if (error != 0) {
    return errno_error("start hitchrail-init", path, error);
  }
  return Tree(pid, std::move(ours));
}

Result<gate::Helper> start_gate(const gate::Compiled* policy, std::vector<Fd> listeners, int init_socket) {
  if (policy == nullptr) {
    return Error{ErrorClass::internal,
                 "gate-unexpected",
                 "run in boundary",
                 "listeners",
                 "This plan has listening sockets and its caller no gate.",
                 ""};
  }
  HR_TRY(helper, gate::Helper::start(*policy, std::move(listeners)));
  const wire::InitReply reply{wire::reply_listeners_taken, 0};
  (void)!send(init_socket, &reply, sizeof reply, MSG_NOSIGNAL);
  return helper;
}

Error failure_of(const wire::InitMessage& message) {
  const std::string step(message.step, strnlen(message.step, sizeof message.step));
  const std::string detail(message.detail, strnlen(message.detail, sizeof message.detail));
  Error error{ErrorClass::environment,
              "boundary-failed",
              "start boundary",
              step,
              std::string(std::strerror(message.error_number)) + (detail.empty() ? "" : ": " + detail),
              "Run: hitchrail doctor"};
  if (step == "executable-changed") {
    error = {ErrorClass::refused,
             "executable-changed",
             "start boundary",
             detail,
             "The program is not the one that was looked at before.",
             "Start again; the new program will be judged anew."};
  } else if (step == "source" && message.error_number == EACCES) {
    error = {ErrorClass::refused,
             "root-unreachable",
             "start boundary",
             detail,
             "The user this run would be cannot reach it.",
             "Move it below folders that this user may enter."};
  } else if (step == "source-changed" || (step == "source" && another_object(message.error_number))) {
    error = {ErrorClass::refused,
             "root-changed",
             "start boundary",
             detail,
             "What is at this path has changed since it was judged.",
             "Start again."};
  } else if (step == "exec") {
    error.code = "exec-failed";
  } else if (step == "overlay") {
    error.code = "overlay-failed";
    error.remedy = "Set HITCHRAIL_PROTECTED_NAMES=placeholders.";
  } else if (step == "layer") {
    error.code = "layer-failed";
  } else if (step == "idmap") {
    error.code = "idmap-failed";
    error.remedy = "Set HITCHRAIL_OWN_UID=off.";
  } else if (step == "control-group") {
    error.code = "control-group-failed";
    error.remedy = "Take limits.maxMemory out of the preset, or run where control groups can be made.";
  }
  return error;
}

std::vector<Fd> received_descriptors(const msghdr& header) {
  std::vector<Fd> received;
  auto* message = const_cast<msghdr*>(&header);  // CMSG_NXTHDR wants it so and only reads
  for (cmsghdr* each = CMSG_FIRSTHDR(message); each != nullptr; each = CMSG_NXTHDR(message, each)) {
    const std::size_t count = (each->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(each) + i * sizeof(int), sizeof fd);
      received.emplace_back(fd);
    }
  }
  return received;
}

}  // namespace hitchrail::boundary
