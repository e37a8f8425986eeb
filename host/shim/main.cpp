// hitchrail-shim: set-up of its own process and the loop. See shim.hpp.

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "shim/shim.hpp"

namespace hitchrail::shim {

Shim g;

bool watch(int fd, Watch kind, std::uint32_t index, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = static_cast<std::uint64_t>(kind) << 32 | index;
  return epoll_ctl(g.epoll, EPOLL_CTL_MOD, fd, &event) == 0 ||
         epoll_ctl(g.epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

void unwatch(int fd) {
  epoll_ctl(g.epoll, EPOLL_CTL_DEL, fd, nullptr);
}

void fail_start(const char* step, int error_number, const char* detail) {
  g.init_failure.type = init_failed;
  g.init_failure.error_number = error_number;
  set_text(g.init_failure.step, step);
  set_text(g.init_failure.detail, detail);
}

namespace {

bool descriptors_given() {
  for (const int fd : {shim_spawn, shim_attempt, shim_init, shim_init_plan, shim_runner, shim_adapter,
                       shim_config, shim_finish, shim_report}) {
    if (fcntl(fd, F_GETFD) < 0) {
      char detail[32] = "descriptor ";
      format_number(detail + 11, static_cast<std::uint64_t>(fd));
      fail_start("descriptors", EBADF, detail);
      return false;
    }
  }
  return true;
}

// Whatever the caller was: own session, no terminal, no inherited descriptor, mask or disposition, nothing to
// dump.
bool sanitize() {
  setsid();  // fails only where we lead a group already, and then there is no terminal of the caller to lose
  umask(077);
  const rlimit none{0, 0};
  if (chdir("/") != 0 || setrlimit(RLIMIT_CORE, &none) != 0 || prctl(PR_SET_DUMPABLE, 0) != 0 ||
      prctl(PR_SET_CHILD_SUBREAPER, 1) != 0 || prctl(PR_SET_NAME, "hitchrail-shim") != 0) {
    fail_start("own-process", errno, "prctl");
    return false;
  }
  for (int number = 1; number < 65; ++number) {
    struct sigaction action {};
    action.sa_handler = number == SIGPIPE ? SIG_IGN : SIG_DFL;
    sigaction(number, &action, nullptr);
  }
  // A fault of ours must still kill us.
  sigset_t blocked;
  sigfillset(&blocked);
  for (const int fatal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS, SIGTRAP}) {
    sigdelset(&blocked, fatal);
  }
  if (sigprocmask(SIG_SETMASK, &blocked, nullptr) != 0 ||
      syscall(SYS_close_range, shim_fd_end, ~0U, 0) != 0) {
    fail_start("own-process", errno, "signal mask or descriptors");
    return false;
  }
  if (!descriptors_given()) {
    return false;
  }
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0) {
    fail_start("own-process", errno, "/dev/null");
    return false;
  }
  if (null > 2) {
    close(null);
  }
  // An absent descriptor's number must not be taken by one of ours.
  for (const int fd : {shim_secrets, shim_home, shim_gate, shim_gate_policy}) {
    const bool given = fcntl(fd, F_GETFD) >= 0;
    (fd == shim_secrets ? g.secrets_given : fd == shim_home ? g.home_given : g.gate_given) = given;
    if (!given && dup2(0, fd) < 0) {
      fail_start("own-process", errno, "dup2");
      return false;
    }
  }
  g.epoll = epoll_create1(EPOLL_CLOEXEC);
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGCHLD);
  sigaddset(&wanted, SIGTERM);
  sigaddset(&wanted, SIGINT);
  g.signals = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
  if (g.epoll < 0 || g.signals < 0 || !watch(g.signals, watch_signals, 0, EPOLLIN)) {
    fail_start("own-process", errno, "epoll");
    return false;
  }
  return true;
}

bool set_up() {
  if (!load_spawn() || !load_gate() || !make_rings() || !make_state() || !open_control()) {
    return false;
  }
  // From here on a harness may have been started; recovery must not think otherwise.
  g.slot.state = exit_running;
  g.slot.started_unix_ms = unix_ms();
  write_exit_slot();
  return start_init() && apply_published();
}

void take_signals() {
  signalfd_siginfo info{};
  bool stop = false;
  while (read(g.signals, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    stop = stop || info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT;
  }
  reap_children();
  if (stop) {
    if (g.stop_reason == stop_none) {
      g.stop_reason = stop_asked;
    }
    raise_event(event_stop);
  }
}

void dispatch(const epoll_event& event) {
  const auto index = static_cast<std::uint32_t>(event.data.u64);
  switch (static_cast<Watch>(event.data.u64 >> 32)) {
    case watch_signals:
      take_signals();
      break;
    case watch_stream:
      read_stream(index);
      break;
    case watch_stdin:
      pump_stdin();
      break;
    case watch_init:
      if (index == 0) {
        init_readable();
      } else {
        unwatch(g.init_pidfd);
        init_died();
        g.tree_next = 0;
      }
      break;
    case watch_leader:
      leader_gone();
      break;
    case watch_runner:
      if (g.runner.socket >= 0) {
        runner_readable();
      }
      break;
    case watch_listen:
      accept_client(index == 1);
      break;
    case watch_gate:
      gate_readable();
      break;
    case watch_client:
      client_ready(index, event.events);
      break;
  }
}

std::int64_t retry_due(std::int64_t now) {
  for (std::uint32_t i = 0; i < g.stream_count; ++i) {
    const Stream& stream = g.streams[i];
    if (stream.stash.size() > 0 || stream.logged != stream.end ||
        (stream.source < 0 && !stream.eof && stream.pattern == nullptr && g.phase != phase_starting)) {
      return now + 100;
    }
  }
  if (g.runner.pid != 0 && g.log.cursor < g.log.tail && g.runner.out.size() == 0 && g.next_send > now) {
    return g.next_send;
  }
  return 0;
}

int wait_time() {
  const std::int64_t now = monotonic_ms();
  std::int64_t due = 0;
  for (const std::int64_t when :
       {timers_due(), clients_due(), tree_due(), phase_due(), gate_due(), watchdog(now), retry_due(now)}) {
    due = when != 0 && (due == 0 || when < due) ? when : due;
  }
  if (due == 0) {
    return -1;
  }
  const std::int64_t wait = due - now;
  return wait < 0 ? 0 : wait > 3600000 ? 3600000 : static_cast<int>(wait);
}

void loop() {
  while (g.phase != phase_done) {
    epoll_event events[16];
    const int n = epoll_wait(g.epoll, events, 16, wait_time());
    if (n < 0 && errno != EINTR) {
      _exit(2);  // nothing can be watched any more: harness and runner end with us, recovery tells it
    }
    for (int i = 0; i < n; ++i) {
      dispatch(events[i]);
    }
    const std::int64_t now = monotonic_ms();
    fire_timers(now);
    expire_clients(now);
    tree_pass(now);
    gate_tick(now);
    phase_tick(now);
    if (n == 0) {
      retry_stashes();
    }
    if (g.apply_held && !apply_published()) {
      kill_runner();
    }
    send_log();
  }
}

int run() {
  if (!sanitize() || !open_exit_slot()) {
    report_start(start_failed, g.init_failure.step, g.init_failure.error_number, g.init_failure.detail);
    return 1;
  }
  if (!set_up()) {
    raise_event(event_start_failed);
  }
  loop();
  close_control();
  return 0;
}

}  // namespace
}  // namespace hitchrail::shim

int main() {
  return hitchrail::shim::run();
}
