// An init for the shim's tests. Plan: mode, NUL, program, NUL. Modes: plain (not pid 1), pidns (pid 1 of a
// pid namespace, made with CLONE_PARENT), fail (says init_failed), die (ends without a word), mute (starts,
// but never reports the exit).

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "shim/wire.hpp"

namespace wire = hitchrail::wire;

static void say(const wire::InitMessage& message, const int* fds, int count) {
  iovec vector{const_cast<wire::InitMessage*>(&message), sizeof message};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  if (count > 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(2 * sizeof(int));
    memcpy(CMSG_DATA(c), fds, 2 * sizeof(int));
  }
  if (sendmsg(wire::init_socket, &header, MSG_NOSIGNAL) < 0) {
    _exit(50);
  }
}

static void run(const char* program, bool mute) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_DUMPABLE, 0);
  int gate[2];
  int exec_done[2];
  if (pipe2(gate, O_CLOEXEC) != 0 || pipe2(exec_done, O_CLOEXEC) != 0) {
    _exit(51);
  }
  const pid_t leader = fork();
  if (leader == 0) {
    char go = 0;
    close(gate[1]);
    close(exec_done[0]);
    if (read(gate[0], &go, 1) < 0) {
      _exit(52);
    }
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(wire::init_stdin, 0);
    dup2(wire::init_stdout, 1);
    dup2(wire::init_stderr, 2);
    syscall(SYS_close_range, 3, 8, 0);
    execl(program, program, nullptr);
    const int error = errno;
    if (write(exec_done[1], &error, sizeof error) < 0) {
      _exit(53);
    }
    _exit(127);
  }
  close(wire::init_stdin);
  close(wire::init_stdout);
  close(wire::init_stderr);
  close(exec_done[1]);
  wire::InitMessage started{};
  started.type = wire::init_started;
  const int fds[2] = {static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)),
                      static_cast<int>(syscall(SYS_pidfd_open, leader, 0))};
  say(started, fds, 2);
  close(gate[1]);
  int error = 0;
  wire::InitMessage next{};
  next.type = wire::init_execed;
  if (read(exec_done[0], &error, sizeof error) > 0) {
    next.type = wire::init_failed;
    next.error_number = error;
    strcpy(next.step, "exec");
  }
  say(next, nullptr, 0);
  for (;;) {
    int status = 0;
    const pid_t pid = waitpid(-1, &status, 0);
    if (pid == leader && !mute) {
      wire::InitMessage gone{};
      gone.type = wire::init_child_exited;
      gone.wait_status = status;
      say(gone, nullptr, 0);
    }
    if (pid < 0) {
      pause();
    }
  }
}

int main() {
  char plan[4096] = {};
  if (pread(wire::init_plan, plan, sizeof plan - 1, 0) <= 0) {
    return 54;
  }
  const char* program = plan + strlen(plan) + 1;
  if (strcmp(plan, "fail") == 0) {
    wire::InitMessage failed{};
    failed.type = wire::init_failed;
    failed.error_number = EPERM;
    strcpy(failed.step, "mount-proc");
    strcpy(failed.detail, "no mount rights here");
    say(failed, nullptr, 0);
    return 1;
  }
  if (strcmp(plan, "die") == 0) {
    return 3;
  }
  if (strcmp(plan, "pidns") == 0) {
    const unsigned long flags = CLONE_NEWPID | CLONE_PARENT | (geteuid() == 0 ? 0 : CLONE_NEWUSER) | SIGCHLD;
    const long pid = syscall(SYS_clone, flags, nullptr, nullptr, nullptr, nullptr);
    if (pid == 0) {
      run(program, false);
    }
    return pid > 0 ? 0 : 55;
  }
  run(program, strcmp(plan, "mute") == 0);
}
