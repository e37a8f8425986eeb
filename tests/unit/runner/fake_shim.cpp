#include "fake_shim.hpp"

#include <fcntl.h>
#include <hitchrail/adapter.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <new>
#include <stdexcept>

#include "core/file.hpp"
#include "core/json.hpp"
#include "journal/reader.hpp"
#include "shim/slot.hpp"

namespace hitchrail::test {

namespace {

template <class T>
T must(Result<T> result) {
  if (result.has_error()) {
    throw std::runtime_error(result.error().code + ": " + result.error().operation + " " +
                             result.error().object + ": " + result.error().detail);
  }
  return std::move(result).value();
}

std::string bytes_of(const void* data, std::size_t size) {
  return {static_cast<const char*>(data), size};
}

}  // namespace

runner::RunnerConfig script_config() {
  runner::RunnerConfig config;
  config.streams = {{1, HR_FRAME_LINES, HR_OVERFLOW_FAIL, 8u << 20},
                    {2, HR_FRAME_LINES, HR_OVERFLOW_TRUNCATE, 64u << 10}};
  return config;
}

FakeShim::FakeShim(ShimSetup setup) : setup_(std::move(setup)) {
  journal::Identity identity{"attempt_test", "task_test", "script", "script", "script", ""};
  must(journal::Writer::create(dir_.fd(), identity, json::Value::object()));
  state_.reset(::memfd_create("state", MFD_CLOEXEC));
  if (::ftruncate(state_.get(), static_cast<off_t>(wire::state_size)) != 0) {
    throw std::runtime_error("ftruncate");
  }
  void* map = ::mmap(nullptr, wire::state_size, PROT_READ | PROT_WRITE, MAP_SHARED, state_.get(), 0);
  area_ = new (map) wire::SharedState{};
  area_->magic = wire::state_magic;
  area_->version = wire::state_version;
  area_->stream_count = static_cast<std::uint32_t>(setup_.streams.size());
  std::copy(setup_.streams.begin(), setup_.streams.end(), area_->streams);
  area_->slot_offset[0] = wire::slot_offset(0);
  area_->slot_offset[1] = wire::slot_offset(1);
  wire::publish_slot(area_, {}, nullptr, 0, setup_.snapshot.data(), setup_.snapshot.size());
  area_->applied.store(1);
  for (std::size_t i = 0; i < setup_.streams.size(); ++i) {
    rings_.emplace_back(::memfd_create("ring", MFD_CLOEXEC));
    sizes_.push_back(0);
  }
  const Fd plugin(::open(setup_.adapter.c_str(), O_RDONLY | O_CLOEXEC));
  adapter_ = must(sealed_copy("adapter", plugin.get(), 64u << 20));
  config_ = must(sealed_memfd("config", runner::to_json(setup_.config)));
}

FakeShim::~FakeShim() {
  kill();
  ::munmap(static_cast<void*>(area_), wire::state_size);
}

void FakeShim::arrive(std::uint32_t stream, std::string_view bytes) {
  const auto index = static_cast<std::size_t>(
      std::find(setup_.streams.begin(), setup_.streams.end(), stream) - setup_.streams.begin());
  if (::pwrite(rings_[index].get(), bytes.data(), bytes.size(), static_cast<off_t>(sizes_[index])) !=
      static_cast<ssize_t>(bytes.size())) {
    throw std::runtime_error("ring write");
  }
  sizes_[index] += bytes.size();
  Entry entry;
  entry.frame.type = wire::frame_arrived;
  entry.frame.a = stream;
  entry.frame.b = sizes_[index];
  entry.frame.unix_ms = ++clock_;
  timeline_.push_back(entry);
}

void FakeShim::eof(std::uint32_t stream, std::uint64_t flags) {
  const auto index = static_cast<std::size_t>(
      std::find(setup_.streams.begin(), setup_.streams.end(), stream) - setup_.streams.begin());
  Entry entry;
  entry.frame.type = wire::frame_eof;
  entry.frame.a = stream | flags << 32;
  entry.frame.b = sizes_[index];
  entry.frame.unix_ms = ++clock_;
  timeline_.push_back(entry);
}

std::uint64_t FakeShim::input(std::uint64_t kind, std::string_view payload) {
  Entry entry;
  entry.frame.type = wire::frame_input;
  entry.frame.size = static_cast<std::uint32_t>(payload.size());
  entry.frame.a = next_input_++;
  entry.frame.b = kind;
  entry.frame.unix_ms = ++clock_;
  entry.payload = payload;
  timeline_.push_back(entry);
  return entry.frame.a;
}

void FakeShim::exit_and_end(std::uint32_t kind, std::int32_t value) {
  eof(1);
  eof(2);
  const wire::ExitInput exit{kind, value, 0, 0};
  input(wire::input_exit, bytes_of(&exit, sizeof(exit)));
  for (const std::uint32_t stream : setup_.streams) {
    if (stream >= HR_STREAM_FILE_FIRST) {
      eof(stream);
    }
  }
  input(wire::input_end);
}

void FakeShim::control(std::uint32_t kind, std::string_view text) {
  const wire::ControlInput head{kind, 0, static_cast<std::uint32_t>(text.size()), 0};
  input(wire::input_control, bytes_of(&head, sizeof(head)) + std::string(text));
}

void FakeShim::decide(std::uint32_t decision, std::string_view approval_id) {
  const wire::DecisionInput head{decision, static_cast<std::uint32_t>(approval_id.size()), 0, 0};
  input(wire::input_decision, bytes_of(&head, sizeof(head)) + std::string(approval_id));
}

wire::Slot FakeShim::slot() const {
  wire::Slot out;
  if (!wire::read_slot(area_, area_->published.load(), out)) {
    throw std::runtime_error("the published slot does not verify");
  }
  return out;
}

bool FakeShim::covered(const Entry& entry) const {
  const wire::Slot now = slot();
  if (entry.frame.type == wire::frame_input) {
    return entry.frame.a <= now.last_input;
  }
  const auto index = static_cast<std::size_t>(
      std::find(setup_.streams.begin(), setup_.streams.end(), entry.frame.a & 0xFFFFFFFFu) -
      setup_.streams.begin());
  return entry.frame.type == wire::frame_eof ? now.streams[index].ended != 0
                                             : entry.frame.b <= now.streams[index].mapped;
}

bool FakeShim::all_covered() const {
  return std::all_of(timeline_.begin(), timeline_.end(), [&](const Entry& entry) { return covered(entry); });
}

void FakeShim::start() {
  apply();
  int pair[2];
  int secrets[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0 || ::pipe2(secrets, O_CLOEXEC) != 0) {
    throw std::runtime_error("socketpair or pipe");
  }
  std::string bytes;
  for (const auto& [name, value] : setup_.secrets) {
    const wire::SecretRecord head{static_cast<std::uint32_t>(name.size()),
                                  static_cast<std::uint32_t>(value.size())};
    bytes += bytes_of(&head, sizeof(head)) + name + value;
  }
  if (::write(secrets[1], bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
    throw std::runtime_error("secrets pipe");
  }
  std::vector<int> given = {pair[1], state_.get(), dir_.fd(), adapter_.get(), config_.get(), secrets[0]};
  std::vector<Fd> read_only;
  for (const auto& ring : rings_) {
    read_only.emplace_back(
        ::open(("/proc/self/fd/" + std::to_string(ring.get())).c_str(), O_RDONLY | O_CLOEXEC));
    given.push_back(read_only.back().get());
  }
  const std::string program = std::string(HITCHRAIL_BINARY_DIR) + "/bin/hitchrail-runner";
  pid_ = ::fork();
  if (pid_ == 0) {
    for (int& fd : given) {
      fd = ::fcntl(fd, F_DUPFD_CLOEXEC, 100);
    }
    for (std::size_t i = 0; i < given.size(); ++i) {
      ::dup2(given[i], static_cast<int>(3 + i));
    }
    char name[] = "hitchrail-runner";
    char mode[] = "--run";
    char* argv[] = {name, mode, nullptr};
    char* env[] = {nullptr};
    ::execve(program.c_str(), argv, env);
    ::_exit(127);
  }
  ::close(pair[1]);
  ::close(secrets[0]);
  ::close(secrets[1]);
  socket_.reset(pair[0]);
  in_.clear();
  out_.clear();
  next_ = 0;
  known_at_start_ = timeline_.size();
  failure = 0;
  done_ = false;
}

void FakeShim::send_applied() {
  wire::Frame frame{};
  frame.type = wire::frame_applied;
  frame.a = area_->applied.load();
  out_ += bytes_of(&frame, sizeof(frame));
}

// Takes over the outbox and the actions of what is published, once.
void FakeShim::apply() {
  const std::uint64_t published = area_->published.load();
  while (area_->applied.load() < published) {
    wire::Slot next;
    if (!wire::read_slot(area_, area_->applied.load() + 1, next)) {
      throw std::runtime_error("the runner wrote over a generation that was not applied");
    }
    apply(next);
  }
}

void FakeShim::apply(const wire::Slot& now) {
  if (now.outbox_offset != outbox_at_) {
    throw std::runtime_error("the outbox begins at " + std::to_string(now.outbox_offset) + ", expected " +
                             std::to_string(outbox_at_));
  }
  const auto* rest = static_cast<const char*>(wire::slot_outbox_bytes(area_, now.generation));
  const char* end = rest + now.outbox_size;
  while (rest < end) {
    wire::OutboxPart part;
    std::memcpy(&part, rest, sizeof(part));
    const std::string bytes(rest + sizeof(part), part.size);
    sent_to_harness +=
        part.kind == wire::part_secret ? "<" + bytes + ":" + std::to_string(part.encoding) + ">" : bytes;
    rest += sizeof(part) + part.size;
  }
  outbox_at_ += now.outbox_size;
  signals.insert(signals.end(), std::begin(now.signals), std::begin(now.signals) + now.signal_count);
  input_closed = input_closed || now.close_input != 0;
  end_run = end_run || now.end_run != 0;
  timers.clear();
  for (const auto& timer : now.timers) {
    if (timer.armed != 0) {
      timers[timer.id] = timer;
    }
  }
  area_->applied.store(now.generation);
}

void FakeShim::take(const wire::Frame& frame, std::string_view payload) {
  if (frame.type == wire::frame_commit) {
    ++commits;
    if (!hold_applied) {
      apply();
      send_applied();
    }
  } else if (frame.type == wire::frame_done) {
    done_ = true;
  } else if (frame.type == wire::frame_failed) {
    failure = static_cast<std::uint32_t>(frame.a);
    const std::size_t nul = payload.find('\0');
    failure_code = payload.substr(0, nul);
    failure_detail = nul == std::string_view::npos ? "" : payload.substr(nul + 1);
  }
}

void FakeShim::send_due() {
  while (next_ < timeline_.size() && out_.size() < (64u << 10)) {
    const Entry& entry = timeline_[next_++];
    // What was added after the start cannot be covered by the slot the runner began with.
    if (next_ > known_at_start_ || !covered(entry)) {
      out_ += bytes_of(&entry.frame, sizeof(entry.frame)) + entry.payload;
    }
  }
}

bool FakeShim::step(int wait_ms) {
  if (!socket_) {
    return false;
  }
  send_due();
  pollfd waiter{socket_.get(), static_cast<short>(POLLIN | (out_.empty() ? 0 : POLLOUT)), 0};
  if (::poll(&waiter, 1, wait_ms) <= 0) {
    return false;
  }
  if ((waiter.revents & POLLOUT) != 0) {
    const ssize_t sent = ::send(socket_.get(), out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    out_.erase(0, static_cast<std::size_t>(std::max<ssize_t>(sent, 0)));
  }
  if ((waiter.revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
    char buffer[65536];
    const ssize_t got = ::recv(socket_.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN)) {
      reap();
      return true;
    }
    in_.append(buffer, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    wire::Frame frame;
    while (in_.size() >= sizeof(frame)) {
      std::memcpy(&frame, in_.data(), sizeof(frame));
      if (in_.size() < sizeof(frame) + frame.size) {
        break;
      }
      take(frame, std::string_view(in_).substr(sizeof(frame), frame.size));
      in_.erase(0, sizeof(frame) + frame.size);
    }
  }
  return true;
}

std::string FakeShim::run() {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (alive()) {
    step(100);
    if (std::chrono::steady_clock::now() > limit) {
      kill();
      return "timeout";
    }
  }
  if (WIFSIGNALED(wait_status)) {
    return "signal " + std::to_string(WTERMSIG(wait_status));
  }
  return done_ ? "done" : failure != 0 ? "failed" : "gone";
}

std::string FakeShim::settle() {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (alive()) {
    const bool all = next_ == timeline_.size() && out_.empty() && all_covered() &&
                     area_->applied.load() == area_->published.load();
    if (all) {
      return "settled";
    }
    step(50);
    if (std::chrono::steady_clock::now() > limit) {
      return "timeout";
    }
  }
  return run();
}

void FakeShim::reap() {
  socket_.reset();
  if (pid_ > 0) {
    while (::waitpid(pid_, &wait_status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    ++area_->restarts;
    apply();
  }
}

void FakeShim::kill() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    reap();
  }
}

// ---- reading journals
// --------------------------------------------------------------------------------------------------

namespace {

std::vector<json::Value> events_of(int attempt_dirfd) {
  std::vector<json::Value> out;
  auto reader = must(journal::Reader::open(attempt_dirfd));
  for (auto line = must(reader.next()); line; line = must(reader.next())) {
    if (line->sequence == 0) {
      continue;
    }
    json::Value event = must(json::parse(line->text, json::Duplicates::first_wins));
    const std::string payload = must(journal::whole_payload(attempt_dirfd, line->payload));
    event.set("payload", must(json::parse(payload, json::Duplicates::first_wins)));
    out.push_back(std::move(event));
  }
  return out;
}

bool same_delta(const json::Value& a, const json::Value& b) {
  const std::string& kind = a.get("kind").as_string();
  if ((kind != "message.delta" && kind != "reasoning.delta") || b.get("kind").as_string() != kind) {
    return false;
  }
  return a.get("itemId").as_string() == b.get("itemId").as_string() &&
         a.get("turnId").as_string() == b.get("turnId").as_string() &&
         a.get("sessionId").as_string() == b.get("sessionId").as_string();
}

}  // namespace

std::vector<std::string> comparable_journal(int attempt_dirfd) {
  std::vector<json::Value> joined;
  for (auto& event : events_of(attempt_dirfd)) {
    for (const char* key :
         {"eventId", "sequence", "receivedAt", "payloadHash", "prev", "line", "redaction"}) {
      event.erase(key);
    }
    const std::string& kind = event.get("kind").as_string();
    if (kind == "message.delta" || kind == "reasoning.delta") {
      event.erase("origin");  // of a merged event: its parts
      event.erase("dedupeKey");
    }
    if (!joined.empty() && same_delta(joined.back(), event)) {
      json::Value payload = joined.back().get("payload");
      payload.set("text", payload.get("text").as_string() + event.get("payload").get("text").as_string());
      joined.back().set("payload", std::move(payload));
      continue;
    }
    joined.push_back(std::move(event));
  }
  std::vector<std::string> out;
  for (const auto& event : joined) {
    out.push_back(json::write(event));
  }
  return out;
}

std::vector<std::string> kinds(int attempt_dirfd) {
  std::vector<std::string> out;
  for (const auto& event : events_of(attempt_dirfd)) {
    const std::string& text = event.get("payload").get("text").as_string();
    out.push_back(event.get("kind").as_string() + (text.empty() || text.size() > 200 ? "" : " " + text));
  }
  return out;
}

bool anywhere(const std::string& directory, std::string_view bytes) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file() && slurp(entry.path()).find(bytes) != std::string::npos) {
      return true;
    }
  }
  return false;
}

}  // namespace hitchrail::test
