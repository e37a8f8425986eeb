// A runner for the shim's tests: splits stdout and stderr into lines, keeps a journal file `j` (one line an
// event, deduplicated by origin), answers asks, publishes slots. Its configuration is a list of words:
//   late=MS            sleeps before it reads anything
//   kill-published     SIGKILLs itself once after publishing an outbox and before saying so
//   kill-every=N       SIGKILLs itself after every N-th commit's journal write and before publishing
//   enospc=N           the first N runners say runner_journal_failed
//   no-commit          never commits (its ring fills)
//   timers             arms timer 7 (200 ms) with the first commit
// Lines of stdout that begin with a word in capitals make it do something: SEGV, ABRT, SPIN, HANG, FAIL,
// SELFKILL, SIGNAL n, END.

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cctype>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "shim/slot.hpp"

namespace wire = hitchrail::wire;

namespace {

std::string config;
void* area = nullptr;
wire::SharedState* state = nullptr;
int journal = -1;
std::set<std::string> known;
std::string events;  // of this batch
std::string outbox;  // of this batch
wire::Slot slot{};   // as of the last commit, with what this batch changed
std::string tail[wire::max_streams];
std::uint64_t read_to[wire::max_streams];
std::uint64_t commits = 0;
bool ended = false;
bool changed = true;  // since the last commit

long option(const char* name) {
  const auto at = config.find(name);
  return at == std::string::npos ? -1 : std::atol(config.c_str() + at + std::strlen(name));
}
bool has(const char* name) {
  return config.find(name) != std::string::npos;
}

void send_frame(std::uint32_t type, std::uint64_t a, const std::string& payload = "") {
  wire::Frame frame{};
  frame.type = type;
  frame.a = a;
  frame.size = static_cast<std::uint32_t>(payload.size());
  std::string bytes(reinterpret_cast<const char*>(&frame), sizeof frame);
  bytes += payload;
  if (send(wire::runner_socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) {
    std::exit(7);
  }
}

void add(const std::string& origin, const std::string& text) {
  if (known.insert(origin).second) {
    events += origin + " " + text + "\n";
  }
}

void add_outbox(const std::string& text) {
  wire::OutboxPart part{wire::part_bytes, 0, static_cast<std::uint32_t>(text.size())};
  outbox.append(reinterpret_cast<const char*>(&part), sizeof part);
  outbox += text;
}

void add_secret(const std::string& name, std::uint32_t encoding) {
  wire::OutboxPart part{wire::part_secret, encoding, static_cast<std::uint32_t>(name.size())};
  outbox.append(reinterpret_cast<const char*>(&part), sizeof part);
  outbox += name;
}

std::uint64_t fnv(const std::string& text) {
  std::uint64_t h = 1469598103934665603u;
  for (const char c : text) {
    h = (h ^ static_cast<unsigned char>(c)) * 1099511628211u;
  }
  return h;
}

struct Busy {
  Busy(wire::Hook hook, std::uint32_t stream, std::uint64_t offset, std::uint64_t size, std::uint64_t input) {
    wire::Current& now = state->current;
    now.stream = stream;
    now.offset = offset;
    now.size = size;
    now.input = input;
    now.count = now.count + 1;
    now.busy.store(hook, std::memory_order_release);
  }
  ~Busy() { state->current.busy.store(wire::hook_none, std::memory_order_release); }
};

void act(const std::string& line) {
  if (line.rfind("SEGV", 0) == 0) {
    std::raise(SIGSEGV);
  } else if (line.rfind("ABRT", 0) == 0) {
    std::abort();
  } else if (line.rfind("SPIN", 0) == 0) {
    for (;;) {
      asm volatile("");
    }
  } else if (line.rfind("HANG", 0) == 0) {
    for (;;) {
      pause();
    }
  } else if (line.rfind("SELFKILL", 0) == 0) {
    std::raise(SIGKILL);
  } else if (line.rfind("FAIL", 0) == 0) {
    send_frame(wire::frame_failed, wire::runner_hook_failed, std::string("bad-record\0it said FAIL", 23));
    std::exit(1);
  } else if (line.rfind("SIGNAL ", 0) == 0) {
    slot.signals[slot.signal_count++] = std::atoi(line.c_str() + 7);
  } else if (line.rfind("END", 0) == 0) {
    slot.end_run = 1;
  } else if (line.rfind("SECRET ", 0) == 0) {
    add_secret("key", static_cast<std::uint32_t>(std::atoi(line.c_str() + 7)));
    add_outbox("\n");
  } else if (line.rfind("CLOSE", 0) == 0) {
    slot.close_input = 1;
  } else if (line.rfind("{\"type\":\"ask\",\"id\":", 0) == 0) {
    add_outbox("answer " + std::to_string(std::atol(line.c_str() + 19)) + "\n");
  }
}

void commit();

void map_stream(std::uint32_t index, std::uint64_t end, bool eof) {
  std::string& rest = tail[index];
  while (read_to[index] < end) {
    char block[65536];
    const std::uint64_t want = end - read_to[index] < sizeof block ? end - read_to[index] : sizeof block;
    const ssize_t n =
        pread(wire::runner_rings + static_cast<int>(index), block, want, static_cast<off_t>(read_to[index]));
    if (n <= 0) {
      std::exit(8);
    }
    rest.append(block, static_cast<std::size_t>(n));
    read_to[index] += static_cast<std::uint64_t>(n);
  }
  for (;;) {
    const auto feed = rest.find('\n');
    if (feed == std::string::npos && (!eof || rest.empty())) {
      return;
    }
    const std::string line = rest.substr(0, feed);
    const std::uint64_t size = feed == std::string::npos ? rest.size() : feed + 1;
    if (state->restarts > 0 && !has("kill-every")) {
      commit();  // what precedes a record that may crash again is not taken down with it
    }
    wire::StreamPosition& position = slot.streams[index];
    Busy busy(wire::hook_map_events, state->streams[index], position.mapped, size, 0);
    char text[128];
    std::snprintf(text, sizeof text, "%zu %016llx %.60s", line.size(),
                  static_cast<unsigned long long>(fnv(line)), line.c_str());
    add("s" + std::to_string(state->streams[index]) + "@" + std::to_string(position.mapped), text);
    act(line);
    rest.erase(0, size);
    position.mapped += size;
    changed = true;
  }
}

void take_input(const wire::Frame& frame, const std::string& payload) {
  Busy busy(wire::hook_control, 0, 0, 0, frame.a);
  std::string text = "kind " + std::to_string(frame.b);
  if (frame.b == wire::input_control) {
    wire::ControlInput head{};
    std::memcpy(&head, payload.data(), sizeof head);
    const std::string said = payload.substr(sizeof head + head.name_size, head.text_size);
    text += " " + said;
    add_outbox(said + "\n");
    act(said);
  } else if (frame.b == wire::input_exit) {
    wire::ExitInput out{};
    std::memcpy(&out, payload.data(), sizeof out);
    text += " exit " + std::to_string(out.kind) + " " + std::to_string(out.value) + " " +
            std::to_string(out.stop_requested);
    slot.session_state = 1;
  } else if (frame.b == wire::input_end) {
    slot.session_state = 2;
    ended = true;
  } else if (frame.b == wire::input_timer) {
    wire::TimerInput timer{};
    std::memcpy(&timer, payload.data(), sizeof timer);
    text += " timer " + std::to_string(timer.id);
    slot.timers[0].armed = 0;
  }
  add("i" + std::to_string(frame.a), text);
  slot.last_input = frame.a;
}

void commit() {
  if (has("no-commit") || !changed) {
    return;
  }
  changed = false;
  if (!events.empty() && (write(journal, events.data(), events.size()) < 0 || fdatasync(journal) != 0)) {
    std::exit(9);
  }
  ++commits;
  if (option("kill-every=") > 0 && static_cast<long>(commits) % option("kill-every=") == 0) {
    std::raise(SIGKILL);
  }
  events.clear();
  while (state->applied.load() < state->published.load()) {
    usleep(200);  // what the shim has not taken must not be overwritten
  }
  if (has("timers") && slot.action == 0) {
    slot.action = 1;
    slot.timers[0] = wire::Timer{7, 1, 1, 200};
  }
  const bool sends = !outbox.empty();
  if (!wire::publish_slot(area, slot, outbox.data(), outbox.size(), "snap", 4)) {
    std::exit(10);
  }
  if (sends && has("kill-published") && state->restarts == 0) {
    std::raise(SIGKILL);
  }
  slot.outbox_offset += outbox.size();
  outbox.clear();
  slot.signal_count = 0;
  slot.end_run = 0;
  send_frame(wire::frame_commit, state->published.load());
  if (ended) {
    send_frame(wire::frame_done, 0);
    std::exit(0);
  }
}

void open_all() {
  area = mmap(nullptr, wire::state_size, PROT_READ | PROT_WRITE, MAP_SHARED, wire::runner_state, 0);
  char text[4096] = {};
  if (area == MAP_FAILED || read(wire::runner_config, text, sizeof text - 1) <= 0) {
    std::exit(11);
  }
  config = text;
  state = static_cast<wire::SharedState*>(area);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  if (option("enospc=") > static_cast<long>(state->restarts)) {
    send_frame(wire::frame_failed, wire::runner_journal_failed, "enospc");
    std::exit(1);
  }
  journal = openat(wire::runner_attempt, "j", O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  std::string old;
  for (ssize_t n = 0; (n = read(journal, text, sizeof text)) > 0;) {
    old.append(text, static_cast<std::size_t>(n));
  }
  std::size_t at = 0;
  for (std::size_t feed = 0; (feed = old.find('\n', at)) != std::string::npos; at = feed + 1) {
    known.insert(old.substr(at, old.find(' ', at) - at));
  }
  if (!wire::read_slot(area, state->published.load(), slot)) {
    std::exit(12);
  }
  slot.outbox_offset += slot.outbox_size;
  slot.signal_count = 0;
  slot.end_run = 0;
  for (std::uint32_t i = 0; i < state->stream_count; ++i) {
    read_to[i] = slot.streams[i].mapped;
  }
}

}  // namespace

int main() {
  open_all();
  if (option("late=") > 0) {
    usleep(static_cast<useconds_t>(option("late=") * 1000));
  }
  send_frame(wire::frame_ready, 0);
  std::string in;
  for (bool first = true;; first = false) {
    pollfd p{wire::runner_socket, POLLIN, 0};
    if (!first && in.size() < sizeof(wire::Frame) && poll(&p, 1, 0) == 0) {
      commit();
    }
    char block[65536];
    const ssize_t n = recv(wire::runner_socket, block, sizeof block, 0);
    if (n <= 0) {
      return 13;
    }
    in.append(block, static_cast<std::size_t>(n));
    while (in.size() >= sizeof(wire::Frame)) {
      wire::Frame frame{};
      std::memcpy(&frame, in.data(), sizeof frame);
      if (in.size() < sizeof frame + frame.size) {
        break;
      }
      changed = changed || frame.type != wire::frame_applied;
      const std::string payload = in.substr(sizeof frame, frame.size);
      in.erase(0, sizeof frame + frame.size);
      for (std::uint32_t i = 0; i < state->stream_count; ++i) {
        if (frame.type == wire::frame_arrived && state->streams[i] == frame.a) {
          map_stream(i, frame.b, false);
        } else if (frame.type == wire::frame_eof && state->streams[i] == (frame.a & 0xffffffffu)) {
          map_stream(i, frame.b, true);
          slot.streams[i].ended = 1;
          add("e" + std::to_string(state->streams[i]),
              "eof " + std::to_string(frame.a >> 32) + " " + std::to_string(frame.b));
        }
      }
      if (frame.type == wire::frame_input) {
        take_input(frame, payload);
      }
    }
  }
}
