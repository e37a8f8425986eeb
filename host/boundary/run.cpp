// Starting hitchrail-init without a shim: probes and git. The caller's thread is the supervisor: it feeds
// stdin, takes bounded output, and does not return before the whole tree is gone.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "boundary/internal.hpp"
#include "boundary/start.hpp"
#include "core/file.hpp"
#include "core/ids.hpp"
#include "gate/helper.hpp"
#include "shim/wire.hpp"

namespace hitchrail::boundary {
namespace {

struct Pipe {
  Fd read;
  Fd write;
};

Result<Pipe> make_pipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) < 0) {
    return errno_error("make pipe", "boundary", errno);
  }
  return Pipe{Fd(fds[0]), Fd(fds[1])};
}

// One program's life, as the loop below sees it.
class Conversation {
 public:
  Conversation(Tree& tree, const RunLimits& limits, std::string_view input, Pipe& in, Pipe& out, Pipe& err,
               const gate::Compiled* gate)
      : tree_(tree),
        limits_(limits),
        input_(input),
        in_(in.write),
        out_(out.read),
        err_(err.read),
        gate_policy_(gate) {
    for (const Fd* fd : {&in_, &out_, &err_}) {
      fcntl(fd->get(), F_SETFL, fcntl(fd->get(), F_GETFL) | O_NONBLOCK);
    }
    deadline_ = monotonic_nanos() + limits.wall_ms * 1'000'000;
  }

  Result<RunOutput> run() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    struct sigaction before {};
    sigaction(SIGPIPE, &ignore, &before);  // a program need not read its stdin
    Result<RunOutput> result = loop();
    sigaction(SIGPIPE, &before, nullptr);
    return result;
  }

 private:
  Result<RunOutput> loop() {
    while (socket_open_ || out_ || err_) {
      feed();
      if (limits_.stop && limits_.stop()) {
        output_.end = RunOutput::End::stopped;
        tree_.end();
        drain();
        return output_;
      }
      const std::int64_t left = deadline_ - monotonic_nanos();
      if (left <= 0) {
        output_.end = RunOutput::End::timed_out;
        tree_.end();
        drain();
        return output_;
      }
      pollfd entries[] = {{socket_open_ ? tree_.socket() : -1, POLLIN, 0},
                          {out_.get(), POLLIN, 0},
                          {err_.get(), POLLIN, 0},
                          {in_.get(), POLLOUT, 0},
                          {gate_ ? gate_->events() : -1, POLLIN, 0}};
      const std::int64_t longest = limits_.stop ? 250 : gate_ ? 500 : 60'000;
      const int wait_ms = static_cast<int>(std::min<std::int64_t>(left / 1'000'000 + 1, longest));
      if (poll(entries, 5, wait_ms) < 0 && errno != EINTR) {
        return errno_error("wait", "boundary", errno);
      }
      if (gate_) {
        gate_->tend();
      }
      if (entries[0].revents != 0) {
        message();
      }
      take(out_, output_.out, limits_.max_stdout, output_.out_truncated);
      take(err_, output_.err, limits_.max_stderr, output_.err_truncated);
      if (output_.out_truncated) {
        output_.end = RunOutput::End::output_limit;
        tree_.end();
        return output_;
      }
      if (failed_) {
        tree_.end();
        return gate_error_ ? *gate_error_ : failure_of(failure_);
      }
    }
    tree_.end();
    if (!exited_) {
      return Error{ErrorClass::environment,
                   "init-lost",
                   "run in boundary",
                   "hitchrail-init",
                   "It ended without saying how the program ended.",
                   "Was it killed (out of memory)? See the kernel's log."};
    }
    return output_;
  }

  void feed() {
    while (in_ && !input_.empty()) {
      const ssize_t wrote = write(in_.get(), input_.data(), input_.size());
      if (wrote < 0) {
        if (errno == EAGAIN || errno == EINTR) {
          return;
        }
        break;  // nobody reads any more
      }
      input_.remove_prefix(static_cast<std::size_t>(wrote));
    }
    in_.reset();
  }

  static void take(Fd& fd, std::string& to, std::size_t limit, bool& truncated) {
    char buffer[65536];
    while (fd) {
      const ssize_t got = read(fd.get(), buffer, sizeof buffer);
      if (got < 0) {
        if (errno != EAGAIN && errno != EINTR) {
          fd.reset();
        }
        return;
      }
      if (got == 0) {
        fd.reset();
        return;
      }
      const std::size_t room = limit - to.size();
      const auto size = static_cast<std::size_t>(got);
      to.append(buffer, std::min(room, size));
      truncated = truncated || size > room;
      if (truncated) {
        return;  // stdout: the program is ended; stderr: read on at the next turn and dropped
      }
    }
  }

  void drain() {
    take(out_, output_.out, limits_.max_stdout, output_.out_truncated);
    take(err_, output_.err, limits_.max_stderr, output_.err_truncated);
  }

  void message() {
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
      return;
    }
    if (got <= 0) {
      socket_open_ = false;
      return;
    }
    // Closed here, but for listeners and init itself: nobody is signalled alone
    std::vector<Fd> received = received_descriptors(header);
    if (text.type == wire::init_listeners) {
      auto gate = start_gate(gate_policy_, std::move(received), tree_.socket());
      if (gate.has_error()) {
        gate_error_ = std::move(gate).error();
        failed_ = true;
      } else {
        gate_.emplace(std::move(gate).value());
      }
    } else if (text.type == wire::init_started && received.size() == 2) {
      tree_.watch(std::move(received.front()));
    } else if (text.type == wire::init_failed) {
      failed_ = true;
      failure_ = text;
    } else if (text.type == wire::init_child_exited && text.child == 0) {
      exited_ = true;
      const bool by_signal = WIFSIGNALED(text.wait_status);
      output_.end = by_signal ? RunOutput::End::signaled : RunOutput::End::exited;
      output_.value = by_signal ? WTERMSIG(text.wait_status) : WEXITSTATUS(text.wait_status);
    }
  }

  Tree& tree_;
  const RunLimits& limits_;
  std::string_view input_;
  Fd& in_;
  Fd& out_;
  Fd& err_;
  const gate::Compiled* gate_policy_;
  std::optional<gate::Helper> gate_;
  std::optional<Error> gate_error_;
  std::int64_t deadline_ = 0;
  RunOutput output_;
  bool socket_open_ = true;
  bool exited_ = false;
  bool failed_ = false;
  wire::InitMessage failure_{};
};

}  // namespace

Result<std::string> init_path() {
  std::vector<std::string> candidates;
  if (const char* folder = std::getenv("HITCHRAIL_LIBEXEC")) {
    candidates.push_back(std::string(folder) + "/hitchrail-init");
  } else {
    char buffer[PATH_MAX];
    const ssize_t size = readlink("/proc/self/exe", buffer, sizeof buffer);
    std::string self(buffer, size > 0 ? static_cast<std::size_t>(size) : 0);
    self.resize(self.rfind('/') == std::string::npos ? 0 : self.rfind('/'));
    candidates = {self + "/hitchrail-init", self + "/../libexec/hitchrail/hitchrail-init"};
  }
  for (const std::string& path : candidates) {
    if (access(path.c_str(), X_OK) == 0) {
      return path;
    }
  }
  return Error{ErrorClass::environment,
               "init-missing",
               "find hitchrail-init",
               candidates.front(),
               "The program that builds boundaries is not installed.",
               "Install Hitchrail completely: ./quickstart"};
}

namespace {
Result<RunOutput> run_with_gate(const std::string& plan, const RunLimits& limits,
                                std::string_view stdin_bytes, const gate::Compiled* gate) {
  HR_TRY(in, make_pipe());
  HR_TRY(out, make_pipe());
  HR_TRY(err, make_pipe());
  HR_TRY(tree, start_init(
                   plan, {in.read.get(), out.write.get(), limits.merge ? out.write.get() : err.write.get()}));
  in.read.reset();
  out.write.reset();
  err.write.reset();
  return Conversation(tree, limits, stdin_bytes, in, out, err, gate).run();
}
}  // namespace

Result<RunOutput> run_plan(const std::string& plan, const RunLimits& limits, std::string_view stdin_bytes) {
  return run_with_gate(plan, limits, stdin_bytes, nullptr);
}

Result<RunOutput> run(const Compiled& compiled, const Command& command, const RunLimits& limits,
                      std::string_view stdin_bytes, const RunDirectories& run_directories) {
  if (!command.secret_env.empty()) {
    return Error{ErrorClass::internal,
                 "secrets-unsupported",
                 "run in boundary",
                 command.secret_env.front(),
                 "Probes are started without secrets.",
                 ""};
  }
  Command alone = command;
  alone.end_with_leader = true;
  HR_TRY(plan, flat_plan(compiled, run_directories, alone));
  return run_with_gate(plan, limits, stdin_bytes, compiled.gate ? &*compiled.gate : nullptr);
}

}  // namespace hitchrail::boundary
