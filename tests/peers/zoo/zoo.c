/* The zoo: the sound example adapter with one thing broken in each build. ZOO_ANIMAL picks it; check_test.cpp
 * says which finding each must give. */
#define hitchrail_adapter_entry sound_entry
#ifdef ZOO_OTHER_NOTE
#include <hitchrail/adapter.h>
#undef HR_ADAPTER_NOTE
#define HR_ADAPTER_NOTE(provider) struct zoo_no_note
#endif
#include "../../../sdk/examples/echo-c/echo.c"
#undef hitchrail_adapter_entry

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

const hr_adapter* hitchrail_adapter_entry(void);

enum animal {
  thread_in_probe,
  fork_in_launch,
  sleeps_in_map_events,
  exits_in_launch,
  aborts_in_render,
  segfault_in_on_exit,
  kills_itself_in_on_end,
  closes_descriptors,
  throws_in_map_events,
  writes_10_mib,
  prints_in_on_end,
  abort_in_constructor,
  constructor_hangs,
  constructor_connects,
  socket_in_on_timer,
  control_in_planned,
  snapshot_after_end,
  no_launch_hook,
  other_provider,
  other_abi_in_table,
  small_table,
  null_table,
  plan_differs,
  plan_out_of_bounds,
  task_in_arguments,
  emits_in_reattach,
  bad_probe_result,
  no_probe_step,
  no_verdict,
  snapshot_differs,
  render_differs,
  remembers_records,
  recurses,
  not_utf8,
  undefined_symbol,
  sound,
};

/* What makes most of these wrong: memory beside the session. */
static unsigned counter;

static void never_returns(void) {
  for (;;) {
    pause();
  }
}

static void* idle(void* unused) {
  never_returns();
  return unused;
}

#if defined(ZOO_THROWS)
void zoo_throw(void);
#endif
#if defined(ZOO_UNDEFINED)
void zoo_is_nowhere(void);
#endif

static hr_result bad_probe(const hr_host* host, const hr_probe_request* request, hr_probe** out) {
  if (ZOO_ANIMAL == thread_in_probe) {
    pthread_t thread;
    (void)pthread_create(&thread, NULL, idle, NULL); /* never joined */
  }
  if (ZOO_ANIMAL == no_probe_step) {
    (void)request;
    *out = calloc(1, sizeof **out);
    return *out == NULL ? HR_E_LIMIT : HR_OK;
  }
  return probe(host, request, out);
}

static hr_result bad_probe_step(const hr_host* host, hr_probe* self, const hr_probe_step_result* result) {
  if (ZOO_ANIMAL == closes_descriptors && result->step_id == 1) {
    for (int fd = 0; fd < 3; ++fd) {
      (void)close(fd);
    }
  }
  if (ZOO_ANIMAL == bad_probe_result && result->step_id == 1) {
    return host->probe_result(host->ctx, TEXT("{\"version\":1}"));
  }
  return on_probe_step(host, self, result);
}

static hr_result bad_render(const hr_host* host, const hr_render_request* request) {
  if (ZOO_ANIMAL == aborts_in_render) {
    abort();
  }
  char text[32];
  const int size = snprintf(text, sizeof text, "text %u", counter++);
  return host->rendered(host->ctx, (hr_str){text, (size_t)size});
}

static hr_result bad_launch(const hr_host* host, const hr_launch_request* request, hr_session** out) {
  if (ZOO_ANIMAL == fork_in_launch && fork() == 0) {
    never_returns();
  }
  if (ZOO_ANIMAL == exits_in_launch) {
    exit(0);
  }
  char text[32];
  const int size = snprintf(text, sizeof text, "--n=%u", counter++);
  const hr_str differs = {text, (size_t)size};
  const hr_str argv[] = {ZOO_ANIMAL == task_in_arguments ? request->request_text
                         : ZOO_ANIMAL == plan_differs    ? differs
                                                         : TEXT("-u")};
  const hr_stream_spec streams[] = {
      {HR_STREAM_STDOUT, HR_FRAME_LINES, HR_OVERFLOW_FAIL, HR_MAX_RECORD_CAP + 1}};
  const hr_plan plan = {.struct_size = sizeof plan,
                        .transport = HR_TRANSPORT_STDIO,
                        .argv = argv,
                        .argc = 1,
                        .streams = streams,
                        .stream_count = ZOO_ANIMAL == plan_out_of_bounds ? 1 : 0};
  *out = calloc(1, sizeof **out);
  (void)host->plan(host->ctx, &plan);
  return *out == NULL ? HR_E_LIMIT : HR_OK;
}

static hr_result bad_reattach(const hr_host* host, const hr_reattach* request, hr_session** out) {
  const hr_event event = {
      .struct_size = sizeof event, .kind = HR_EVENT_PROGRESS, .text = TEXT("hello again")};
  (void)host->emit(host->ctx, &event);
  return reattach(host, request, out);
}

/* A parser that goes down one frame a bracket. */
__attribute__((noinline)) static unsigned depth_of(const char* text, size_t size) {
  volatile char room[512];
  room[size % sizeof room] = text[0];
  const unsigned below = size > 1 && text[0] == '[' ? depth_of(text + 1, size - 1) : 0;
  return below + 1 + (unsigned)(room[size % sizeof room] == 0);
}

static hr_result bad_map_events(const hr_host* host, hr_session* self, const hr_record* record) {
  if (self->state != OPEN && self->state != EXITED) {
    return HR_E_STATE;
  }
  if (ZOO_ANIMAL == sleeps_in_map_events) {
    never_returns();
  }
#if defined(ZOO_THROWS)
  zoo_throw();
#endif
  hr_event event = {.struct_size = sizeof event, .kind = HR_EVENT_PROGRESS};
  char text[32];
  const int size = snprintf(text, sizeof text, "record %u", ++counter);
  if (ZOO_ANIMAL == remembers_records) {
    event.text = (hr_str){text, (size_t)size};
  }
  if (ZOO_ANIMAL == recurses && record->bytes.size != 0) {
    self->lines += depth_of(record->bytes.data, record->bytes.size);
  }
  if (ZOO_ANIMAL == not_utf8) {
    event.text = record->bytes;
  }
  return host->emit(host->ctx, &event);
}

static hr_result bad_exit(const hr_host* host, hr_session* self, const hr_exit* exit) {
  if (ZOO_ANIMAL == segfault_in_on_exit && self->state == OPEN) {
    (void)raise(SIGSEGV);
  }
  return on_exit_hook(host, self, exit);
}

static hr_result bad_end(const hr_host* host, hr_session* self) {
  if (self->state != EXITED) {
    return HR_E_STATE;
  }
  if (ZOO_ANIMAL == kills_itself_in_on_end) {
    (void)kill(getpid(), SIGKILL);
  }
  if (ZOO_ANIMAL == prints_in_on_end) {
    printf("the end\n");
  }
  if (ZOO_ANIMAL == no_verdict) {
    self->state = ENDED;
    return HR_OK;
  }
  return on_end(host, self);
}

static hr_result bad_snapshot(const hr_host* host, const hr_session* self) {
  if (ZOO_ANIMAL == writes_10_mib) {
    static const char block[4096];
    for (int i = 0; i < 2560; ++i) {
      if (write(1, block, sizeof block) != (ssize_t)sizeof block) {
        return HR_E_INTERNAL;
      }
    }
  }
  if (ZOO_ANIMAL == snapshot_after_end && self->state == ENDED) {
    return HR_E_STATE;
  }
  if (ZOO_ANIMAL == snapshot_differs) {
    char text[32];
    const int size = snprintf(text, sizeof text, "echo1 1 0 %u", counter++);
    return host->snapshot_bytes(host->ctx, (hr_str){text, (size_t)size});
  }
  return snapshot(host, self);
}

static hr_result bad_control(const hr_host* host, hr_session* self, const hr_control* request) {
  if (self->state == PLANNED) {
    return HR_OK;
  }
  return control(host, self, request);
}

static hr_result bad_timer(const hr_host* host, hr_session* self, uint32_t timer_id) {
  (void)host;
  (void)timer_id;
  if (self->state != OPEN) {
    return HR_E_STATE;
  }
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd >= 0) {
    (void)close(fd);
  }
  return HR_OK;
}

__attribute__((constructor)) static void constructor(void) {
  if (ZOO_ANIMAL == abort_in_constructor) {
    abort();
  }
  if (ZOO_ANIMAL == constructor_hangs) {
    never_returns();
  }
  if (ZOO_ANIMAL == constructor_connects) {
    (void)socket(AF_UNIX, SOCK_STREAM, 0);
  }
#if defined(ZOO_UNDEFINED)
  zoo_is_nowhere();
#endif
}

static bool is(int animal) {
  return ZOO_ANIMAL == animal;
}

HR_EXPORT const hr_adapter* hitchrail_adapter_entry(void) {
  static hr_adapter table;
  table = *sound_entry();
  if (is(thread_in_probe) || is(no_probe_step)) {
    table.probe = bad_probe;
  }
  if (is(closes_descriptors) || is(bad_probe_result)) {
    table.on_probe_step = bad_probe_step;
  }
  if (is(aborts_in_render) || is(render_differs)) {
    table.render = bad_render;
  }
  if (is(fork_in_launch) || is(exits_in_launch) || is(plan_differs) || is(plan_out_of_bounds) ||
      is(task_in_arguments)) {
    table.launch = bad_launch;
  }
  if (is(emits_in_reattach)) {
    table.reattach = bad_reattach;
  }
  if (is(sleeps_in_map_events) || is(throws_in_map_events) || is(remembers_records) || is(recurses) ||
      is(not_utf8)) {
    table.map_events = bad_map_events;
  }
  if (is(segfault_in_on_exit)) {
    table.on_exit = bad_exit;
  }
  if (is(kills_itself_in_on_end) || is(prints_in_on_end) || is(no_verdict)) {
    table.on_end = bad_end;
  }
  if (is(writes_10_mib) || is(snapshot_after_end) || is(snapshot_differs)) {
    table.snapshot = bad_snapshot;
  }
  if (is(control_in_planned)) {
    table.control = bad_control;
  }
  if (is(socket_in_on_timer)) {
    table.on_timer = bad_timer;
  }
  if (is(no_launch_hook)) {
    table.launch = NULL;
  }
  if (is(other_provider)) {
    table.provider_id = TEXT("somebody-else");
  }
  if (is(other_abi_in_table)) {
    table.abi_major = HR_ABI_MAJOR + 1;
  }
  if (is(small_table)) {
    table.struct_size = 64;
  }
  return is(null_table) ? NULL : &table;
}

#if defined(ZOO_SECOND_EXPORT)
HR_EXPORT int zoo_second_export(void) {
  return 1;
}
#endif
#if defined(ZOO_LARGE_NOTE)
__attribute__((section(HR_NOTE_SECTION), used, aligned(4))) static const struct {
  uint32_t name_size, desc_size, type;
  char name[12];
  char desc[1u << 20];
} zoo_large_note = {10u, 1u << 20, HR_NOTE_TYPE, HR_NOTE_NAME, {0}};
#endif
#if defined(ZOO_TWO_NOTES)
__attribute__((section(HR_NOTE_SECTION), used, aligned(4))) static const hr_note zoo_second_note = {
    10u, HR_NOTE_DESC_SIZE, HR_NOTE_TYPE, HR_NOTE_NAME, HR_ABI_MAJOR, HR_ABI_MINOR, "second", HR_SDK_VERSION};
#endif
#if defined(ZOO_TEXT_RELOCATION)
__asm__(".text\n.quad malloc\n");
#endif
