/* A whole adapter in C11: its harness is any program that prints lines and ends, /bin/cat among them. It
 * shows every hook and keeps no more state than the host can give back to it. Read it beside adapter.h. */
#include <hitchrail/adapter.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

HR_ADAPTER_NOTE("echo-c");

#define TEXT(literal) ((hr_str){literal, sizeof(literal) - 1})

/* States as in the table of adapter.h; the checker walks every pair. */
enum state { PLANNED, OPEN, EXITED, ENDED };

struct hr_probe {
  bool waiting; /* for the result of the one step */
};

struct hr_session {
  enum state state;
  uint32_t exit_kind;
  int32_t exit_value;
  uint64_t lines;
};

static hr_result refuse(const hr_host* host, hr_result result, hr_str code, hr_str text) {
  host->fail(host->ctx, code, text);
  return result;
}

/* ---- probe: one command, whose exit code 0 is all we ask ---- */
static hr_result probe(const hr_host* host, const hr_probe_request* request, hr_probe** out) {
  (void)request;
  const hr_str argv[] = {TEXT("--version")};
  const hr_probe_step step = {
      .struct_size = sizeof step, .kind = HR_STEP_COMMAND, .step_id = 1, .argv = argv, .argc = 1};
  hr_probe* made = calloc(1, sizeof *made);
  if (made == NULL) {
    return HR_E_LIMIT;
  }
  made->waiting = true;
  const hr_result asked = host->probe_step(host->ctx, &step);
  if (asked != HR_OK) {
    free(made);
    return asked;
  }
  *out = made;
  return HR_OK;
}

static hr_result on_probe_step(const hr_host* host, hr_probe* self, const hr_probe_step_result* result) {
  if (!self->waiting || result->step_id != 1) {
    return HR_E_STATE;
  }
  self->waiting = false;
  if (result->outcome != HR_STEP_EXITED || result->code != 0) {
    return refuse(host, HR_E_UNSUPPORTED, TEXT("provider-probe-failed"),
                  TEXT("the program did not end with exit code 0"));
  }
  return host->probe_result(
      host->ctx,
      TEXT("{\"providerVersion\":\"unknown\",\"protocolVersion\":\"lines/v1\",\"state\":\"degraded\","
           "\"capabilities\":[{\"id\":\"run.start\",\"state\":\"supported\","
           "\"reason\":\"the program is started with the request on its input\"}]}"));
}

static void probe_close(hr_probe* self) {
  free(self);
}

/* ---- plan ---- */
static hr_result render(const hr_host* host, const hr_render_request* request) {
  return host->rendered(host->ctx, request->envelope_json);
}

static hr_result launch(const hr_host* host, const hr_launch_request* request, hr_session** out) {
  if (request->mode != HR_LAUNCH_NEW) {
    return refuse(host, HR_E_UNSUPPORTED, TEXT("resume-unsupported"),
                  TEXT("a program of lines has no conversations"));
  }
  const hr_env env[] = {{.source = HR_ENV_HOME, .name = TEXT("HOME")},
                        {.source = HR_ENV_LITERAL, .name = TEXT("LC_ALL"), .value = TEXT("C.UTF-8")}};
  const hr_stream_spec streams[] = {{HR_STREAM_STDOUT, HR_FRAME_LINES, HR_OVERFLOW_TRUNCATE, 0},
                                    {HR_STREAM_STDERR, HR_FRAME_LINES, HR_OVERFLOW_TRUNCATE, 0}};
  const hr_part input[] = {{HR_PART_BYTES, 0, request->request_text}, {HR_PART_BYTES, 0, TEXT("\n")}};
  const hr_stop_step stop[] = {{.kind = HR_STOP_SIGNAL, .signal = 15 /* SIGTERM */, .wait_ms = 5000}};
  const hr_plan plan = {.struct_size = sizeof plan,
                        .flags = HR_PLAN_CLOSE_INPUT,
                        .transport = HR_TRANSPORT_STDIO,
                        .env = env,
                        .env_count = 2,
                        .streams = streams,
                        .stream_count = 2,
                        .initial_input = input,
                        .initial_input_count = 2,
                        .stop = stop,
                        .stop_count = 1};
  hr_session* made = calloc(1, sizeof *made);
  if (made == NULL) {
    return HR_E_LIMIT;
  }
  const hr_result planned = host->plan(host->ctx, &plan);
  if (planned != HR_OK) {
    free(made);
    return planned;
  }
  *out = made;
  return HR_OK;
}

/* ---- a session's memory: what a successor needs after a crash ---- */
static hr_result snapshot(const hr_host* host, const hr_session* self) {
  char text[80];
  const int size = snprintf(text, sizeof text, "echo1 %u %d %llu", (unsigned)self->exit_kind,
                            (int)self->exit_value, (unsigned long long)self->lines);
  return host->snapshot_bytes(host->ctx, (hr_str){text, (size_t)size});
}

static hr_result reattach(const hr_host* host, const hr_reattach* request, hr_session** out) {
  char text[80];
  unsigned kind = 0;
  int value = 0;
  unsigned long long lines = 0;
  if (request->snapshot.size >= sizeof text) {
    return refuse(host, HR_E_ARGUMENT, TEXT("snapshot-unknown"), TEXT("not a snapshot of this adapter"));
  }
  if (request->snapshot.size != 0) {
    memcpy(text, request->snapshot.data, request->snapshot.size);
  }
  text[request->snapshot.size] = '\0';
  if (sscanf(text, "echo1 %u %d %llu", &kind, &value, &lines) != 3) {
    return refuse(host, HR_E_ARGUMENT, TEXT("snapshot-unknown"), TEXT("not a snapshot of this adapter"));
  }
  hr_session* made = calloc(1, sizeof *made);
  if (made == NULL) {
    return HR_E_LIMIT;
  }
  made->state = request->state == HR_STATE_EXITED ? EXITED : OPEN;
  made->exit_kind = kind;
  made->exit_value = value;
  made->lines = lines;
  *out = made;
  return HR_OK;
}

static void close_session(hr_session* self) {
  free(self);
}

/* ---- records, the exit, the end ---- */
static hr_result map_events(const hr_host* host, hr_session* self, const hr_record* record) {
  if (self->state != OPEN && self->state != EXITED) {
    return HR_E_STATE;
  }
  const bool err = record->stream == HR_STREAM_STDERR;
  /* The record goes in by reference: it may be any bytes, and the host knows how to write those. */
  const hr_event event = {.struct_size = sizeof event,
                          .kind = err ? HR_EVENT_STREAM_STDERR : HR_EVENT_STREAM_STDOUT,
                          .flags = HR_EVENT_RAW_RECORD,
                          .provider_type = err ? TEXT("stderr") : TEXT("stdout")};
  self->lines += err ? 0 : 1;
  return host->emit(host->ctx, &event);
}

static hr_result on_exit_hook(const hr_host* host, hr_session* self, const hr_exit* exit) {
  (void)host;
  if (self->state != OPEN) {
    return HR_E_STATE;
  }
  self->state = EXITED;
  self->exit_kind = exit->kind;
  self->exit_value = exit->value;
  return HR_OK;
}

static hr_result on_end(const hr_host* host, hr_session* self) {
  if (self->state != EXITED) {
    return HR_E_STATE;
  }
  char text[64];
  const int size = snprintf(text, sizeof text, "%llu lines", (unsigned long long)self->lines);
  const bool good = self->exit_kind == HR_EXIT_CODE && self->exit_value == 0;
  hr_verdict verdict = {.struct_size = sizeof verdict,
                        .status = good ? HR_VERDICT_SUCCESS : HR_VERDICT_FAILED,
                        .summary = {text, (size_t)size}};
  if (!good) {
    verdict.code = TEXT("program-failed");
    verdict.error = TEXT("the program did not end with exit code 0");
  }
  const hr_result finished = host->finish(host->ctx, &verdict);
  if (finished == HR_OK) {
    self->state = ENDED;
  }
  return finished;
}

static hr_result control(const hr_host* host, hr_session* self, const hr_control* request) {
  if (self->state != OPEN) {
    return HR_E_STATE;
  }
  return host->control_result(host->ctx, request->control_id, HR_CONTROL_IMPOSSIBLE,
                              TEXT("the program takes one request"));
}

/* ---- the table ---- */
HR_EXPORT const hr_adapter* hitchrail_adapter_entry(void) {
  static const hr_adapter table = {.struct_size = sizeof table,
                                   .abi_major = HR_ABI_MAJOR,
                                   .abi_minor = HR_ABI_MINOR,
                                   .provider_id = {"echo-c", sizeof "echo-c" - 1},
                                   .display_name = {"Echo (C)", sizeof "Echo (C)" - 1},
                                   .version = {"1.0.0", sizeof "1.0.0" - 1},
                                   .probe = probe,
                                   .on_probe_step = on_probe_step,
                                   .probe_close = probe_close,
                                   .render = render,
                                   .launch = launch,
                                   .reattach = reattach,
                                   .map_events = map_events,
                                   .on_exit = on_exit_hook,
                                   .on_end = on_end,
                                   .snapshot = snapshot,
                                   .close = close_session,
                                   .control = control};
  return &table;
}
