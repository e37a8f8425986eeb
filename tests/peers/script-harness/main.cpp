// script-harness: a coding-agent harness that does exactly what its prompt says. It needs no library, account
// or network.
//
//   script-harness --version     prints `script-harness 1.0.0`
//   script-harness               reads its script from stdin up to a line `end` (or end of input), then runs
//   it
//
// When the prompt holds a line `script`, everything up to it is ignored. One command a line; `#` begins a
// comment line. What goes to stdout is JSON lines by convention of the script adapter:
//   {"type":"delta","item":"a","text":"…"}   {"type":"message","text":"…"}   {"type":"ask","id":N}
//   {"type":"done","status":"success|failed","summary":"…"}     an ask is answered by `answer N` on stdin
//
//   out TEXT            TEXT and a line feed on stdout
//   unterminated TEXT   TEXT without a line feed
//   raw HEX             bytes
//   err TEXT            a line on stderr
//   say ITEM TEXT       out {"type":"delta",...}           message TEXT, ask N, done STATUS SUMMARY: likewise
//   deltas N ITEM MS    N numbered deltas of one item, MS apart
//   record SIZE SEED    one delta record of exactly SIZE bytes with its line feed, text from SEED
//   noise SIZE SEED     SIZE bytes on stderr
//   alternate N         N single bytes on stdout and stderr in turn, a line feed each 50th
//   split N             writes of at most N bytes from now on (0 = as they are)
//   sleep MS            expect LINE (waits for that line on stdin; exit 97 on another, 98 at end of input)
//   eof                 waits for end of input             close 0|1|2 (closes that descriptor)
//   ignore SIGNAL       by number                          on SIGNAL CODE (exits with CODE when it comes)
//   exit N              signal N (sends itself N)          stop (sends itself SIGSTOP)
//   spawn-setsid MS     a grandchild in its own session, silent, for MS
//   spawn-double MS     the same, and its parent is gone at once
//   spawn-stopped       a grandchild that stops itself
//   spawn-stubborn MS   a grandchild that ignores SIGTERM, SIGINT, SIGHUP
//   hold-pipe MS        a grandchild in its own session that keeps stdout and stderr open for MS
//   fork-storm N        N processes, each forking until killed (bounded)
//   forge WHO           a child tries to write a record into WHO's stdout and to read its stdin through /proc
//   (WHO: `parent` or a
//                       pid); reports {"type":"message","text":"forge write=ERRNO read=ERRNO"}
//   write FILE TEXT     append FILE TEXT                   pid (out {"type":"message","text":"pid N"})
//   connect IPV4 PORT TEXT   a TCP connection; sends TEXT and an empty line (CR LF), and reports "connect
//   ERRNO LINE" env                 each environment name as a message     env-value NAME   its value as a
//   message

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace {

char* script = nullptr;
size_t script_size = 0;
size_t split = 0;
char input[65536];
size_t input_begin = 0;
size_t input_end = 0;

void sleep_ms(long ms) {
  timespec t{ms / 1000, (ms % 1000) * 1000000};
  while (nanosleep(&t, &t) != 0 && errno == EINTR) {
  }
}

void put(int fd, const char* data, size_t size) {
  while (size > 0) {
    const size_t want = split != 0 && split < size ? split : size;
    const ssize_t n = write(fd, data, want);
    if (n < 0) {
      if (errno == EINTR) {
        continue;
      }
      if (errno == EAGAIN) {
        pollfd p{fd, POLLOUT, 0};
        poll(&p, 1, -1);
        continue;
      }
      _exit(99);
    }
    data += n;
    size -= static_cast<size_t>(n);
  }
}
void put(int fd, const char* text) {
  put(fd, text, strlen(text));
}

// One line of stdin without its line feed; false at end of input with nothing read.
bool read_line(char* out, size_t cap) {
  size_t used = 0;
  for (;;) {
    if (input_begin == input_end) {
      const ssize_t n = read(0, input, sizeof input);
      if (n < 0 && errno == EINTR) {
        continue;
      }
      if (n <= 0) {
        out[used] = 0;
        return used > 0;
      }
      input_begin = 0;
      input_end = static_cast<size_t>(n);
    }
    const char c = input[input_begin++];
    if (c == '\n') {
      out[used] = 0;
      return true;
    }
    if (used + 1 < cap) {
      out[used++] = c;
    }
  }
}

void read_script() {
  static char line[65536];
  size_t cap = 0;
  while (read_line(line, sizeof line)) {
    if (strcmp(line, "end") == 0) {
      return;
    }
    if (strcmp(line, "script") == 0) {
      script_size = 0;
      continue;
    }
    const size_t n = strlen(line);
    if (script_size + n + 2 > cap) {
      cap = (script_size + n + 2) * 2;
      script = static_cast<char*>(realloc(script, cap));
      if (script == nullptr) {
        _exit(99);
      }
    }
    memcpy(script + script_size, line, n);
    script_size += n;
    script[script_size++] = '\n';
  }
}

// JSON string contents of `text`; only what scripts use is escaped.
void put_json(const char* text) {
  static char out[2 * 65536];
  size_t used = 0;
  for (; *text != 0 && used + 8 < sizeof out; ++text) {
    if (*text == '"' || *text == '\\') {
      out[used++] = '\\';
    }
    out[used++] = *text;
  }
  put(1, out, used);
}
void message(const char* text) {
  put(1, "{\"type\":\"message\",\"text\":\"");
  put_json(text);
  put(1, "\"}\n");
}
void delta(const char* item, const char* text) {
  put(1, "{\"type\":\"delta\",\"item\":\"");
  put_json(item);
  put(1, "\",\"text\":\"");
  put_json(text);
  put(1, "\"}\n");
}

void fill(char* out, size_t size, std::uint64_t seed) {
  std::uint64_t x = seed * 2654435761u + 1;
  for (size_t i = 0; i < size; ++i) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    out[i] = "abcdefghijklmnopqrstuvwxyz012345 "[(x >> 33) % 33];
  }
}

void record(size_t size, std::uint64_t seed) {
  char head[96];
  const int n = snprintf(head, sizeof head, "{\"type\":\"delta\",\"item\":\"r%llu\",\"text\":\"",
                         static_cast<unsigned long long>(seed));
  const size_t fixed = static_cast<size_t>(n) + 3;
  if (size < fixed) {
    size = fixed;
  }
  char* bytes = static_cast<char*>(malloc(size));
  if (bytes == nullptr) {
    _exit(99);
  }
  memcpy(bytes, head, static_cast<size_t>(n));
  fill(bytes + n, size - fixed, seed);
  memcpy(bytes + size - 3, "\"}\n", 3);
  put(1, bytes, size);
  free(bytes);
}

void noise(size_t size, std::uint64_t seed) {
  static char block[4096];
  fill(block, sizeof block, seed);
  while (size > 0) {
    const size_t n = size < sizeof block ? size : sizeof block;
    put(2, block, n);
    size -= n;
  }
}

// Runs `body` in a child; the child keeps nothing of the conversation unless `hold`.
template <class Body>
void spawn(bool hold, Body body) {
  const pid_t pid = fork();
  if (pid != 0) {
    return;
  }
  if (!hold) {
    close(0);
    close(1);
    close(2);
  }
  body();
  _exit(0);
}

void fork_storm(long n) {
  for (long i = 0; i < n; ++i) {
    spawn(false, [] {
      setsid();
      for (int k = 0; k < 200; ++k) {
        if (fork() < 0) {
          sleep_ms(5);
        }
        sleep_ms(2);
        waitpid(-1, nullptr, WNOHANG);
        if (k > 6) {
          sleep_ms(30000);
        }
      }
    });
  }
}

void forge(const char* who) {
  const pid_t target = strcmp(who, "parent") == 0 ? getpid() : static_cast<pid_t>(atol(who));
  int pipe_fds[2];
  if (pipe(pipe_fds) != 0) {
    _exit(99);
  }
  if (fork() == 0) {
    char path[64];
    int result[2] = {0, 0};
    snprintf(path, sizeof path, "/proc/%d/fd/1", static_cast<int>(target));
    const int out = open(path, O_WRONLY | O_NONBLOCK);
    if (out < 0) {
      result[0] = errno;
    } else {
      const char forged[] = "{\"type\":\"message\",\"text\":\"FORGED\"}\n";
      if (write(out, forged, sizeof forged - 1) < 0) {
        result[0] = errno;
      }
    }
    snprintf(path, sizeof path, "/proc/%d/fd/0", static_cast<int>(target));
    const int in = open(path, O_RDONLY | O_NONBLOCK);
    result[1] = in < 0 ? errno : 0;
    _exit(write(pipe_fds[1], result, sizeof result) == sizeof result ? 0 : 1);
  }
  int result[2] = {-1, -1};
  close(pipe_fds[1]);
  if (read(pipe_fds[0], result, sizeof result) < 0) {
    result[0] = -2;
  }
  close(pipe_fds[0]);
  waitpid(-1, nullptr, 0);
  char text[80];
  snprintf(text, sizeof text, "forge write=%d read=%d", result[0], result[1]);
  message(text);
}

int exit_code_on_signal = 0;
void on_signal(int) {
  _exit(exit_code_on_signal);
}

void put_hex(const char* hex) {
  for (; hex[0] != 0 && hex[1] != 0; hex += 2) {
    const char pair[3] = {hex[0], hex[1], 0};
    const char byte = static_cast<char>(strtol(pair, nullptr, 16));
    put(1, &byte, 1);
  }
}

void write_file(char* rest, int flags) {
  char* text = strchr(rest, ' ');
  if (text != nullptr) {
    *text++ = 0;
  }
  const int fd = open(rest, O_WRONLY | O_CREAT | flags | O_CLOEXEC, 0644);
  if (fd < 0) {
    char problem[96];
    snprintf(problem, sizeof problem, "write failed errno=%d", errno);
    message(problem);
    return;
  }
  if (text != nullptr) {
    put(fd, text);
    put(fd, "\n");
  }
  close(fd);
}

void expect(const char* wanted) {
  static char line[65536];
  do {  // the adapter may have ended the prompt once more
    if (!read_line(line, sizeof line)) {
      _exit(98);
    }
  } while (line[0] == 0 || strcmp(line, "end") == 0);
  if (strcmp(line, wanted) != 0) {
    put(2, "unexpected: ");
    put(2, line);
    put(2, "\n");
    _exit(97);
  }
}

void alternate(long n) {
  for (long i = 1; i <= n; ++i) {
    put(1, i % 50 == 0 ? "\n" : "x");
    put(2, i % 50 == 0 ? "\n" : "y");
  }
}

bool is(const char* command, const char* name) {
  return strcmp(command, name) == 0;
}

bool run_output(const char* command, char* rest) {
  char* second = strchr(rest, ' ');
  if (is(command, "out")) {
    put(1, rest);
    put(1, "\n");
  } else if (is(command, "unterminated")) {
    put(1, rest);
  } else if (is(command, "raw")) {
    put_hex(rest);
  } else if (is(command, "err")) {
    put(2, rest);
    put(2, "\n");
  } else if (is(command, "message")) {
    message(rest);
  } else if (is(command, "say") && second != nullptr) {
    *second = 0;
    delta(rest, second + 1);
  } else if (is(command, "ask")) {
    put(1, "{\"type\":\"ask\",\"id\":");
    put(1, rest);
    put(1, "}\n");
  } else if (is(command, "done")) {
    put(1, "{\"type\":\"done\",\"status\":\"");
    if (second != nullptr) {
      *second = 0;
    }
    put(1, rest);
    put(1, "\",\"summary\":\"");
    put_json(second != nullptr ? second + 1 : "");
    put(1, "\"}\n");
  } else if (is(command, "record") || is(command, "noise")) {
    const auto size = static_cast<size_t>(strtoull(rest, nullptr, 10));
    const std::uint64_t seed = second != nullptr ? strtoull(second + 1, nullptr, 10) : 1;
    if (is(command, "record")) {
      record(size, seed);
    } else {
      noise(size, seed);
    }
  } else if (is(command, "deltas")) {
    long count = 0;
    long ms = 0;
    char item[64] = "d";
    if (sscanf(rest, "%ld %63s %ld", &count, item, &ms) < 1) {
      return false;
    }
    for (long i = 0; i < count; ++i) {
      char text[32];
      snprintf(text, sizeof text, "%ld;", i);
      delta(item, text);
      if (ms > 0) {
        sleep_ms(ms);
      }
    }
  } else if (is(command, "alternate")) {
    alternate(atol(rest));
  } else if (is(command, "pid")) {
    char text[32];
    snprintf(text, sizeof text, "pid %d", static_cast<int>(getpid()));
    message(text);
  } else if (is(command, "env")) {
    for (char** e = environ; *e != nullptr; ++e) {
      char name[256];
      snprintf(name, sizeof name, "env %.*s", static_cast<int>(strcspn(*e, "=")), *e);
      message(name);
    }
  } else if (is(command, "env-value")) {
    const char* value = getenv(rest);
    message(value == nullptr ? "" : value);
  } else {
    return false;
  }
  return true;
}

void connect_to(char* rest) {
  char address[64] = {};
  unsigned port = 0;
  int used = 0;
  char answer[256] = {};
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  if (sscanf(rest, "%63s %u%n", address, &port, &used) != 2 ||
      inet_pton(AF_INET, address, &to.sin_addr) != 1) {
    message("connect form");
    close(fd);
    return;
  }
  to.sin_port = htons(static_cast<uint16_t>(port));
  int error = connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 ? 0 : errno;
  if (error == 0) {
    const char* text = rest[used] == ' ' ? rest + used + 1 : "";
    dprintf(fd, "%s\r\n\r\n", text);
    const ssize_t got = read(fd, answer, sizeof answer - 1);
    error = got < 0 ? errno : 0;
    answer[strcspn(answer, "\r\n")] = 0;
  }
  close(fd);
  char line[512];
  snprintf(line, sizeof line, "connect %d %s", error, answer);
  message(line);
}

bool run_process(const char* command, char* rest) {
  const long number = atol(rest);
  if (is(command, "sleep")) {
    sleep_ms(number);
  } else if (is(command, "split")) {
    split = static_cast<size_t>(number);
  } else if (is(command, "expect")) {
    expect(rest);
  } else if (is(command, "eof")) {
    char line[256];
    while (read_line(line, sizeof line)) {
    }
  } else if (is(command, "close")) {
    close(static_cast<int>(number));
  } else if (is(command, "exit")) {
    exit(static_cast<int>(number));
  } else if (is(command, "signal")) {
    kill(getpid(), static_cast<int>(number));
    sleep_ms(1000);
  } else if (is(command, "stop")) {
    kill(getpid(), SIGSTOP);
  } else if (is(command, "ignore")) {
    signal(static_cast<int>(number), SIG_IGN);
  } else if (is(command, "on")) {
    const char* code = strchr(rest, ' ');
    exit_code_on_signal = code != nullptr ? atoi(code + 1) : 0;
    signal(static_cast<int>(number), on_signal);
  } else if (is(command, "spawn-setsid")) {
    spawn(false, [number] { setsid(), sleep_ms(number); });
  } else if (is(command, "spawn-double")) {
    spawn(false, [number] { spawn(false, [number] { setsid(), sleep_ms(number); }); });
    waitpid(-1, nullptr, 0);
  } else if (is(command, "spawn-stopped")) {
    spawn(false, [] { setsid(), kill(getpid(), SIGSTOP), sleep_ms(600000); });
  } else if (is(command, "spawn-stubborn")) {
    spawn(false, [number] {
      signal(SIGTERM, SIG_IGN), signal(SIGINT, SIG_IGN), signal(SIGHUP, SIG_IGN);
      sleep_ms(number);
    });
  } else if (is(command, "hold-pipe")) {
    spawn(true, [number] { setsid(), sleep_ms(number); });
  } else if (is(command, "fork-storm")) {
    fork_storm(number);
  } else if (is(command, "forge")) {
    forge(rest);
  } else if (is(command, "connect")) {
    connect_to(rest);
  } else if (is(command, "write")) {
    write_file(rest, O_TRUNC);
  } else if (is(command, "append")) {
    write_file(rest, O_APPEND);
  } else {
    return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && is(argv[1], "--version")) {
    put(1, "script-harness 1.0.0\n");
    return 0;
  }
  signal(SIGPIPE, SIG_IGN);
  read_script();
  size_t at = 0;
  while (at < script_size) {
    char* line = script + at;
    char* stop = static_cast<char*>(memchr(line, '\n', script_size - at));
    *stop = 0;
    at = static_cast<size_t>(stop - script) + 1;
    if (*line == 0 || *line == '#') {
      continue;
    }
    char* rest = strchr(line, ' ');
    static char nothing[1];
    if (rest != nullptr) {
      *rest++ = 0;
    } else {
      rest = nothing;
    }
    if (!run_output(line, rest) && !run_process(line, rest)) {
      put(2, "unknown command: ");
      put(2, line);
      put(2, "\n");
      return 96;
    }
  }
  return 0;
}
