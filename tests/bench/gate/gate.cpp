// What the gate costs: latency it adds to a request and to a connection, and throughput, against (a) the
// upstream itself in the same network namespace and (b) plain relays in front of it: a copying one of a few
// lines, and socat where it is installed. All in one run; ratios are what counts.
//
//   gate_bench [SAMPLES] [MEBIBYTES] [ROUNDS]
//
// The client is in a network namespace of its own, as a run is: the gate is reached through a socket made
// there. For "direct" and the plain relays client and server are in that same inner namespace.
#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "core/fd.hpp"
#include "gate/helper.hpp"

namespace {

using hitchrail::Fd;
using Clock = std::chrono::steady_clock;

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_port = htons(port);
  in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return in;
}

Fd listen_on(std::uint16_t port) {
  Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in in = loopback(port);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&in), sizeof in) != 0 || listen(fd.get(), 128) != 0) {
    die("listen");
  }
  return fd;
}

std::uint16_t port_of(const Fd& fd) {
  sockaddr_in in{};
  socklen_t size = sizeof in;
  getsockname(fd.get(), reinterpret_cast<sockaddr*>(&in), &size);
  return ntohs(in.sin_port);
}

Fd connect_to(std::uint16_t port) {
  const sockaddr_in in = loopback(port);
  for (int i = 0; i < 200; ++i) {
    Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&in), sizeof in) == 0) {
      return fd;
    }
    usleep(10'000);
  }
  die("connect");
}

// A child that lives until this process ends.
template <class F>
pid_t child(F&& work) {
  const pid_t pid = fork();
  if (pid == 0) {
    signal(SIGPIPE, SIG_IGN);
    work();
    _exit(0);
  }
  return pid;
}

// First byte 'e': echoes 4 bytes again and again. Otherwise a length in MiB follows, and so much is sent.
void serve(const Fd& listener) {
  std::vector<char> bytes(256u << 10);
  for (;;) {
    const Fd client(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!client) {
      return;
    }
    if (fork() != 0) {
      while (waitpid(-1, nullptr, WNOHANG) > 0) {
      }
      continue;
    }
    const int on = 1;
    setsockopt(client.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    for (;;) {
      char request[4];
      if (recv(client.get(), request, 4, MSG_WAITALL) != 4) {
        _exit(0);
      }
      if (request[0] == 'e') {
        (void)!send(client.get(), request, 4, MSG_NOSIGNAL);
        continue;
      }
      std::uint16_t mebibytes = 0;
      std::memcpy(&mebibytes, request + 2, 2);
      for (std::size_t left = std::size_t{mebibytes} << 20; left > 0;) {
        const ssize_t sent = send(client.get(), bytes.data(), std::min(left, bytes.size()), MSG_NOSIGNAL);
        if (sent <= 0) {
          _exit(1);
        }
        left -= static_cast<std::size_t>(sent);
      }
    }
  }
}

// The plain relay: one process a connection, poll and copy.
void relay(const Fd& listener, std::uint16_t upstream) {
  for (;;) {
    const Fd client(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!client) {
      return;
    }
    if (fork() != 0) {
      while (waitpid(-1, nullptr, WNOHANG) > 0) {
      }
      continue;
    }
    const int on = 1;
    setsockopt(client.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const Fd server = connect_to(upstream);
    std::vector<char> bytes(128u << 10);
    pollfd entries[] = {{client.get(), POLLIN, 0}, {server.get(), POLLIN, 0}};
    while (poll(entries, 2, -1) >= 0) {
      for (int i = 0; i < 2; ++i) {
        if (entries[i].revents == 0) {
          continue;
        }
        const ssize_t got = recv(entries[i].fd, bytes.data(), bytes.size(), 0);
        if (got <= 0) {
          _exit(0);
        }
        for (ssize_t done = 0; done < got;) {
          const ssize_t sent = send(entries[1 - i].fd, bytes.data() + done,
                                    static_cast<std::size_t>(got - done), MSG_NOSIGNAL);
          if (sent <= 0) {
            _exit(0);
          }
          done += sent;
        }
      }
    }
    _exit(0);
  }
}

struct Times {
  std::vector<double> us;
  [[nodiscard]] double at(double part) const {
    std::vector<double> sorted = us;
    std::sort(sorted.begin(), sorted.end());
    return sorted[std::min(sorted.size() - 1,
                           static_cast<std::size_t>(part * static_cast<double>(sorted.size())))];
  }
};

void echo_once(const Fd& fd) {
  char bytes[4] = {'e', 0, 0, 0};
  if (send(fd.get(), bytes, 4, MSG_NOSIGNAL) != 4 || recv(fd.get(), bytes, 4, MSG_WAITALL) != 4) {
    die("echo");
  }
}

double micros(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

struct Path {
  const char* name;
  std::uint16_t port;
  Times request;
  Times connection;
  std::vector<double> throughput;  // MB/s
};

void sample(Path& path, int samples) {
  const Fd fd = connect_to(path.port);
  for (int i = 0; i < samples; ++i) {
    const auto begin = Clock::now();
    echo_once(fd);
    path.request.us.push_back(micros(begin));
  }
  for (int i = 0; i < samples / 4; ++i) {
    const auto begin = Clock::now();
    echo_once(connect_to(path.port));
    path.connection.us.push_back(micros(begin));
  }
}

void transfer(Path& path, std::uint16_t mebibytes) {
  const Fd fd = connect_to(path.port);
  char request[4] = {'d', 0, 0, 0};
  std::memcpy(request + 2, &mebibytes, 2);
  std::vector<char> bytes(256u << 10);
  const auto begin = Clock::now();
  if (send(fd.get(), request, 4, MSG_NOSIGNAL) != 4) {
    die("send");
  }
  for (std::size_t left = std::size_t{mebibytes} << 20; left > 0;) {
    const ssize_t got = recv(fd.get(), bytes.data(), std::min(left, bytes.size()), 0);
    if (got <= 0) {
      die("receive");
    }
    left -= static_cast<std::size_t>(got);
  }
  path.throughput.push_back(static_cast<double>(mebibytes) * 1048576 / micros(begin));
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void bring_up_loopback() {
  const Fd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP;
  if (ioctl(fd.get(), SIOCSIFFLAGS, &request) != 0) {
    die("loopback");
  }
}

void send_sockets(int channel, const std::vector<int>& fds) {
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
  cmsghdr* rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
  std::memcpy(CMSG_DATA(rights), fds.data(), fds.size() * sizeof(int));
  if (sendmsg(channel, &header, 0) != 1) {
    die("send sockets");
  }
}

std::vector<Fd> receive_sockets(int channel) {
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  if (recvmsg(channel, &header, MSG_CMSG_CLOEXEC) != 1) {
    die("receive sockets");
  }
  std::vector<Fd> out;
  const cmsghdr* rights = CMSG_FIRSTHDR(&header);
  for (std::size_t i = 0; i < (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int); ++i) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(rights) + i * sizeof fd, sizeof fd);
    out.emplace_back(fd);
  }
  return out;
}

void print(const std::vector<Path>& paths) {
  const Path& direct = paths[0];
  const Path& plain = paths[1];
  std::printf("%-12s %24s %24s %12s\n", "", "request us p50 (p99)", "connection us p50 (p99)", "MB/s");
  for (const Path& path : paths) {
    std::printf("%-12s %15.1f (%6.1f) %15.1f (%6.1f) %12.0f\n", path.name, path.request.at(0.5),
                path.request.at(0.99), path.connection.at(0.5), path.connection.at(0.99),
                median(path.throughput));
  }
  for (const Path& path : paths) {
    if (&path == &direct) {
      continue;
    }
    std::printf(
        "%-12s adds %7.1f us to a request, %7.1f us to a connection; throughput %.2f of direct, %.2f of the "
        "plain "
        "relay\n",
        path.name, path.request.at(0.5) - direct.request.at(0.5),
        path.connection.at(0.5) - direct.connection.at(0.5),
        median(path.throughput) / median(direct.throughput),
        median(path.throughput) / median(plain.throughput));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int samples = argc > 1 ? std::atoi(argv[1]) : 2000;
  const auto mebibytes = static_cast<std::uint16_t>(argc > 2 ? std::atoi(argv[2]) : 512);
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 5;
  signal(SIGPIPE, SIG_IGN);
  // The upstream on the host's side, and the gate's policy for it.
  const Fd outer = listen_on(0);
  const std::uint16_t upstream = port_of(outer);
  const auto compiled = hitchrail::gate::compile({{}, {{hitchrail::gate::mapped(0x7f000001), upstream}}});
  if (compiled.has_error()) {
    die("compile");
  }
  std::vector<pid_t> children{child([&] { serve(outer); })};
  int channel[2];
  int answer[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel) != 0 || pipe2(answer, O_CLOEXEC) != 0) {
    die("socketpair");
  }
  const pid_t inside = child([&] {
    if (unshare(geteuid() == 0 ? CLONE_NEWNET : CLONE_NEWNET | CLONE_NEWUSER) != 0) {
      die("unshare");
    }
    bring_up_loopback();
    const Fd proxy = listen_on(compiled.value().listeners[0].port);
    const Fd relayed = listen_on(upstream);
    send_sockets(channel[1], {proxy.get(), relayed.get()});
    char go = 0;
    if (read(answer[0], &go, 1) != 1) {
      _exit(1);
    }
    const Fd server = listen_on(0);
    const Fd plain = listen_on(0);
    std::vector<pid_t> own{child([&] { serve(server); }), child([&] { relay(plain, port_of(server)); })};
    std::vector<Path> paths{{"direct", port_of(server), {}, {}, {}},
                            {"plain relay", port_of(plain), {}, {}, {}},
                            {"gate", upstream, {}, {}, {}}};
    if (access("/usr/bin/socat", X_OK) == 0) {
      const std::uint16_t port = 40123;
      own.push_back(child([&] {
        const std::string from =
            "TCP-LISTEN:" + std::to_string(port) + ",bind=127.0.0.1,fork,reuseaddr,nodelay";
        const std::string to = "TCP:127.0.0.1:" + std::to_string(port_of(server)) + ",nodelay";
        execl("/usr/bin/socat", "socat", "-b", "131072", from.c_str(), to.c_str(), nullptr);
      }));
      paths.push_back({"socat", port, {}, {}, {}});
    }
    for (Path& path : paths) {
      echo_once(connect_to(path.port));
    }
    for (int round = 0; round < rounds; ++round) {  // in turn: what else the machine does hits all alike
      for (Path& path : paths) {
        sample(path, samples / rounds);
        transfer(path, mebibytes);
      }
    }
    print(paths);
    std::fflush(stdout);
    for (const pid_t pid : own) {
      kill(pid, SIGKILL);
    }
  });
  close(channel[1]);
  auto gate = hitchrail::gate::Helper::start(compiled.value(), receive_sockets(channel[0]));
  if (gate.has_error()) {
    std::fprintf(stderr, "%s: %s\n", gate.error().code.c_str(), gate.error().detail.c_str());
    return 1;
  }
  (void)!write(answer[1], "g", 1);
  int status = 0;
  while (waitpid(inside, &status, WNOHANG) == 0) {
    pollfd entry{gate.value().events(), POLLIN, 0};
    poll(&entry, 1, 100);
    gate.value().tend();
  }
  for (const pid_t pid : children) {
    kill(pid, SIGKILL);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
