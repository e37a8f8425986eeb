// Init, the harness and everything below it: start, status, stop steps, the end of the tree, reaping.

#include <dirent.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "shim/shim.hpp"

namespace hitchrail::shim {

namespace {

constexpr std::int64_t pass_every = 3;
constexpr std::int64_t tree_limit = 10000;
constexpr std::int64_t drain_grace = 2000;  // for descriptors of a stream held outside the tree
constexpr std::int64_t report_grace = 500;  // init's, after the leader was killed

struct Pair {
  int ours = -1;
  int theirs = -1;
};

void close_pair(Pair& pair) {
  close_fd(pair.ours);
  close_fd(pair.theirs);
}

// One standard stream. A socket pair cannot be opened through /proc by others; a pipe is for programs that
// need it.
bool make_pair(bool input, Pair& pair) {
  int ends[2];
  if ((g.flags & flag_pipes) != 0) {
    if (pipe2(ends, O_CLOEXEC) != 0) {
      return false;
    }
    pair.ours = input ? ends[1] : ends[0];
    pair.theirs = input ? ends[0] : ends[1];
    fcntl(pair.theirs, F_SETPIPE_SZ, 1 << 20);  // as large as allowed; the default does as well
  } else {
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
      return false;
    }
    pair.ours = ends[0];
    pair.theirs = ends[1];
    // One direction only: bytes sent the wrong way would turn our close into a reset.
    shutdown(pair.ours, input ? SHUT_RD : SHUT_WR);
    const int size = 1 << 20;
    const int writer = input ? pair.ours : pair.theirs;
    if (setsockopt(writer, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size) != 0) {
      setsockopt(writer, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    }
  }
  return fcntl(pair.ours, F_SETFL, O_NONBLOCK) == 0;
}

void record_status(int status, ExitSource source) {
  if (g.leader_known) {
    return;
  }
  g.leader_known = true;
  g.slot.source = source;
  if (source == source_none) {
    g.slot.kind = kind_unknown;
    g.slot.value = 0;
  } else if (WIFSIGNALED(status)) {
    g.slot.kind = kind_signal;
    g.slot.value = WTERMSIG(status);
  } else {
    g.slot.kind = kind_code;
    g.slot.value = WEXITSTATUS(status);
  }
  g.slot.exited_unix_ms = unix_ms();
  g.slot.state = exit_exited;
  write_exit_slot();
  if (g.leader_pidfd >= 0) {
    unwatch(g.leader_pidfd);
  }
  raise_event(event_leader_exited);
}

void take_started(const InitMessage& message, int init_fd, int leader_fd) {
  (void)message;
  close_fd(g.init_pidfd);
  g.init_pidfd = init_fd;
  g.leader_pidfd = leader_fd;
  g.init_pid = pidfd_pid(init_fd);
  g.leader_pid = pidfd_pid(leader_fd);
  g.slot.init_pid = g.init_pid;
  g.slot.leader_pid = g.leader_pid;
  identify(g.init_pid, g.slot.init_start_ticks);
  identify(g.leader_pid, g.slot.leader_start_ticks);
  write_exit_slot();
  watch(g.init_pidfd, watch_init, 1, EPOLLIN);
  watch(g.leader_pidfd, watch_leader, 0, EPOLLIN);
}

void take_message(const InitMessage& message, const int* fds, int fd_count) {
  if (message.type == init_started && fd_count == 2 && g.leader_pidfd < 0) {
    take_started(message, fds[0], fds[1]);
    return;
  }
  if (message.type == init_listeners && g.phase == phase_starting) {
    take_listeners(fds, fd_count);
    return;
  }
  for (int i = 0; i < fd_count; ++i) {
    close(fds[i]);
  }
  if (message.type == init_execed && g.phase == phase_starting && g.leader_pidfd >= 0) {
    if (!gate_ready()) {
      fail_start("gate-listener", EPROTO, "init made no listening sockets");
    }
    raise_event(gate_ready() ? event_execed : event_start_failed);
  } else if (message.type == init_failed && g.phase == phase_starting) {
    g.init_failure = message;
    g.init_failure.step[sizeof message.step - 1] = 0;
    g.init_failure.detail[sizeof message.detail - 1] = 0;
    raise_event(event_start_failed);
  } else if (message.type == init_child_exited && message.child == 0) {
    record_status(message.wait_status, source_init);
  }
}

struct Process {
  int pid;
  int parent;
  std::uint64_t start_ticks;
  bool ours;
};

// Every process of this /proc; nullptr when memory is short. The caller frees it.
Process* list_processes(std::size_t& count) {
  count = 0;
  DIR* dir = opendir("/proc");
  if (dir == nullptr) {
    return nullptr;
  }
  Process* all = nullptr;
  std::size_t capacity = 0;
  while (const dirent* entry = readdir(dir)) {
    const int pid = atoi(entry->d_name);
    ProcessStat stat{};
    if (pid <= 0 || !read_stat(pid, stat)) {
      continue;
    }
    if (count == capacity) {
      capacity = capacity == 0 ? 256 : capacity * 2;
      auto* more = static_cast<Process*>(realloc(all, capacity * sizeof(Process)));
      if (more == nullptr) {
        break;
      }
      all = more;
    }
    all[count++] = {pid, stat.parent, stat.start_ticks, false};
  }
  closedir(dir);
  return all;
}

// Marks our descendants but for the programs of the run itself; answers how many.
std::size_t mark_descendants(Process* all, std::size_t count) {
  const int self = getpid();
  std::size_t found = 0;
  for (bool again = true; again;) {
    again = false;
    for (std::size_t i = 0; i < count; ++i) {
      Process& p = all[i];
      if (p.ours || p.pid == self || p.pid == g.runner.pid || p.pid == g.gate.pid || p.pid == g.finish_pid) {
        continue;
      }
      bool below = p.parent == self;
      for (std::size_t k = 0; k < count && !below; ++k) {
        below = all[k].ours && all[k].pid == p.parent;
      }
      if (below) {
        p.ours = again = true;
        ++found;
      }
    }
  }
  return found;
}

// The number is only a name: the pidfd is taken first and the start time compared after.
void signal_process(const Process& p, int signal) {
  int fd = open_pidfd(p.pid);
  ProcessStat stat{};
  if (fd >= 0 && read_stat(p.pid, stat) && stat.start_ticks == p.start_ticks) {
    signal_pidfd(fd, signal);
  }
  close_fd(fd);
}

// Freezes until nobody new appears, then kills; answers how many there were.
std::size_t freeze_and_kill() {
  std::size_t before = 0;
  for (int round = 0; round < 16; ++round) {
    std::size_t count = 0;
    Process* all = list_processes(count);
    const std::size_t found = mark_descendants(all, count);
    const bool last = found == before || round == 15;
    for (std::size_t i = 0; i < count && found > 0; ++i) {
      if (all[i].ours) {
        signal_process(all[i], last ? SIGKILL : SIGSTOP);
      }
    }
    free(all);
    if (last) {
      return found;
    }
    before = found;
  }
  return before;
}

}  // namespace

bool start_init() {
  Pair in;
  Pair out;
  Pair err;
  int ends[2] = {-1, -1};
  int secrets = secrets_pipe();
  if (secrets < 0 || !make_pair(true, in) || !make_pair(false, out) || !make_pair(false, err) ||
      socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0 ||
      fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) {
    const int error = errno;
    close_pair(in);
    close_pair(out);
    close_pair(err);
    close_fd(secrets);
    fail_start("streams", error, "socketpair");
    return false;
  }
  g.stdin_fd = in.ours;
  g.streams[stream_stdout].source = out.ours;
  g.streams[stream_stderr].source = err.ours;
  g.init_socket = ends[0];
  const FdMap map[] = {{shim_init_plan, init_plan}, {ends[1], init_socket},    {in.theirs, init_stdin},
                       {out.theirs, init_stdout},   {err.theirs, init_stderr}, {secrets, init_secrets}};
  const char* const argv[] = {"hitchrail-init", nullptr};
  const char* const environment[] = {nullptr};
  const int pid = start_child({shim_init, argv, environment, map, sizeof map / sizeof map[0], true});
  const int error = errno;
  close_fd(in.theirs);
  close_fd(out.theirs);
  close_fd(err.theirs);
  close_fd(secrets);
  close_fd(ends[1]);
  if (pid < 0) {
    fail_start("start-init", error, "fork");
    return false;
  }
  g.init_first_pid = pid;
  g.init_pidfd = open_pidfd(pid);
  return watch(g.init_socket, watch_init, 0, EPOLLIN) &&
         watch(out.ours, watch_stream, stream_stdout, EPOLLIN) &&
         watch(err.ours, watch_stream, stream_stderr, EPOLLIN);
}

void init_readable() {
  while (g.init_socket >= 0) {
    InitMessage message{};
    alignas(cmsghdr) char control[CMSG_SPACE(gatewire::max_listeners * sizeof(int))];
    iovec vector{&message, sizeof message};
    msghdr header{};
    header.msg_iov = &vector;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    const ssize_t n = recvmsg(g.init_socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0 && errno == EAGAIN) {
      return;
    }
    if (n <= 0) {
      unwatch(g.init_socket);
      close_fd(g.init_socket);
      init_died();
      return;
    }
    int fds[gatewire::max_listeners];
    int fd_count = 0;
    for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
      if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
        const std::size_t bytes = c->cmsg_len - CMSG_LEN(0);
        fd_count = static_cast<int>(bytes / sizeof(int));
        memcpy(fds, CMSG_DATA(c), static_cast<std::size_t>(fd_count) * sizeof(int));
      }
    }
    if (n >= static_cast<ssize_t>(sizeof message)) {
      take_message(message, fds, fd_count);
    }
  }
}

// Init is gone, by itself, by us or by somebody else. What it had to say was read before.
void init_died() {
  if (g.init_socket >= 0) {
    init_readable();
    if (g.init_socket < 0) {
      return;  // it came here again
    }
  }
  if (g.phase == phase_starting) {
    if (g.init_failure.type == 0) {
      g.init_failure.type = init_failed;
      set_text(g.init_failure.step, "init-lost");
      set_text(g.init_failure.detail, "init ended without a word");
    }
    raise_event(event_start_failed);
  } else if (!g.leader_known && g.leader_dead_at == 0) {
    // Below a pid namespace the harness ends with it; without one it is now ours to reap. Either is soon.
    g.leader_dead_at = monotonic_ms();
  }
}

// The leader's pidfd says it is dead; init has a moment to report, then other sources are asked.
void leader_gone() {
  if (g.leader_known) {
    return;
  }
  const std::int64_t now = monotonic_ms();
  g.leader_dead_at = g.leader_dead_at == 0 ? now : g.leader_dead_at;
  unwatch(g.leader_pidfd);
}

static void ask_other_sources(std::int64_t now) {
  if (g.leader_known || g.leader_dead_at == 0 || now < g.leader_dead_at + report_grace) {
    return;
  }
  int status = 0;
  if (pidfd_exit_status(g.leader_pidfd, status)) {
    record_status(status, source_pidfd);
    return;
  }
  ProcessStat stat{};
  std::uint64_t ticks = 0;
  identify(g.leader_pid, ticks);
  const bool alive =
      ticks != 0 && ticks == g.slot.leader_start_ticks && read_stat(g.leader_pid, stat) && stat.state != 'Z';
  if (alive) {
    // Init is dead and the harness is not: nobody guards it any more.
    signal_pidfd(g.leader_pidfd, SIGKILL);
    g.leader_dead_at = now;
    return;
  }
  record_status(0, source_none);
}

void kill_harness() {
  g.tree_kill_at = monotonic_ms() + report_grace;
  if (!signal_pidfd(g.leader_pidfd, SIGKILL)) {
    begin_tree_end();
  }
}

void begin_tree_end() {
  const std::int64_t now = monotonic_ms();
  g.tree_kill_at = 0;
  if (g.tree_ending) {
    return;
  }
  g.tree_ending = true;
  g.tree_deadline = now + tree_limit;
  g.tree_next = now;
  if ((g.flags & flag_no_pid_namespace) == 0) {
    signal_pidfd(g.init_pidfd, SIGKILL);  // pid 1 of its namespace: the kernel ends all others
  }
}

void tree_pass(std::int64_t now) {
  ask_other_sources(now);
  if (g.tree_kill_at != 0 && now >= g.tree_kill_at) {
    begin_tree_end();
  }
  if (!g.tree_ending || g.tree_empty || now < g.tree_next) {
    return;
  }
  reap_children();
  if (freeze_and_kill() != 0) {
    reap_children();
    if (now < g.tree_deadline) {
      g.tree_next = now + pass_every;
      return;
    }
    set_cause("processes-left", "processes of the run could not be ended within ten seconds");
  }
  g.tree_empty = true;
  end_gate();
  g.drain_deadline = now + drain_grace;
  raise_event(event_tree_empty);
}

std::int64_t tree_due() {
  std::int64_t due = 0;
  const auto take = [&due](std::int64_t when) { due = when != 0 && (due == 0 || when < due) ? when : due; };
  if (!g.leader_known && g.leader_dead_at != 0) {
    take(g.leader_dead_at + report_grace);
  }
  take(g.tree_kill_at);
  if (g.tree_ending && !g.tree_empty) {
    take(g.tree_next);
  }
  return due;
}

void run_stop_step() {
  if (g.next_step == g.stop_count) {
    g.step_due = 0;
    kill_harness();
    return;
  }
  const StopPlanStep& plan = g.stop_steps[g.next_step++];
  if (plan.step.kind == stop_send) {
    send_parts(plan.parts, plan.step.parts_size);
  } else if (plan.step.kind == stop_close_input) {
    close_stdin_after_queue();
  } else {
    signal_pidfd(g.leader_pidfd, plan.step.signal);
  }
  g.step_due = monotonic_ms() + plan.step.wait_ms + 1;
}

void reap_children() {
  for (;;) {
    int status = 0;
    const pid_t pid = waitpid(-1, &status, WNOHANG);
    if (pid <= 0) {
      return;
    }
    if (pid == g.runner.pid) {
      runner_died(status);
    } else if (pid == g.gate.pid) {
      gate_died(status);
    } else if (pid == g.finish_pid) {
      finisher_died(status);
    } else if (pid == g.leader_pid) {
      if (g.init_socket >= 0) {
        init_readable();
      }
      record_status(status, source_wait);
    } else if (pid == g.init_pid ||
               (pid == g.init_first_pid && g.init_pid == 0 && g.phase == phase_starting)) {
      // The first process of init may leave as soon as pid 1 has told of itself.
      if (g.init_socket >= 0) {
        init_readable();
      }
      if (pid == g.init_pid) {
        init_died();
      }
    }
  }
}

}  // namespace hitchrail::shim
