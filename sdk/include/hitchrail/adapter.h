/* Hitchrail adapter ABI, major version 1. C11; includes nothing but <stddef.h> and <stdint.h>.
 *
 * An adapter is one shared object that describes how a coding-agent harness is launched and what its streams
 * mean. It is a state machine and does no I/O: records, exits, timers, decisions and answers go in through
 * hooks; events, bytes to send, service calls and a verdict come out through callbacks. The process that
 * holds it is confined: it cannot exec, fork, connect, open a file outside or trace. Time and randomness come
 * from the host only, so the same calls with the same bytes must give the same callbacks: the host replays
 * them after a crash and compares.
 *
 * NOTATION. [probe] [plan] [session] name the object a function belongs to; [& state ...] the states in which
 * the host calls it. One object is used by one thread at a time; two objects may be used by two threads at
 * once. Callbacks may be called only from inside a hook, on the hook's own thread, with the hr_host handed to
 * that hook.
 *
 * OWNERSHIP. Memory belongs to its maker. What a hook receives is valid until the hook returns; what a
 * callback receives is copied before the callback returns. Nothing crosses that the other side must free.
 * hr_probe and hr_session are made by the adapter and given back to it by probe_close and close, exactly
 * once.
 *
 * STRINGS are (pointer, length), UTF-8 unless said otherwise, never NUL-terminated; {NULL, 0} is the empty
 * string.
 *
 * STRUCTS begin with struct_size = sizeof the struct as its maker knows it. A reader copies min(struct_size,
 * its own size) into a zeroed local, so a field that the other side does not know reads as 0. Until v1 is
 * frozen structs grow at the end only; afterwards everything new is an extension by string id. Elements of
 * arrays (hr_str, hr_part, hr_env, hr_stream_spec, hr_file_stream, hr_home_file, hr_stop_step) have no size
 * and never change. reserved fields are 0.
 *
 * ERRORS. Every hook returns hr_result. HR_OK or a failure; on failure it may have called `fail` with the
 * reason. A failing or crashing hook ends the attempt with that reason and the hook's name; it never crashes
 * the host. No exception may cross this border (adapter.hpp catches them all).
 *
 * STATES of a session and what the host may call. Any other pair is a fault: the host never makes it, and an
 * adapter answers HR_E_STATE without side effect. `hitchrail plugins check` walks every pair.
 *
 *   state   | entered by               | hooks the host may call
 *   --------+--------------------------+------------------------------------------------------
 *   planned | launch returned HR_OK    | snapshot, close
 *   open    | reattach returned HR_OK  | map_events, control, on_decision, on_call_result,
 *           |                          | on_timer, on_transport, on_exit, snapshot, close
 *   exited  | on_exit returned HR_OK   | map_events (file streams, late records), on_end,
 *           |                          | snapshot, close
 *   ended   | on_end returned HR_OK    | snapshot, close
 *
 * A live run always begins with reattach on the snapshot that followed launch; a restart is the same call
 * with a later snapshot. A session reattached after on_exit was committed is told so by hr_reattach.state.
 * reattach only rebuilds: it emits, sends and sets nothing, else a restart would do it twice. What must
 * happen at the start of a run is in the plan.
 *
 * A probe: probe returned HR_OK -> on_probe_step once for each step it asked for, in order (a step may ask
 * for more) -> probe_close. A result that no step asked for is answered HR_E_STATE.
 *
 * render needs no object and may be called in any order.
 */
#ifndef HITCHRAIL_ADAPTER_H
#define HITCHRAIL_ADAPTER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HR_ABI_MAJOR 1u
#define HR_ABI_MINOR 0u
#define HR_SDK_VERSION "0.1.0"
#define HR_EXPORT __attribute__((visibility("default")))

/* ---- bounds (the host enforces them; an adapter that exceeds one fails with HR_E_LIMIT) ---- */
#define HR_MAX_PROVIDER_ID 63u     /* bytes of a provider id: ^[a-z][a-z0-9-]*$ */
#define HR_MAX_SNAPSHOT (1u << 20) /* bytes of one snapshot */
#define HR_MAX_OUTBOX (4u << 20)   /* bytes sent to the harness within one commit */
#define HR_MAX_EVENT_PAYLOAD \
  (16u << 20) /* bytes of one event's payload; over 8 KiB the host spills it to a file */
#define HR_MAX_RECORD_CAP (16u << 20) /* greatest record cap a stream may ask for */
#define HR_MAX_TIMERS 16u             /* live timers of one session */
#define HR_MAX_ARGV 256u              /* arguments, each at most 128 KiB (the kernel's MAX_ARG_STRLEN) */
#define HR_HOOK_CPU_MS 5000u /* thread CPU time of one hook; sleeping counts against 30 s of wall time */

typedef struct hr_str {
  const char* data;
  size_t size;
} hr_str;

typedef int32_t hr_result;
#define HR_OK 0
#define HR_E_STATE (-1)       /* called in a wrong state */
#define HR_E_ARGUMENT (-2)    /* an argument the hook cannot accept; say which with `fail` */
#define HR_E_UNSUPPORTED (-3) /* this adapter does not do that */
#define HR_E_PROTOCOL (-4)    /* the harness broke its protocol beyond repair */
#define HR_E_LIMIT (-5)       /* a bound above */
#define HR_E_INTERNAL (-6)    /* a fault of the adapter's own */

typedef struct hr_probe hr_probe;     /* made and owned by the adapter */
typedef struct hr_session hr_session; /* made and owned by the adapter */

/* ---- probe ---------------------------------------------------------------------------------- */
/* [probe] Documents: request_json follows schemas/probe-request.v1.json {profileId, executable, platform}. */
typedef struct hr_probe_request {
  uint32_t struct_size;
  uint32_t reserved;
  hr_str request_json;
} hr_probe_request;

#define HR_STEP_COMMAND 1u /* run the executable with argv, collect exit and output */
#define HR_STEP_DIALOGUE \
  2u /* run it, write `input`, read records until one satisfies stop_after or the time is up */

/* One step, run by the host in the probe boundary (empty HOME and working directory, no credential, no
 * network unless the profile says so). argv excludes the program. timeout_ms 0 = 5000; max_output 0 = 8 KiB a
 * stream, beyond it the step's result says truncated. */
typedef struct hr_probe_step {
  uint32_t struct_size;
  uint32_t kind;
  uint32_t step_id; /* the adapter's own number, given back in the result */
  uint32_t timeout_ms;
  uint32_t max_output;
  uint32_t stop_after_records; /* DIALOGUE: end after this many stdout records, 0 = at exit or time-out */
  const hr_str* argv;
  size_t argc;
  hr_str input;
} hr_probe_step;

#define HR_STEP_EXITED 1u
#define HR_STEP_SIGNALED 2u
#define HR_STEP_TIMED_OUT 3u
#define HR_STEP_NOT_STARTED 4u

typedef struct hr_probe_step_result {
  uint32_t struct_size;
  uint32_t step_id;
  uint32_t outcome; /* HR_STEP_EXITED ... */
  int32_t code;     /* exit code or signal */
  uint32_t stdout_truncated;
  uint32_t stderr_truncated;
  hr_str stdout_bytes; /* any bytes */
  hr_str stderr_bytes;
} hr_probe_step_result;

/* ---- render --------------------------------------------------------------------------------- */
/* [plan] Pure: envelope_json (schemas/task-envelope.v1.json) -> this provider's request text. mode: 0 a new
 * conversation, 1 a follow-up turn of a resumed or forked one (envelope.conversation says of which; the whole
 * envelope is not told again). context_json (schemas/render-context.v1.json {schemaVersion, instructions[],
 * checkpoint?}; empty = none): what the operator gives the harness beside the task. render.hpp renders all of
 * it in the common form. */
typedef struct hr_render_request {
  uint32_t struct_size;
  uint32_t mode;
  hr_str envelope_json;
  hr_str context_json;
} hr_render_request;

/* ---- launch: the plan ----------------------------------------------------------------------- */
#define HR_LAUNCH_NEW 0u
#define HR_LAUNCH_RESUME 1u
#define HR_LAUNCH_FORK 2u /* a new conversation that begins with the history of launch_json.conversation */

/* [plan] launch_json follows schemas/launch-request.v1.json {profileId, providerVersion, worktree, home,
 * temp, model?, conversation?{id}, providerSandbox, credentials[], gateEndpoints[], providerOptions{}}: paths
 * are as the harness will see them, credentials are the names that HR_PART_SECRET may use. request_text is
 * what render gave. */
typedef struct hr_launch_request {
  uint32_t struct_size;
  uint32_t mode; /* HR_LAUNCH_NEW ... */
  hr_str launch_json;
  hr_str request_text;
} hr_launch_request;

/* A piece of bytes to send. A secret is named, never seen: only the shim fills it in. */
#define HR_PART_BYTES 1u
#define HR_PART_SECRET 2u
#define HR_ENCODE_RAW 0u
#define HR_ENCODE_JSON_STRING 1u /* without the quotes */
#define HR_ENCODE_BASE64 2u
typedef struct hr_part {
  uint32_t kind;
  uint32_t encoding; /* SECRET only */
  hr_str bytes;      /* BYTES: the bytes; SECRET: the key's name from the launch's credential list */
} hr_part;

/* Environment of the harness. It is built from empty; a key that the profile's allow-list lacks refuses the
 * launch. */
#define HR_ENV_FROM_HOST 1u /* the operator's value, when set */
#define HR_ENV_LITERAL 2u   /* `value`; never a secret */
#define HR_ENV_HOME 3u      /* the conversation's home, plus "/" + value when value is not empty */
typedef struct hr_env {
  uint32_t source;
  uint32_t reserved;
  hr_str name;
  hr_str value;
} hr_env;

#define HR_STREAM_STDOUT 1u
#define HR_STREAM_STDERR 2u
#define HR_STREAM_TRANSPORT 3u  /* frames of a remote transport */
#define HR_STREAM_FILE_FIRST 8u /* 8, 9, ... files handed over after the exit */

#define HR_FRAME_LINES 1u          /* split at 0x0A only; the line feed is not part of the record */
#define HR_FRAME_CHUNKS 2u         /* bytes as they come; boundaries carry no meaning */
#define HR_FRAME_WHOLE 3u          /* one record at the end of the stream */
#define HR_FRAME_CONTENT_LENGTH 4u /* "Content-Length: N" headers, as LSP does */
#define HR_FRAME_MESSAGES 5u       /* one record a transport frame */

#define HR_OVERFLOW_FAIL 1u /* a record over the cap ends the attempt: record-too-long */
#define HR_OVERFLOW_TRUNCATE \
  2u /* the first cap bytes arrive with HR_RECORD_TRUNCATED, the rest is dropped and counted */

/* stdout or stderr that the plan does not name comes as HR_FRAME_CHUNKS. */
typedef struct hr_stream_spec {
  uint32_t stream;
  uint32_t framing;
  uint32_t overflow;
  uint32_t record_cap; /* bytes; 0 = 8 MiB; at most HR_MAX_RECORD_CAP */
} hr_stream_spec;

/* A file of the conversation's home that becomes a stream after the exit. pattern: components joined by "/",
 * "*" and
 * "?" inside one component; no "..". No link is followed; of several matches the most recently changed is
 * taken. A missing file gives an empty stream with HR_RECORD_ABSENT set on its one record. */
typedef struct hr_file_stream {
  uint32_t stream; /* HR_STREAM_FILE_FIRST + n */
  uint32_t framing;
  uint32_t record_cap;
  uint32_t flags; /* HR_FILE_CARRY */
  hr_str pattern;
} hr_file_stream;
#define HR_FILE_CARRY 1u /* copied into the home of a resume of this conversation */

/* A file the host writes into the home before each launch (configuration). Mode 0600; path relative, no "..".
 */
typedef struct hr_home_file {
  hr_str path;
  hr_str bytes;
} hr_home_file;

#define HR_STOP_SEND 1u        /* send `parts` on stdin */
#define HR_STOP_CLOSE_INPUT 2u /* end of input */
#define HR_STOP_SIGNAL 3u      /* `signal` to the harness process, through its pidfd */
typedef struct hr_stop_step {
  uint32_t kind;
  int32_t signal;
  uint32_t wait_ms; /* then the next step; after the last the whole tree is killed */
  uint32_t reserved;
  const hr_part* parts;
  size_t part_count;
} hr_stop_step;

#define HR_TRANSPORT_STDIO 1u
#define HR_TRANSPORT_WEBSOCKET \
  2u /* reached by the host's link process; `endpoint` names the profile's endpoint */

#define HR_PLAN_CLOSE_INPUT 1u /* end of input right after initial_input */
#define HR_PLAN_NEEDS_PIPE \
  2u /* the harness cannot work on socket pairs: evidence says streamIntegrity none */

typedef struct hr_plan {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t transport;
  uint32_t reserved;
  const hr_str* argv; /* arguments after the program; nothing of the task, no secret, no handle */
  size_t argc;
  const hr_env* env;
  size_t env_count;
  const hr_stream_spec* streams;
  size_t stream_count;
  const hr_part* initial_input;
  size_t initial_input_count;
  const hr_stop_step* stop;
  size_t stop_count;
  const hr_home_file* home_files;
  size_t home_file_count;
  const hr_file_stream* file_streams;
  size_t file_stream_count;
  hr_str endpoint; /* WEBSOCKET only */
} hr_plan;

/* ---- session: what goes in ------------------------------------------------------------------ */
#define HR_RECORD_TRUNCATED 1u    /* cut at the stream's cap */
#define HR_RECORD_UNTERMINATED 2u /* the stream ended without the frame's end */
#define HR_RECORD_REPLAYED 4u     /* a replay or conformance fixture, not a live harness */
#define HR_RECORD_ABSENT 8u       /* the file of a file stream does not exist; bytes are empty */
typedef struct hr_record {
  uint32_t struct_size;
  uint32_t stream;
  uint32_t flags;
  uint32_t reserved;
  uint64_t offset; /* absolute offset of the record's first byte in its stream */
  hr_str bytes;    /* any bytes, the frame's end removed; valid UTF-8 is not promised */
} hr_record;

#define HR_CONTROL_STEER 1u      /* text into the running turn */
#define HR_CONTROL_INTERRUPT 2u  /* end the turn, keep the session */
#define HR_CONTROL_FOLLOW_UP 3u  /* a new turn */
#define HR_CONTROL_SHUTDOWN 4u   /* end the session in the provider's own way */
#define HR_CONTROL_EXTENSION 16u /* `name` says which, e.g. "com.example.compact/1" */
/* Answer with the callback control_result, now or in a later hook of this session. */
typedef struct hr_control {
  uint32_t struct_size;
  uint32_t kind;
  uint64_t control_id; /* the host's, unique in the attempt, ascending */
  hr_str name;
  hr_str text;
} hr_control;

#define HR_DECISION_ALLOW_ONCE 1u
#define HR_DECISION_DENY 2u
#define HR_DECISION_CANCELLED 3u /* withdrawn, timed out, or the operator ended the run */
#define HR_DECISION_ALLOW_SESSION 4u
typedef struct hr_decision {
  uint32_t struct_size;
  uint32_t decision;
  hr_str approval_id; /* as given to request_approval */
  hr_str answer_json; /* elicitations: the operator's answer, else empty; never persisted */
} hr_decision;

#define HR_CALL_OK 1u
#define HR_CALL_FAILED 2u
#define HR_CALL_REFUSED 3u
typedef struct hr_call_result {
  uint32_t struct_size;
  uint32_t outcome;
  uint64_t call_id;
  hr_str result_json; /* the service's schema; on failure {code, message} */
} hr_call_result;

#define HR_EXIT_CODE 1u
#define HR_EXIT_SIGNAL 2u
#define HR_EXIT_UNKNOWN 3u
typedef struct hr_exit {
  uint32_t struct_size;
  uint32_t kind;
  int32_t value;         /* code or signal; 0 when unknown */
  uint32_t stop_request; /* 1 when the host had asked it to stop */
} hr_exit;

#define HR_TRANSPORT_OPEN 1u
#define HR_TRANSPORT_LOST 2u     /* the link will try again */
#define HR_TRANSPORT_REOPENED 3u /* send the handshake again; a gap is possible and is reported */
#define HR_TRANSPORT_GAVE_UP 4u
typedef struct hr_transport_event {
  uint32_t struct_size;
  uint32_t kind;
  uint32_t generation; /* counts connections from 1 */
  uint32_t reserved;
  hr_str detail_json;
} hr_transport_event;

typedef struct hr_reattach {
  uint32_t struct_size;
  uint32_t state;  /* HR_STATE_OPEN or HR_STATE_EXITED: where the session goes on */
  hr_str snapshot; /* bytes of the last committed snapshot */
} hr_reattach;
#define HR_STATE_OPEN 1u
#define HR_STATE_EXITED 2u

/* ---- session: what comes out ---------------------------------------------------------------- */
/* run-event/v1 kinds an adapter may emit. The host itself writes run.started and the terminal event. */
typedef enum hr_event_kind {
  HR_EVENT_NAMED = 0, /* `kind_name` holds a namespaced kind: ^[a-z][a-z0-9]*([._-][a-z0-9]+)+$, 3..120 */
  HR_EVENT_MESSAGE_OPERATOR = 1,
  HR_EVENT_MESSAGE_ASSISTANT = 2,
  HR_EVENT_MESSAGE_DELTA = 3,
  HR_EVENT_REASONING_DELTA = 4,
  HR_EVENT_PROGRESS = 5,
  HR_EVENT_STREAM_STDOUT = 6,
  HR_EVENT_STREAM_STDERR = 7,
  HR_EVENT_COMMAND_STARTED = 8,
  HR_EVENT_COMMAND_DETACHED = 9,
  HR_EVENT_COMMAND_COMPLETED = 10,
  HR_EVENT_FILE_CHANGED = 11,
  HR_EVENT_TOOL_STARTED = 12,
  HR_EVENT_TOOL_COMPLETED = 13,
  HR_EVENT_ARTIFACT_CREATED = 14,
  HR_EVENT_USAGE_UPDATED = 15,
  HR_EVENT_RUN_ERROR = 16,
  HR_EVENT_PROVIDER_UNKNOWN = 17,
  HR_EVENT_CONVERSATION_STARTED = 18,
  HR_EVENT_CONVERSATION_RESUMED = 19,
  HR_EVENT_CONVERSATION_FOLLOWED_UP = 20,
  HR_EVENT_CONVERSATION_FORKED = 21,
  HR_EVENT_CONVERSATION_STEERED = 22,
  HR_EVENT_CONVERSATION_INTERRUPTED = 23,
  HR_EVENT_CONVERSATION_COMPACTED = 24,
  HR_EVENT_CONVERSATION_ARCHIVED = 25,
  HR_EVENT_CONVERSATION_CLOSED = 26,
  HR_EVENT_KIND_COUNT = 27
} hr_event_kind;

#define HR_EVENT_RAW_RECORD                                                               \
  1u /* payload.raw is the record of the current map_events call, byte for byte; a record \
        that is not one valid JSON value becomes a string or {"base64": ...} */
#define HR_EVENT_MERGEABLE 2u /* `text` continues the text of the adjacent event of this kind and item */

/* The payload becomes {"providerType"?, "summary"?, "text"?, members of fields_json..., "raw"?}. */
typedef struct hr_event {
  uint32_t struct_size;
  uint32_t kind; /* hr_event_kind */
  uint32_t flags;
  uint32_t reserved;
  hr_str kind_name;
  hr_str provider_type; /* the provider's own name of the record */
  hr_str item_id;       /* these five at most 160 bytes; longer ones become sha256_<hex> */
  hr_str turn_id;
  hr_str provider_event_id;
  hr_str parent_event_id;
  hr_str provider_timestamp; /* RFC 3339, else dropped */
  hr_str summary;
  hr_str text;
  hr_str fields_json; /* an object, or empty */
} hr_event;

typedef struct hr_approval {
  uint32_t struct_size;
  uint32_t kind; /* 1 command, 2 file change, 3 tool, 4 elicitation, 5 other */
  hr_str approval_id;
  hr_str item_id;
  hr_str action_json; /* the whole action as the operator must see it; its hash binds the decision */
  uint32_t choices;   /* bits 1u << HR_DECISION_*: what the provider can carry out; 0 = allow once and deny */
  uint32_t expires_ms; /* the provider decides by itself after this time; 0 = it waits */
} hr_approval;

#define HR_CONTROL_DELIVERED 1u
#define HR_CONTROL_REJECTED 2u   /* `detail` says why */
#define HR_CONTROL_IMPOSSIBLE 3u /* the provider has no such operation */

#define HR_VERDICT_SUCCESS 1u
#define HR_VERDICT_FAILED 2u
#define HR_VERDICT_BLOCKED 3u
#define HR_VERDICT_INTERRUPTED 4u
#define HR_VERDICT_PARTIAL 5u
/* The adapter's reading of how the work ended; the host checks it against exit, evidence and policy and may
 * lower it, never raise it. */
typedef struct hr_verdict {
  uint32_t struct_size;
  uint32_t status;
  hr_str code;              /* stable, kebab-case; empty for a plain success */
  hr_str summary;           /* usually the final answer */
  hr_str error;             /* required for FAILED */
  hr_str continuation_kind; /* "thread", "session", "run", "other"; empty = none */
  hr_str continuation_reference;
  hr_str details_json; /* an object, or empty: what the cross-checks saw */
} hr_verdict;

#define HR_LOG_DEBUG 1u
#define HR_LOG_INFO 2u
#define HR_LOG_WARNING 3u

/* Callbacks. `ctx` is hr_host.ctx. Those that return hr_result give HR_OK, HR_E_STATE (not allowed in this
 * hook), HR_E_ARGUMENT or HR_E_LIMIT; after a failure the hook should return it. [P] allowed in probe hooks,
 * [R] render, [L] launch, [A] reattach, [S] the other session hooks except snapshot and close, [N] snapshot.
 * A callback beyond the host's struct_size does not exist: test it before use (adapter.hpp does). */
typedef struct hr_host {
  uint32_t struct_size;
  uint32_t abi_minor; /* of the host */
  void* ctx;
  void (*log)(void* ctx, uint32_t level, hr_str text); /* [P R L A S N] at most 4 KiB a line, rate limited */
  void (*fail)(void* ctx, hr_str code,
               hr_str text);    /* [P R L A S N] the reason of the failure to be returned */
  int64_t (*now_ms)(void* ctx); /* [P L A S] UNIX time of the current input, replayed */
  void (*random)(void* ctx, void* out, size_t size); /* [L] launch only: keep what you need in the snapshot */
  const void* (*extension)(void* ctx, hr_str id);    /* [any] NULL when the host lacks it */
  hr_result (*probe_step)(void* ctx, const hr_probe_step*); /* [P] queue a step */
  hr_result (*probe_result)(void* ctx, hr_str result_json); /* [P] once: schemas/probe-result.v1.json */
  hr_result (*rendered)(void* ctx, hr_str text);            /* [R] once */
  hr_result (*plan)(void* ctx, const hr_plan*);             /* [L] once */
  hr_result (*emit)(void* ctx, const hr_event*);            /* [S] */
  hr_result (*send)(void* ctx, const hr_part*, size_t);     /* [S] appended to the input, in order; on a
                                                                   transport one call is one message */
  hr_result (*close_input)(void* ctx);                      /* [S] after what was sent */
  hr_result (*signal_leader)(void* ctx, int32_t signal); /* [S] SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 */
  hr_result (*request_approval)(void* ctx, const hr_approval*);                                 /* [S] */
  hr_result (*withdraw_approval)(void* ctx, hr_str approval_id);                                /* [S] */
  hr_result (*control_result)(void* ctx, uint64_t control_id, uint32_t outcome, hr_str detail); /* [S] */
  hr_result (*set_conversation)(void* ctx, hr_str conversation_id); /* [S] sticky from then on */
  hr_result (*set_turn)(void* ctx, hr_str turn_id);                 /* [S] */
  hr_result (*call_service)(void* ctx, hr_str service, hr_str method, hr_str params_json,
                            uint64_t* call_id); /* [S] answered by on_call_result */
  hr_result (*set_timer)(void* ctx, uint32_t timer_id,
                         uint32_t after_ms);               /* [L S] replaces one of that id; in launch
                                                              it counts from the harness's start */
  hr_result (*cancel_timer)(void* ctx, uint32_t timer_id); /* [S] */
  hr_result (*finish)(void* ctx,
                      const hr_verdict*); /* [S] on_end only, once: keep the verdict in the session */
  hr_result (*snapshot_bytes)(void* ctx, hr_str bytes); /* [N] once */
  hr_result (*end_run)(void* ctx); /* [S] the work is over: the host runs the plan's stop steps and then
                                      ends the tree, for a harness that outlives its last answer */
} hr_host;

/* ---- the adapter ---------------------------------------------------------------------------- */
/* Static data, valid as long as the library is loaded. Every function pointer except those marked optional is
 * set. */
typedef struct hr_adapter {
  uint32_t struct_size;
  uint32_t abi_major; /* HR_ABI_MAJOR */
  uint32_t abi_minor; /* HR_ABI_MINOR */
  uint32_t reserved;
  hr_str provider_id; /* equals the note's */
  hr_str display_name;
  hr_str version; /* of the adapter */

  hr_result (*probe)(const hr_host*, const hr_probe_request*, hr_probe** out);        /* [probe] */
  hr_result (*on_probe_step)(const hr_host*, hr_probe*, const hr_probe_step_result*); /* [probe] */
  void (*probe_close)(hr_probe*);                                                     /* [probe] */
  hr_result (*render)(const hr_host*, const hr_render_request*);                      /* [plan] */
  hr_result (*launch)(const hr_host*, const hr_launch_request*, hr_session** out);    /* [plan] -> planned */
  hr_result (*reattach)(const hr_host*, const hr_reattach*, hr_session** out); /* [session] -> open, exited */
  hr_result (*map_events)(const hr_host*, hr_session*, const hr_record*);      /* [session & open exited] */
  hr_result (*on_exit)(const hr_host*, hr_session*, const hr_exit*);           /* [session & open] */
  hr_result (*on_end)(const hr_host*, hr_session*); /* [session & exited] all streams ended: call finish */
  hr_result (*snapshot)(const hr_host*, const hr_session*); /* [session & planned open exited ended] */
  void (*close)(hr_session*);                               /* [session & any] */
  hr_result (*control)(const hr_host*, hr_session*, const hr_control*);              /* optional [open] */
  hr_result (*on_decision)(const hr_host*, hr_session*, const hr_decision*);         /* optional [open] */
  hr_result (*on_call_result)(const hr_host*, hr_session*, const hr_call_result*);   /* optional [open] */
  hr_result (*on_timer)(const hr_host*, hr_session*, uint32_t timer_id);             /* optional [open] */
  hr_result (*on_transport)(const hr_host*, hr_session*, const hr_transport_event*); /* optional [open] */
} hr_adapter;

/* The one exported symbol. Returns the same pointer each time; does nothing else. */
HR_EXPORT const hr_adapter* hitchrail_adapter_entry(void);
#define HR_ENTRY_SYMBOL "hitchrail_adapter_entry"

/* ---- extensions: services an adapter may call when the plan's profile grants them ----------- */
#define HR_EXT_FS "hitchrail.fs/1" /* read_text_file, write_text_file below the worktree (ACP fs) */
#define HR_EXT_TERMINAL \
  "hitchrail.terminal/1" /* create, output, wait_for_exit, kill, release (ACP terminals) */

/* ---- the ELF note, read before any code of the library runs --------------------------------- */
#define HR_NOTE_SECTION ".note.hitchrail"
#define HR_NOTE_NAME "Hitchrail"
#define HR_NOTE_TYPE 1u
typedef struct hr_note {
  uint32_t name_size; /* 10, with its NUL */
  uint32_t desc_size;
  uint32_t type;
  char name[12];
  uint32_t abi_major;
  uint32_t abi_minor;
  char provider_id[64]; /* NUL-padded */
  char sdk_version[16]; /* NUL-padded */
} hr_note;
#define HR_NOTE_DESC_SIZE (4u + 4u + 64u + 16u)

/* Once in one source file of the adapter, at file scope: HR_ADAPTER_NOTE("my-harness"); */
#define HR_ADAPTER_NOTE(provider)                                                                       \
  __attribute__((section(HR_NOTE_SECTION), used, aligned(4))) static const hr_note hr_adapter_note_ = { \
      10u,          HR_NOTE_DESC_SIZE, HR_NOTE_TYPE, HR_NOTE_NAME,                                      \
      HR_ABI_MAJOR, HR_ABI_MINOR,      provider,     HR_SDK_VERSION}

#ifdef __cplusplus
}
#endif
#endif /* HITCHRAIL_ADAPTER_H */
