#include "unit/shim/fixture.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

namespace shim_test {

namespace {

const std::string bin = HITCHRAIL_BINARY_DIR;

int sealed(const std::string& bytes) {
  const int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  REQUIRE(fd >= 0);
  REQUIRE(write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  REQUIRE(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW) == 0);
  return fd;
}

template <class T>
std::string raw(const T& value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

struct Document {
  std::string fields;
  std::uint32_t count = 0;
  void add(std::uint16_t tag, const std::string& bytes) {
    fields += raw(wire::SpawnField{tag, 0, static_cast<std::uint32_t>(bytes.size())}) + bytes;
    fields.resize((fields.size() + 7) / 8 * 8);
    ++count;
  }
  [[nodiscard]] std::string bytes() const {
    wire::SpawnHeader header{wire::spawn_magic, wire::spawn_version, 0, count};
    header.total_size = static_cast<std::uint32_t>(sizeof header + fields.size());
    return raw(header) + fields;
  }
};

std::string parts(const std::string& text) {
  return raw(wire::OutboxPart{wire::part_bytes, 0, static_cast<std::uint32_t>(text.size())}) + text;
}

std::string document(const Options& options) {
  Document out;
  out.add(wire::tag_attempt_id, "attempt_test");
  if (!options.script.empty()) {
    out.add(wire::tag_initial_outbox, parts("script\n" + options.script + "\nend\n"));
  }
  out.add(wire::tag_snapshot, "planned");
  out.add(wire::tag_flags, raw(options.flags));
  out.add(wire::tag_limits, raw(options.limits));
  for (const auto& step : options.stop_steps) {
    out.add(wire::tag_stop_step, raw(step));
  }
  std::uint32_t stream = 8;
  for (const auto& pattern : options.file_patterns) {
    out.add(wire::tag_file_stream, raw(wire::FileStreamSpec{stream++, 1 << 20}) + pattern);
  }
  std::string bytes = out.bytes();
  if (options.bad_document) {
    bytes[0] = 'X';
  }
  return bytes;
}

int program(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  INFO(path);
  REQUIRE(fd >= 0);
  return fd;
}

std::vector<int> children() {
  std::ifstream in("/proc/self/task/" + std::to_string(getpid()) + "/children");
  std::vector<int> out;
  for (int child = 0; in >> child;) {
    out.push_back(child);
  }
  return out;
}

}  // namespace

wire::Limits limits(std::uint64_t ring_bytes, std::uint64_t hook_cpu_ms, std::uint64_t hook_wall_ms,
                    std::uint64_t run_wall_ms) {
  return {ring_bytes, hook_cpu_ms, hook_wall_ms, run_wall_ms};
}

std::string read_path(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_path(const std::string& path, const std::string& bytes, int mode) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  REQUIRE(fd >= 0);
  REQUIRE(write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  close(fd);
}

Run::Run(Options options) : options_(std::move(options)) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::string base = (std::filesystem::temp_directory_path() / "hitchrail-shim-XXXXXX").string();
  REQUIRE(mkdtemp(base.data()) != nullptr);
  home = base + "/home";
  std::filesystem::create_directory(home);
  // Deeper than sun_path is long.
  dir = base + "/" + std::string(120, 'd');
  std::filesystem::create_directory(dir);
  write_path(dir + "/token", std::string(32, 'T'));
  wire::ExitSlot slot{};
  slot.state = wire::exit_prepared;
  wire::seal_exit_slot(slot);
  write_path(dir + "/exit", raw(slot));

  attempt_ = open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int report_pipe[2];
  REQUIRE(pipe2(report_pipe, O_CLOEXEC) == 0);
  const std::string harness = options_.program.empty() ? bin + "/peers/script-harness" : options_.program;
  std::vector<int> fds = {sealed(document(options_)),
                          dup(attempt_),
                          program(bin + "/fakes/shim-fake-init"),
                          sealed(options_.init + std::string(1, '\0') + harness + std::string(1, '\0')),
                          program(bin + "/fakes/shim-fake-runner"),
                          sealed("adapter"),
                          sealed(options_.runner + " "),
                          program(bin + "/fakes/shim-fake-finish"),
                          -1,
                          report_pipe[1],
                          open(home.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!options_.secret.empty()) {
    fds[8] = memfd_create("secrets", MFD_CLOEXEC);
    const std::string list = raw(wire::SecretRecord{3, static_cast<std::uint32_t>(options_.secret.size())}) +
                             "key" + options_.secret;
    REQUIRE(write(fds[8], list.data(), list.size()) == static_cast<ssize_t>(list.size()));
  }
  const int shim = program(bin + "/bin/hitchrail-shim");
  pid = fork();
  if (pid == 0) {
    // As a careless caller: signals blocked and ignored, descriptors left open (the shim must clean all
    // that).
    signal(SIGCHLD, SIG_IGN);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, nullptr);
    std::vector<int> high;
    for (const int fd : fds) {
      high.push_back(fd < 0 ? -1 : fcntl(fd, F_DUPFD, 100));
    }
    const int shim_high = fcntl(shim, F_DUPFD_CLOEXEC, 100);
    for (std::size_t i = 0; i < high.size(); ++i) {
      close(static_cast<int>(3 + i));
      if (high[i] >= 0) {
        dup2(high[i], static_cast<int>(3 + i));
      }
    }
    const char* argv[] = {"hitchrail-shim", nullptr};
    const char* environment[] = {"CALLER=1", nullptr};
    syscall(SYS_execveat, shim_high, "", argv, environment, AT_EMPTY_PATH);
    _exit(125);
  }
  close(shim);
  for (const int fd : fds) {
    if (fd >= 0) {
      close(fd);
    }
  }
  if (options_.wait_report) {
    pollfd p{report_pipe[0], POLLIN, 0};
    REQUIRE(poll(&p, 1, 10000) == 1);
    const ssize_t n = read(report_pipe[0], &report, sizeof report);
    CHECK(n == static_cast<ssize_t>(sizeof report));
  }
  close(report_pipe[0]);
}

Run::~Run() {
  if (!waited_ && pid > 0) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  close(attempt_);
  // Whatever a failed test left behind is our child now, or becomes it.
  for (int i = 0; i < 200 && waitpid(-1, nullptr, WNOHANG) >= 0; ++i) {
    for (const int child : children()) {
      kill(child, SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  std::error_code ignored;
  std::filesystem::remove_all(std::filesystem::path(dir).parent_path(), ignored);
}

bool Run::wait(int ms) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
  while (std::chrono::steady_clock::now() < until) {
    int status = 0;
    if (waitpid(pid, &status, WNOHANG) == pid) {
      waited_ = true;
      exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
      return exit_code_ == 0;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

bool Run::no_process_left() const {
  int status = 0;
  return waited_ && waitpid(-1, &status, WNOHANG) == -1 && errno == ECHILD;
}

wire::ExitSlot Run::slot(const std::string& name) const {
  const std::string bytes = file(name);
  wire::ExitSlot out{};
  REQUIRE(bytes.size() == sizeof out);
  std::memcpy(&out, bytes.data(), sizeof out);
  REQUIRE(wire::exit_slot_valid(out));
  return out;
}

std::string Run::file(const std::string& name) const {
  return read_path(dir + "/" + name);
}
bool Run::exists(const std::string& name) const {
  return std::filesystem::exists(dir + "/" + name);
}
std::string Run::journal() const {
  return file("j");
}

std::vector<std::string> Run::journal_lines() const {
  std::vector<std::string> out;
  const std::string text = journal();
  std::size_t at = 0;
  for (std::size_t feed = 0; (feed = text.find('\n', at)) != std::string::npos; at = feed + 1) {
    out.push_back(text.substr(at, feed - at));
  }
  return out;
}

bool Run::wait_journal(const std::string& text, int ms) const {
  for (int i = 0; i < ms / 5; ++i) {
    if (journal().find(text) != std::string::npos) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

int Run::connect_to(char socket_name) const {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%c", attempt_, socket_name);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    close(fd);
    return -1;
  }
  timeval limit{3, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  return fd;
}

std::string Run::hello(bool good_token) const {
  wire::ControlHello hello{wire::control_magic, wire::control_version, {}};
  std::memset(hello.token, good_token ? 'T' : 'F', sizeof hello.token);
  return raw(hello);
}

Reply Run::ask(char socket_name, std::uint32_t type, const std::string& payload, std::uint8_t id,
               bool good_token) const {
  Reply out;
  const int fd = connect_to(socket_name);
  if (fd < 0) {
    return out;
  }
  wire::ControlRequest request{type, static_cast<std::uint32_t>(payload.size()), {}};
  std::memset(request.idempotency, id, sizeof request.idempotency);
  const std::string bytes = hello(good_token) + raw(request) + payload;
  wire::ControlReply reply{};
  if (send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()) &&
      recv(fd, &reply, sizeof reply, MSG_WAITALL) == static_cast<ssize_t>(sizeof reply)) {
    out.answered = true;
    out.outcome = reply.outcome;
    if (reply.size == sizeof out.status) {
      out.answered =
          recv(fd, &out.status, sizeof out.status, MSG_WAITALL) == static_cast<ssize_t>(sizeof out.status);
    }
  }
  close(fd);
  return out;
}

Reply Run::say(const std::string& text, std::uint8_t id) const {
  const wire::ControlInput head{1, 0, static_cast<std::uint32_t>(text.size()), 0};
  return ask('c', wire::control_input, raw(head) + text, id);
}

int Run::runner_pid() const {
  for (int i = 0; i < 400; ++i) {
    const Reply reply = ask('s', wire::control_status);
    if (reply.answered && reply.status.runner_pid != 0) {
      return reply.status.runner_pid;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return 0;
}

std::string expected_line(const std::string& stream, std::uint64_t offset, const std::string& line) {
  std::uint64_t h = 1469598103934665603u;
  for (const char c : line) {
    h = (h ^ static_cast<unsigned char>(c)) * 1099511628211u;
  }
  char text[160];
  std::snprintf(text, sizeof text, "s%s@%llu %zu %016llx %.60s", stream.c_str(),
                static_cast<unsigned long long>(offset), line.size(), static_cast<unsigned long long>(h),
                line.c_str());
  return text;
}

}  // namespace shim_test
