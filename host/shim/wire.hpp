#pragma once
// Everything two programs of a run say to each other through the shim: the spawn document and inherited
// descriptors (host -> shim), the shared state area and messages (shim <-> runner), the control socket (host
// -> shim), and the exit slot (shim -> whoever reads the attempt). Plain structs, host byte order, fixed
// sizes: all ends are one machine, and a run keeps the build it began with. Includes nothing of ours, so that
// the static shim stays small.
//
// Versioning: each format has a version; a reader refuses one it does not know. Newer hosts speak to every
// older shim: control-socket requests only ever gain new types, and fields only grow at the end.

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace hitchrail::wire {

// ---- descriptors the shim inherits
// ----------------------------------------------------------------------------------- Fixed numbers, all
// others closed by the shim; 0, 1 and 2 become /dev/null. An absent one (shim_home, shim_secrets, and the two
// of a gate) is simply not open. The shim's own environment is handed to the finisher only; init and runner
// start with an empty one. In the attempt directory there are already: `token` (0600, 32 raw bytes), `exit`
// (a sealed ExitSlot, exit_prepared), and no `s` and `c`. Programs are started as argv {"hitchrail-init"},
// {"hitchrail-runner",
// "--run"}, {"hitchrail-finish"[, "--no-gates"]} (fd 3 = attempt directory).
enum ShimFd : int {
  shim_spawn = 3,         // sealed memfd: the spawn document
  shim_attempt = 4,       // the attempt directory, O_DIRECTORY
  shim_init = 5,          // executable of hitchrail-init
  shim_init_plan = 6,     // sealed memfd: flat boundary plan, opaque to the shim
  shim_runner = 7,        // executable of hitchrail-runner
  shim_adapter = 8,       // sealed memfd: the adapter library
  shim_config = 9,        // sealed memfd: runner configuration (JSON), opaque to the shim
  shim_finish = 10,       // executable of hitchrail-finish
  shim_secrets = 11,      // memfd: SecretRecord list; read into locked memory, then closed
  shim_report = 12,       // write end: one StartReport, then closed
  shim_home = 13,         // the conversation home on the host's side, O_DIRECTORY (file streams)
  shim_gate = 14,         // executable of hitchrail-gate
  shim_gate_policy = 15,  // sealed memfd: gatewire::Header and what follows
  shim_fd_end = 16,
};

// ---- descriptors the finisher inherits
// ----------------------------------------------------------------------------
enum FinishFd : int {
  finish_attempt = 3,  // attempt directory
  finish_secrets =
      4,  // pipe: SecretRecord list until end of file; absent when a later host starts the finisher
};

// ---- spawn document
// ---------------------------------------------------------------------------------------------------
// SpawnHeader, then field_count times SpawnField + bytes padded to 8.
inline constexpr std::uint32_t spawn_magic = 0x50535248;  // "HRSP"
inline constexpr std::uint32_t spawn_version = 1;

struct SpawnHeader {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint32_t total_size;
  std::uint32_t field_count;
};
struct SpawnField {
  std::uint16_t tag;
  std::uint16_t reserved;
  std::uint32_t size;  // of the bytes that follow, before padding
};
enum SpawnTag : std::uint16_t {
  tag_attempt_id = 1,      // bytes
  tag_initial_outbox = 2,  // OutboxPart list: parts of the plan's initial input
  tag_stop_step = 3,       // StopStep + OutboxPart list; repeated, in order
  tag_stream = 4,          // StreamSpec; repeated
  tag_file_stream = 5,     // FileStreamSpec + pattern bytes; repeated
  tag_snapshot = 6,        // snapshot of the planned session
  tag_limits = 7,          // Limits
  tag_flags = 8,           // std::uint32_t of SpawnFlag
};
enum SpawnFlag : std::uint32_t {
  flag_close_input = 1,      // end of input after the initial outbox
  flag_pipes = 2,            // pipes instead of socket pairs
  flag_no_pid_namespace = 4  // init is not pid 1: the tree is ended by freeze-and-kill over descendants
};
struct Limits {
  std::uint64_t ring_bytes;    // uncommitted bytes a stream may hold; 0 = 256 MiB
  std::uint64_t hook_cpu_ms;   // 0 = 5000
  std::uint64_t hook_wall_ms;  // 0 = 30000
  std::uint64_t run_wall_ms;   // 0 = none; then the stop steps, cause run-timeout
};
struct StreamSpec {  // standard output and error are always there and need none
  std::uint32_t stream;
  std::uint32_t reserved;
};
struct FileStreamSpec {
  std::uint32_t stream;
  std::uint32_t max_bytes;  // 0 = 64 MiB; a longer file is cut and its Eof says truncated
};
enum PartKind : std::uint32_t { part_bytes = 1, part_secret = 2 };
struct OutboxPart {  // followed by `size` bytes, no padding
  std::uint32_t kind;
  std::uint32_t encoding;  // HR_ENCODE_* for a secret
  std::uint32_t size;
};
enum StopKind : std::uint32_t { stop_send = 1, stop_close_input = 2, stop_signal = 3 };
struct StopStep {
  std::uint32_t kind;
  std::int32_t signal;
  std::uint32_t wait_ms;
  std::uint32_t parts_size;  // bytes of OutboxPart list that follow
};
struct SecretRecord {  // followed by name then value
  std::uint32_t name_size;
  std::uint32_t value_size;
};
enum StartOutcome : std::uint32_t { start_ok = 1, start_failed = 2 };
struct StartReport {
  std::uint32_t outcome;
  std::int32_t error_number;
  std::int32_t shim_pid;
  std::int32_t init_pid;    // as the shim sees it
  std::int32_t leader_pid;  // as the shim sees it
  char step[44];            // the named step that failed, NUL-terminated
  char detail[192];         // init's own words, NUL-terminated
};

// ---- shim <-> init
// --------------------------------------------------------------------------------------------------- init
// inherits: 3 plan memfd, 4 SOCK_SEQPACKET to the shim, 5/6/7 the harness's stdin/stdout/stderr, 8 secrets
// pipe (SecretRecord list until end of file, for environment values the plan names).
enum InitFd : int {
  init_plan = 3,
  init_socket = 4,
  init_stdin = 5,
  init_stdout = 6,
  init_stderr = 7,
  init_secrets = 8
};
enum InitMessageType : std::uint32_t {
  init_started =
      1,            // init -> shim, SCM_RIGHTS {pidfd of init, pidfd of leader}; just before the leader execs
  init_execed = 2,  // init -> shim: the leader's exec succeeded (its close-on-exec pipe closed)
  init_failed = 3,  // init -> shim: step + error_number; nothing was started
  init_child_exited = 4,  // init -> shim: child 0 is the leader; raw wait status
  init_listeners = 5,  // init -> shim, SCM_RIGHTS {one socket for each plan::Listener, in order}; init waits
                       // for an InitReply before it goes on
};
enum InitReplyType : std::uint32_t { reply_listeners_taken = 1 };
struct InitReply {  // shim -> init; a closed socket is a refusal
  std::uint32_t type;
  std::uint32_t reserved;
};
// The exit slot already says exit_running when init is started, so init need not wait for an answer before
// the exec. Init keeps running after the leader's exit; the shim ends it (and with it the pid namespace) by
// SIGKILL through its pidfd.
struct InitMessage {
  std::uint32_t type;
  std::uint32_t child;
  std::int32_t wait_status;  // raw, as waitpid gives it
  std::int32_t error_number;
  std::int32_t pid;  // of the leader inside, for evidence
  std::uint32_t reserved;
  char step[40];
  char detail[192];
};

// ---- descriptors a runner inherits
// -----------------------------------------------------------------------------------
enum RunnerFd : int {
  runner_socket = 3,   // SOCK_STREAM to the shim, Frame messages
  runner_state = 4,    // memfd of SharedState, read-write
  runner_attempt = 5,  // attempt directory
  runner_adapter = 6,  // sealed adapter
  runner_config = 7,   // sealed JSON
  runner_secrets = 8,  // pipe: SecretRecord list until end of file
  runner_rings =
      9,  // 9 = stdin is never given; 9 + n = ring of the n-th stream of SharedState::streams, read-only
};

// ---- shared state area
// ------------------------------------------------------------------------------------------------
inline constexpr std::uint32_t state_magic = 0x54535248;  // "HRST"
inline constexpr std::uint32_t state_version = 1;
inline constexpr std::size_t max_streams = 8;  // stdout, stderr, and at most six file streams
inline constexpr std::size_t max_timers = 16;
inline constexpr std::size_t max_signals = 8;  // within one commit
inline constexpr std::size_t max_snapshot =
    (1u << 20) + (256u << 10);  // the adapter's, after the runner's own session state
inline constexpr std::size_t max_outbox = 4u << 20;

struct StreamPosition {
  std::uint64_t mapped;      // first byte not yet mapped and durable: the ring is freed up to here
  std::uint32_t discarding;  // inside a record over its cap whose rest is dropped
  std::uint32_t ended;       // its Eof was processed
};
struct Timer {
  std::uint32_t id;
  std::uint32_t armed;
  std::uint64_t action;    // the action number that set it: a set is applied once
  std::uint64_t after_ms;  // counted by the shim from when the commit that set it is applied
};
// One half of the two-slot area. Published by storing its generation into SharedState::published (release).
// Generation 1 is the shim's: its snapshot is the planned session's, byte for byte. From 2 on the snapshot
// begins with the runner's own session state (host/runner/state.hpp); the shim never looks inside. The runner
// does not write into the slot of generation g before frame_applied for g or a later one has arrived: the
// shim has then taken over g's outbox and actions. Before it starts a successor the shim itself applies what
// is published.
struct Slot {
  std::uint64_t generation;
  std::uint64_t last_input;     // id of the last Input processed, 0 = none
  std::uint64_t journal_size;   // where a successor begins to read origins: durable, and all of it was mapped
  std::uint64_t outbox_offset;  // absolute stdin offset of the outbox's first byte (secrets count as encoded
                                // OutboxPart lists: the offset counts parts-list bytes, so it does not depend
                                // on a secret's length)
  std::uint64_t action;         // number of the last action below; the shim applies each action once
  std::uint32_t outbox_size;    // bytes of OutboxPart list in `outbox`
  std::uint32_t close_input;    // 1: end of input after everything sent so far
  std::uint32_t session_state;  // 0 open, 1 exited, 2 ended
  std::uint32_t snapshot_size;
  std::uint32_t signal_count;
  std::uint32_t crc;  // CRC-32C of this struct with crc = 0, then outbox, then snapshot
  std::int32_t signals[max_signals];
  StreamPosition streams[max_streams];
  Timer timers[max_timers];
  std::uint32_t end_run;  // 1: the adapter says the work is over (hr_host.end_run): run the stop steps, as
                          // for control_stop
  std::uint32_t reserved;
};
// What the runner is doing, for crash accounting and the watchdog. Written by the runner around each hook:
// `busy` is stored last (release) at entry and cleared at return. After a crash the shim leaves it as it is:
// the successor commits what precedes that input before it calls the hook again, so that a crashing input
// takes nothing else with it.
enum Hook : std::uint32_t {
  hook_none,
  hook_load,
  hook_reattach,
  hook_map_events,
  hook_control,
  hook_on_decision,
  hook_on_call_result,
  hook_on_timer,
  hook_on_transport,
  hook_on_exit,
  hook_on_end,
  hook_snapshot,
  hook_close,
};
struct Current {
  std::atomic<std::uint32_t> busy;  // Hook
  std::uint32_t stream;             // of a record, else 0
  std::uint64_t offset;             // of the record
  std::uint64_t size;               // of the record with its frame
  std::uint64_t input;              // Input id, else 0
  std::uint64_t count;              // hooks begun since the runner started: the watchdog sees progress
};
struct SharedState {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint32_t stream_count;
  std::uint32_t restarts;              // runners before this one
  std::uint32_t streams[max_streams];  // stream id of each ring, HR_STREAM_*
  std::atomic<std::uint64_t>
      published;  // generation; slot index = generation & 1; 1 is the shim's first slot
  Current current;
  std::uint64_t slot_offset[2];  // of Slot; its outbox then its snapshot follow at fixed distances
  // What the newest frame_applied said, stored by the shim before it is sent. It is held back while the
  // harness does not read its stdin and 16 MiB wait for it.
  std::atomic<std::uint64_t> applied;
};
inline constexpr std::size_t slot_outbox = 4096;  // from the slot's start
inline constexpr std::size_t slot_snapshot = slot_outbox + max_outbox;
inline constexpr std::size_t slot_span = slot_snapshot + max_snapshot;
static_assert(sizeof(Slot) <= slot_outbox);

// ---- shim <-> runner messages
// ----------------------------------------------------------------------------------------- Order is meaning:
// the shim numbers what happens (arrival of bytes, ends of streams, inputs) and sends it in that order, and
// after a restart it sends again all that the published slot does not cover, in the same order. So event
// order does not depend on when a runner was alive. "The same" is exact: a frame_arrived that was sent once
// is sent again with the same end offset and the same time (boundaries are record boundaries of a CHUNKS
// stream); not covered means end > mapped, an Eof of a stream that has not `ended`, an input id > last_input.
// Only arrivals never sent to any runner may be joined.
enum FrameType : std::uint32_t {
  frame_arrived = 1,  // shim -> runner: a = stream, b = absolute end offset of bytes now in its ring
  frame_eof = 2,      // shim -> runner: a = stream | EofFlag << 32, b = final end offset
  frame_input = 3,    // shim -> runner: a = input id, b = InputKind; payload
  frame_applied = 4,  // shim -> runner: a = generation whose outbox and actions the shim has taken over;
                      // may come between any two others
  frame_ready = 16,   // runner -> shim: adapter loaded and reattached
  frame_commit = 17,  // runner -> shim: a = generation published
  frame_done = 18,    // runner -> shim: the end input is committed; the runner exits 0
  frame_failed = 19,  // runner -> shim: a = RunnerFailure; payload "code\0detail"; the runner exits 1
};
enum EofFlag : std::uint64_t { eof_absent = 1, eof_truncated = 2 };
struct Frame {
  std::uint32_t type;
  std::uint32_t size;  // of the payload that follows
  std::uint64_t a;
  std::uint64_t b;
  std::int64_t
      unix_ms;  // when it happened, shim's clock; what the adapter's now_ms() says (replayed after a restart)
};
enum InputKind : std::uint64_t {
  input_control = 1,   // payload: ControlInput + name + text
  input_decision = 2,  // payload: DecisionInput + approval id + answer
  input_call_result = 3,
  input_timer =
      4,  // payload: TimerInput; one that was set again or cancelled meanwhile is dropped by the runner
  input_exit = 5,     // payload: ExitInput; after Eof of stdout and stderr
  input_end = 6,      // after Eof of all file streams
  input_blocked = 7,  // payload: std::uint64_t stream: ring full, `output-blocked` is journaled
  input_egress = 8,   // payload: gatewire::Decision or Restart; journaled, the adapter is not told
};
struct ControlInput {
  std::uint32_t kind;
  std::uint32_t name_size;
  std::uint32_t text_size;
  std::uint32_t reserved;
};
struct DecisionInput {
  std::uint32_t decision;
  std::uint32_t id_size;
  std::uint32_t answer_size;
  std::uint32_t reserved;
};
struct TimerInput {
  std::uint32_t id;
  std::uint32_t reserved;
  std::uint64_t action;
};  // action: of the Timer that fired
// Why the tree was ended, if it was: asked by control_stop, control_kill, run_wall_ms, the adapter's end_run,
// or a cause of the shim.
enum StopReason : std::uint32_t {
  stop_none = 0,
  stop_asked = 1,
  stop_kill = 2,
  stop_timeout = 3,
  stop_end_run = 4,
  stop_cause = 5
};
struct ExitInput {
  std::uint32_t kind;
  std::int32_t value;
  std::uint32_t stop_requested;
  std::uint32_t reserved;
};  // ExitKind, StopReason
enum RunnerFailure : std::uint64_t {
  runner_hook_failed = 1,  // a hook returned an error: the attempt ends, cause adapter-failed
  runner_load_failed = 2,  // the adapter could not be loaded
  runner_journal_failed =
      3,  // ENOSPC, EIO: the shim stops reading, waits and starts another runner (bounded backoff)
  runner_journal_full = 4,     // the hard bound: the attempt ends, cause journal-full
  runner_record_too_long = 5,  // HR_OVERFLOW_FAIL
  runner_internal = 6,
};

// ---- control sockets `s` and `c`
// ---------------------------------------------------------------------------------------- SOCK_STREAM. One
// connection: ControlHello, then ControlRequest + payload, each answered by ControlReply + payload.
inline constexpr std::uint32_t control_magic = 0x43435248;  // "HRCC"
inline constexpr std::uint32_t control_version = 1;
inline constexpr std::size_t token_size = 32;
struct ControlHello {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint8_t token[token_size];
};
enum ControlType : std::uint32_t {
  control_status = 1,    // s
  control_stop = 2,      // s: the plan's stop steps, then kill
  control_kill = 3,      // s: the tree at once
  control_input = 4,     // c: payload ControlInput + name + text; numbered and handed to the living runner
  control_decision = 5,  // c: payload DecisionInput + ...
};
struct ControlRequest {
  std::uint32_t type;
  std::uint32_t size;
  std::uint8_t idempotency[16];  // a repeated id gives the first answer again
};
enum ControlOutcome : std::uint32_t {
  control_ok = 1,
  control_bad_token = 2,
  control_bad_request = 3,
  control_runner_restarting = 4,
  control_too_late = 5,  // the harness has exited
  control_busy = 6,      // too many inputs wait for the runner; nothing was taken
};
struct ControlReply {
  std::uint32_t outcome;
  std::uint32_t size;
};
enum ShimPhase : std::uint32_t {
  phase_starting,
  phase_running,
  phase_stopping,
  phase_draining,
  phase_ending,
  phase_finishing,
  phase_done,
};
struct StatusPayload {
  std::uint32_t phase;  // ShimPhase
  std::uint32_t runner_restarts;
  std::int32_t runner_pid;  // 0 while none lives
  std::int32_t leader_pid;
  std::uint64_t input_id;  // control_input: the number given
  std::uint64_t ring_pending[max_streams];
  std::int64_t started_unix_ms;
};

// ---- exit slot: the file `exit`, 512 bytes, preallocated and synced before the spawn, written in place
// ------------------------
inline constexpr std::uint32_t exit_magic = 0x58455248;  // "HREX"
inline constexpr std::uint32_t exit_version = 1;
enum ExitState : std::uint32_t {
  exit_prepared = 1,  // no harness yet
  exit_running = 2,   // a harness was started: leader identity below
  exit_exited = 3,    // the leader's status is known
  exit_ended = 4,     // tree empty and streams drained to the runner, or given up with `cause`
};
enum ExitKind : std::uint32_t { kind_none = 0, kind_code = 1, kind_signal = 2, kind_unknown = 3 };
// source_wait: the shim's own waitid; source_pidfd: PIDFD_GET_INFO of the leader's pidfd after init was lost.
enum ExitSource : std::uint32_t {
  source_none = 0,
  source_init = 1,
  source_wait = 2,
  source_shim_lost = 3,
  source_pidfd = 4,
};
struct ExitSlot {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint32_t state;
  std::uint32_t kind;
  std::int32_t value;
  std::uint32_t source;
  std::uint32_t stop_requested;  // StopReason
  std::uint32_t runner_restarts;
  std::int32_t shim_pid;
  std::int32_t init_pid;
  std::int32_t leader_pid;
  std::uint32_t reserved;
  std::uint64_t shim_start_ticks;
  std::uint64_t init_start_ticks;
  std::uint64_t leader_start_ticks;
  std::int64_t started_unix_ms;
  std::int64_t exited_unix_ms;
  char boot_id[40];
  char cause[48];  // "" = the adapter's verdict decides; else adapter-crashed, adapter-failed, journal-full,
                   // start-failed, ...
  char cause_detail[200];
  std::uint8_t pad[132];
  std::uint32_t crc;  // CRC-32C of all bytes before
};
static_assert(sizeof(ExitSlot) == 512);

}  // namespace hitchrail::wire
