#pragma once
// hitchrail-shim: one per run, outlives the host. The only reader of the harness's output, the only writer of
// its input, the writer of the exit slot; restarts a dead runner, stops the tree, starts the finisher. One
// thread, one epoll loop, and a table [phase][event] -> action (phases.cpp); each file below does one duty
// and raises events.
//
// Promises: every byte read from the harness stays in its ring until a published commit covers it; an outbox
// is written at its absolute offset and never twice; the exit slot is written before each change of phase;
// signals go through pidfds only. Refuses: a spawn document or descriptor it does not know (StartReport names
// the step); a client without the token. Does not do yet: service calls (input_call_result) and remote
// transports.

#include <cstdint>

#include "gate/wire.hpp"
#include "shim/slot.hpp"
#include "shim/util.hpp"
#include "shim/wire.hpp"

namespace hitchrail::shim {

using namespace hitchrail::wire;

inline constexpr std::size_t stream_stdout = 0;
inline constexpr std::size_t stream_stderr = 1;
inline constexpr std::uint64_t default_ring_bytes = 256ull << 20;
inline constexpr std::size_t held_outbox =
    16u << 20;  // above it a commit waits until the harness reads its input

// What epoll tells which descriptor is ready.
enum Watch : std::uint32_t {
  watch_signals,
  watch_stream,
  watch_stdin,
  watch_init,
  watch_leader,
  watch_runner,
  watch_listen,
  watch_client,
  watch_gate,
};

struct Stream {
  std::uint32_t id = 0;
  int ring = -1;         // memfd, absolute offsets
  int ring_reader = -1;  // the same file, read-only, for runners
  int source = -1;       // our end; -1 after end of file, and for file streams
  std::uint64_t end = 0;
  std::uint64_t mapped = 0;
  std::uint64_t freed = 0;
  std::uint64_t logged = 0;     // up to here an arrival is in the log
  bool eof = false;             // its Eof is in the log
  bool paused = false;          // not read now: the ring is full, or memory is short
  bool blocked = false;         // input_blocked of this episode is in the log
  std::uint32_t processed = 0;  // StreamPosition::ended of the newest commit
  Bytes stash;                  // read but not storable yet
  const char* pattern = nullptr;
  std::uint32_t pattern_size = 0;
  std::uint64_t max_bytes = 0;
};

// One thing that happened. Resent to a successor exactly as it was sent.
enum class EntryKind : std::uint32_t { arrived, eof, input };
struct Entry {
  EntryKind kind;
  std::uint32_t stream;  // index
  std::uint64_t a;       // end offset, or input id
  std::uint64_t b;       // EofFlag, or InputKind
  std::int64_t at_ms;
  unsigned char* payload;
  std::uint32_t payload_size;
  std::uint32_t reserved;
};
struct Log {  // ring buffer; positions count from the beginning of the run
  Entry* entries = nullptr;
  std::uint64_t capacity = 0;
  std::uint64_t head = 0;
  std::uint64_t tail = 0;
  std::uint64_t cursor = 0;  // next to send to the living runner
  std::uint64_t sent = 0;    // everything before was sent to some runner
  std::uint64_t payload_bytes = 0;
  [[nodiscard]] Entry& at(std::uint64_t position) const { return entries[position & (capacity - 1)]; }
};
inline constexpr std::uint64_t log_limit = 1u << 16;

struct StopPlanStep {
  StopStep step;
  const unsigned char* parts;
};

struct AdapterTimer {
  std::uint32_t id;
  bool live;
  std::uint64_t action;
  std::int64_t due;
};

struct CrashCount {
  std::uint32_t kind;  // Hook when neither record nor input
  std::uint32_t stream;
  std::uint64_t offset;
  std::uint64_t input;
  std::uint32_t count;
};

struct Runner {
  int pid = 0;
  int pidfd = -1;
  int socket = -1;
  bool ready = false;
  bool done = false;
  bool failed = false;  // frame_failed came
  std::uint64_t failure = 0;
  char failure_text[200] = {};
  bool watchdog_killed = false;
  std::int64_t started = 0;
  Bytes out;  // the rest of a frame that did not fit
  Bytes in;
  bool writable_watched = false;
  bool applied_pending = false;
  // watchdog
  std::uint64_t seen_count = 0;
  std::int64_t seen_at = 0;
  std::uint64_t seen_cpu_ns = 0;
  std::int64_t hook_since = 0;
  std::uint32_t quiet_ticks = 0;
};

struct Client {
  int fd = -1;
  bool control = false;  // came through `c`
  bool proven = false;
  bool closing = false;
  std::int64_t deadline = 0;
  Bytes in;
  Bytes out;
};
inline constexpr std::size_t clients_per_socket = 8;

struct Remembered {
  std::uint8_t id[16];
  std::uint32_t outcome;
  std::uint64_t input;
};

struct Gate {
  const gatewire::Header* policy = nullptr;  // nullptr: this run has none
  int listeners[gatewire::max_listeners];    // our copies
  std::uint32_t listener_count = 0;
  int pid = 0;
  int pidfd = -1;
  int socket = -1;
  bool ending = false;
  std::uint32_t restarts = 0;
  std::uint32_t quick_deaths = 0;
  std::int32_t last_status = 0;
  std::int64_t started = 0;
  std::int64_t due = 0;         // of the next start
  std::int64_t deadline = 0;    // of its end
  std::int64_t read_again = 0;  // its records wait: the log is crowded
};

enum Event : std::uint32_t {
  event_execed,
  event_start_failed,
  event_leader_exited,
  event_stop,
  event_kill,
  event_step_due,
  event_wall,
  event_cause,  // the shim ends the attempt: g.slot.cause says why
  event_tree_empty,
  event_drained,
  event_runner_done,
  event_finish_exited,
  event_count,
};

struct Shim {
  // spawn document
  const unsigned char* document = nullptr;
  Limits limits{};
  std::uint32_t flags = 0;
  StopPlanStep stop_steps[32];
  std::uint32_t stop_count = 0;
  const unsigned char* snapshot = nullptr;
  std::uint32_t snapshot_size = 0;
  const unsigned char* initial_outbox = nullptr;
  std::uint32_t initial_outbox_size = 0;
  unsigned char* secrets = nullptr;  // locked: SecretRecord list, then scratch for one encoded secret
  std::size_t secrets_size = 0;
  std::size_t secrets_scratch = 0;
  bool secrets_given = false;
  bool home_given = false;
  bool gate_given = false;
  std::uint8_t token[token_size] = {};

  int epoll = -1;
  int signals = -1;
  std::uint32_t phase = phase_starting;
  std::int64_t started_ms = 0;

  Stream streams[max_streams];
  std::uint32_t stream_count = 0;
  Log log;
  std::uint64_t last_input = 0;
  std::int64_t next_send = 0;  // paced sending while the log is crowded

  // the state area
  int state_fd = -1;
  SharedState* state = nullptr;
  std::uint64_t applied = 0;
  std::uint64_t applied_action = 0;
  std::uint64_t covered_input = 0;
  std::uint64_t outbox_next = 0;  // absolute parts-list offset of what is queued or written
  std::uint32_t session_state = 0;
  bool apply_held = false;
  AdapterTimer timers[max_timers] = {};

  // the harness's input
  int stdin_fd = -1;
  bool stdin_watched = false;
  bool stdin_close = false;
  Bytes stdin_queue;  // OutboxPart lists
  std::uint32_t part_done = 0;
  std::uint32_t scratch_size = 0;  // of the encoded secret being written, 0 = none

  // init and the tree
  int init_first_pid = 0;  // the process we forked; it may be gone when pid 1 lives
  int init_socket = -1;
  int init_pid = 0;
  int init_pidfd = -1;
  int leader_pid = 0;
  int leader_pidfd = -1;
  bool init_gone = false;
  bool leader_known = false;  // its status is in the exit slot
  std::int64_t leader_dead_at = 0;
  InitMessage init_failure{};  // why nothing was started
  bool abandoned = false;      // g.slot.cause ended the attempt: no more mapping
  bool tree_ending = false;
  bool tree_empty = false;
  std::int64_t tree_kill_at = 0;  // the leader was killed; then the rest
  std::int64_t tree_next = 0;
  std::int64_t tree_deadline = 0;
  std::int64_t drain_deadline = 0;
  std::uint32_t stop_reason = stop_none;
  std::uint32_t next_step = 0;
  std::int64_t step_due = 0;
  std::int64_t wall_due = 0;

  Gate gate;
  Runner runner;
  std::uint32_t restarts = 0;
  bool runner_wanted = false;
  std::int64_t runner_due = 0;
  std::uint32_t fruitless = 0;  // deaths since the last commit
  std::int64_t journal_wait = 0;
  std::int64_t journal_deadline = 0;
  CrashCount crashes[8] = {};
  std::uint32_t crash_next = 0;

  int listen_s = -1;
  int listen_c = -1;
  bool listen_paused[2] = {};  // all places taken
  Client clients[2 * clients_per_socket];
  Remembered remembered[64] = {};
  std::uint32_t remembered_next = 0;

  int exit_fd = -1;
  ExitSlot slot{};

  int finish_pid = 0;
  std::uint32_t finish_starts = 0;
  std::int64_t finish_due = 0;
  bool gates_stopped = false;  // somebody asked for a stop when the harness was gone
};

extern Shim g;  // one process, one run

// main.cpp
bool watch(int fd, Watch kind, std::uint32_t index, std::uint32_t events);  // adds or changes
void unwatch(int fd);
void fail_start(const char* step, int error_number, const char* detail);

// spawn.cpp
bool load_spawn();  // document, secrets, token; fills the slot's failure through fail_start
bool find_secret(const unsigned char* name, std::uint32_t size, const unsigned char*& value,
                 std::uint32_t& value_size);
int secrets_pipe();  // read end with the whole list, or -1

// rings.cpp
bool make_rings();
void read_stream(std::size_t index);
void update_reading(std::size_t index);
void retry_stashes();
void force_eof(std::size_t index);
void free_ring(Stream& stream);
bool log_arrived(std::size_t index);
bool log_eof(std::size_t index, std::uint64_t flags);
std::uint64_t log_input(InputKind kind, const void* head, std::size_t head_size, const void* rest,
                        std::size_t rest_size);
void drop_covered();
bool covered(const Entry& entry);

// state.cpp: the state area, commits, the harness's input, adapter timers
bool make_state();
bool apply_published();  // false: what is published is damaged
void pump_stdin();
void send_parts(const unsigned char* parts, std::uint32_t size);
void close_stdin_after_queue();
void fire_timers(std::int64_t now);
std::int64_t timers_due();

// runner.cpp
void want_runner();
void start_runner();
void runner_readable();
void runner_died(int status);
void send_log();
void kill_runner();
std::int64_t watchdog(std::int64_t now);  // answers when to look again, 0 = no need

// crash.cpp
void judge_death(int status);  // restarts the runner, or ends the attempt

// tree.cpp
bool start_init();
void init_readable();
void init_died();
void leader_gone();
void kill_harness();  // the leader, then the tree
void begin_tree_end();
void tree_pass(std::int64_t now);
std::int64_t tree_due();
void run_stop_step();
void reap_children();

// gate.cpp
bool load_gate();
void take_listeners(const int* fds, int count);
bool gate_ready();  // a run that has a gate has its sockets
void gate_readable();
void gate_died(int status);
void end_gate();
bool gate_settled();
std::int64_t gate_due();
void gate_tick(std::int64_t now);

// control.cpp
bool open_control();
void accept_client(bool control);
void client_ready(std::size_t index, std::uint32_t events);
void expire_clients(std::int64_t now);
std::int64_t clients_due();
void close_control();

// files.cpp
bool copy_file_stream(std::size_t index);

// exit.cpp
bool open_exit_slot();
void write_exit_slot();
void identify(int pid, std::uint64_t& start_ticks);
void set_cause(const char* cause, const char* detail);  // the first one stays

// phases.cpp
void raise_event(Event event);
void start_finisher();
void finisher_died(int status);
void report_start(StartOutcome outcome, const char* step, int error_number, const char* detail);
std::int64_t phase_due();
void phase_tick(std::int64_t now);

}  // namespace hitchrail::shim
