#include "boundary/attach.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "boundary/internal.hpp"
#include "boundary/start.hpp"
#include "gate/helper.hpp"

namespace hitchrail::boundary {
namespace {

constexpr int forwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT};
constexpr unsigned whole_group = 1u << 2;  // PIDFD_SIGNAL_PROCESS_GROUP, Linux 6.9

// Signals of the caller as readable events, while it lives.
class Signals {
 public:
  Signals() {
    sigemptyset(&set_);
    for (const int signal : forwarded) {
      sigaddset(&set_, signal);
    }
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
    fd_.reset(signalfd(-1, &set_, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  ~Signals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  [[nodiscard]] int fd() const { return fd_.get(); }
  // 0 when there is none.
  [[nodiscard]] int next() const {
    signalfd_siginfo info{};
    return read(fd_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)
               ? static_cast<int>(info.ssi_signo)
               : 0;
  }

 private:
  sigset_t set_{};
  sigset_t before_{};
  Fd fd_;
};

class Attached {
 public:
  Attached(Tree& tree, const gate::Compiled* gate, const std::function<Status(int)>& started)
      : tree_(tree), gate_policy_(gate), started_(started) {}

  Result<AttachedEnd> run(const Signals& signals) {
    while (!ended_ && !failed_) {
      pollfd entries[] = {
          {tree_.socket(), POLLIN, 0}, {signals.fd(), POLLIN, 0}, {gate_ ? gate_->events() : -1, POLLIN, 0}};
      if (poll(entries, 3, gate_ ? gate_wait_ms : -1) < 0 && errno != EINTR) {
        return errno_error("wait", "boundary", errno);
      }
      if (gate_) {
        gate_->tend();
      }
      if (entries[1].revents != 0) {
        for (int signal = signals.next(); signal != 0; signal = signals.next()) {
          pass_on(signal);
        }
      }
      if (!ended_ && entries[0].revents != 0 && !message()) {
        return Error{ErrorClass::environment,
                     "init-lost",
                     "run in boundary",
                     "hitchrail-init",
                     "Init ended without saying how the program did.",
                     "Was it killed, or is memory short?"};
      }
    }
    tree_.end();
    if (error_) {
      return *error_;
    }
    if (failed_) {
      return failure_of(failure_);
    }
    return end_;
  }

 private:
  // A second interrupt ends the tree: a shell that waits for its child would not pass the first one on.
  void pass_on(int signal) {
    const bool ends = signal == SIGINT || signal == SIGTERM || signal == SIGQUIT || signal == SIGHUP;
    const bool again = ends && signal == last_ending_;
    last_ending_ = ends ? signal : last_ending_;
    const auto send = [&](unsigned flags) {
      return syscall(SYS_pidfd_send_signal, leader_.get(), signal, nullptr, flags) == 0;
    };
    const bool reached = leader_.valid() && (send(whole_group) || send(0));
    if (ends && (again || !reached)) {
      ended_ = true;
      end_ = {true, signal};
    }
  }

  bool message() {
    wire::InitMessage text{};
    iovec part{&text, sizeof text};
    alignas(cmsghdr) char control[CMSG_SPACE(plan::max_listeners * sizeof(int))];
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    const ssize_t got = recvmsg(tree_.socket(), &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      return true;
    }
    if (got <= 0) {
      return false;
    }
    std::vector<Fd> received = received_descriptors(header);
    if (text.type == wire::init_listeners) {
      auto gate = start_gate(gate_policy_, std::move(received), tree_.socket());
      if (gate.has_error()) {
        error_ = std::move(gate).error();
        failed_ = true;
      } else {
        gate_.emplace(std::move(gate).value());
      }
    } else if (text.type == wire::init_started && received.size() == 2) {
      leader_ = std::move(received[1]);
      if (const Status begun = started_ ? started_(received[0].get()) : Status(); begun.has_error()) {
        error_ = begun.error();
        failed_ = true;
      }
    } else if (text.type == wire::init_failed) {
      failed_ = true;
      failure_ = text;
    } else if (text.type == wire::init_child_exited && text.child == 0) {
      ended_ = true;
      end_.signaled = WIFSIGNALED(text.wait_status);
      end_.value = end_.signaled ? WTERMSIG(text.wait_status) : WEXITSTATUS(text.wait_status);
    }
    return true;
  }

  static constexpr int gate_wait_ms = 500;  // a dead one is started again so often
  Tree& tree_;
  const gate::Compiled* gate_policy_;
  std::optional<gate::Helper> gate_;
  const std::function<Status(int)>& started_;
  std::optional<Error> error_;
  Fd leader_;
  int last_ending_ = 0;
  bool ended_ = false;
  bool failed_ = false;
  AttachedEnd end_;
  wire::InitMessage failure_{};
};

}  // namespace

Result<AttachedEnd> run_attached(const Compiled& compiled, const Command& command, const RunDirectories& run,
                                 const std::function<Status(int init)>& started,
                                 const AttachedStreams& streams) {
  Command alone = command;
  alone.end_with_leader = true;
  HR_TRY(plan, flat_plan(compiled, run, alone));
  const Signals signals;  // before the first process: none may be lost between
  HR_TRY(tree, start_init(plan, {streams.in, streams.out, streams.err}));
  return Attached(tree, compiled.gate ? &*compiled.gate : nullptr, started).run(signals);
}

}  // namespace hitchrail::boundary
