#include "driver.hpp"

namespace hitchrail::codex_cli::test {
namespace {

hr_str str(std::string_view text) {
  return {text.data(), text.size()};
}

Heard& heard(void* ctx) {
  return *static_cast<HostContext*>(ctx)->heard;
}

hr_result on_emit(void* ctx, const hr_event* event) {
  auto* context = static_cast<HostContext*>(ctx);
  Event out;
  out.kind = event->kind;
  out.flags = event->flags;
  out.kind_name = text_of(event->kind_name);
  out.provider_type = text_of(event->provider_type);
  out.item_id = text_of(event->item_id);
  out.summary = text_of(event->summary);
  out.text = text_of(event->text);
  out.fields = text_of(event->fields_json);
  if ((event->flags & HR_EVENT_RAW_RECORD) != 0) {
    out.raw = std::string(context->record);
  }
  context->heard->events.push_back(std::move(out));
  return HR_OK;
}

hr_result on_plan(void* ctx, const hr_plan* plan) {
  PlanCopy out;
  out.flags = plan->flags;
  out.transport = plan->transport;
  for (std::size_t i = 0; i < plan->argc; ++i) {
    out.argv.push_back(text_of(plan->argv[i]));
  }
  for (std::size_t i = 0; i < plan->env_count; ++i) {
    out.env.push_back({plan->env[i].source, text_of(plan->env[i].name), text_of(plan->env[i].value)});
  }
  out.streams.assign(plan->streams, plan->streams + plan->stream_count);
  for (std::size_t i = 0; i < plan->file_stream_count; ++i) {
    const hr_file_stream& file = plan->file_streams[i];
    out.file_streams.push_back(
        {file.stream, file.framing, file.record_cap, file.flags, text_of(file.pattern)});
  }
  for (std::size_t i = 0; i < plan->home_file_count; ++i) {
    out.home_files.push_back({text_of(plan->home_files[i].path), text_of(plan->home_files[i].bytes)});
  }
  out.stop.assign(plan->stop, plan->stop + plan->stop_count);
  for (std::size_t i = 0; i < plan->initial_input_count; ++i) {
    out.input += text_of(plan->initial_input[i].bytes);
  }
  heard(ctx).plan = std::move(out);
  return HR_OK;
}

hr_result on_finish(void* ctx, const hr_verdict* verdict) {
  heard(ctx).verdict = Verdict{verdict->status,
                               text_of(verdict->code),
                               text_of(verdict->summary),
                               text_of(verdict->error),
                               text_of(verdict->continuation_kind),
                               text_of(verdict->continuation_reference),
                               text_of(verdict->details_json)};
  return HR_OK;
}

hr_result on_probe_step(void* ctx, const hr_probe_step* step) {
  std::vector<std::string> argv;
  for (std::size_t i = 0; i < step->argc; ++i) {
    argv.push_back(text_of(step->argv[i]));
  }
  heard(ctx).probe_steps.push_back(std::move(argv));
  return HR_OK;
}

}  // namespace

std::string text_of(hr_str text) {
  return text.data == nullptr ? std::string() : std::string(text.data, text.size);
}

hr_host make_host(HostContext& context) {
  hr_host host{};
  host.struct_size = sizeof host;
  host.ctx = &context;
  host.log = [](void*, std::uint32_t, hr_str) {};
  host.fail = [](void* ctx, hr_str code, hr_str text) {
    heard(ctx).fail_code = text_of(code);
    heard(ctx).fail_text = text_of(text);
  };
  host.now_ms = [](void*) -> std::int64_t { return 1'700'000'000'000; };
  host.emit = on_emit;
  host.plan = on_plan;
  host.finish = on_finish;
  host.probe_step = on_probe_step;
  host.probe_result = [](void* ctx, hr_str json) {
    heard(ctx).probe_result = text_of(json);
    return HR_OK;
  };
  host.rendered = [](void* ctx, hr_str text) {
    heard(ctx).rendered = text_of(text);
    return HR_OK;
  };
  host.set_conversation = [](void* ctx, hr_str id) {
    heard(ctx).conversations.push_back(text_of(id));
    return HR_OK;
  };
  host.signal_leader = [](void* ctx, std::int32_t signal) {
    heard(ctx).signals.push_back(signal);
    return HR_OK;
  };
  host.control_result = [](void* ctx, std::uint64_t id, std::uint32_t outcome, hr_str) {
    heard(ctx).control_results.emplace_back(id, outcome);
    return HR_OK;
  };
  host.snapshot_bytes = [](void* ctx, hr_str bytes) {
    heard(ctx).snapshot = text_of(bytes);
    return HR_OK;
  };
  return host;
}

const PlanCopy::Env* PlanCopy::find_env(std::string_view name) const {
  for (const Env& entry : env) {
    if (entry.name == name) {
      return &entry;
    }
  }
  return nullptr;
}

std::string default_launch() {
  return R"({"profileId":"codex","worktree":"/srv/example","home":"/srv/home","temp":"/srv/temp",)"
         R"("providerSandbox":"delegated","credentials":["OPENAI_API_KEY"],"gateEndpoints":[]})";
}

Run::Run(std::string_view launch_json, std::uint32_t mode, bool reattach_always)
    : reattach_always_(reattach_always) {
  HostContext context{&heard, {}};
  const hr_host host = make_host(context);
  hr_launch_request request{};
  request.struct_size = sizeof request;
  request.mode = mode;
  request.launch_json = str(launch_json);
  request.request_text = str("the prompt");
  result = hitchrail_adapter_entry()->launch(&host, &request, &session_);
  if (result == HR_OK) {
    snapshot();
    reattach(HR_STATE_OPEN);
  }
}

Run::~Run() {
  if (session_ != nullptr) {
    hitchrail_adapter_entry()->close(session_);
  }
}

void Run::reattach(std::uint32_t state) {
  hitchrail_adapter_entry()->close(session_);
  session_ = nullptr;
  HostContext context{&heard, {}};
  const hr_host host = make_host(context);
  hr_reattach request{};
  request.struct_size = sizeof request;
  request.state = state;
  request.snapshot = str(heard.snapshot);
  result = hitchrail_adapter_entry()->reattach(&host, &request, &session_);
}

hr_result Run::after(hr_result outcome) {
  if (reattach_always_ && outcome == HR_OK) {
    snapshot();
    reattach(state_);
  }
  return outcome == HR_OK ? result : outcome;
}

hr_result Run::record(std::uint32_t stream, std::string_view bytes, std::uint32_t flags) {
  HostContext context{&heard, bytes};
  const hr_host host = make_host(context);
  hr_record record{};
  record.struct_size = sizeof record;
  record.stream = stream;
  record.flags = flags;
  record.offset = offset_;
  record.bytes = str(bytes);
  offset_ += bytes.size() + 1;
  return after(hitchrail_adapter_entry()->map_events(&host, session_, &record));
}

hr_result Run::exit(std::uint32_t kind, int value, bool stop_requested) {
  HostContext context{&heard, {}};
  const hr_host host = make_host(context);
  hr_exit exit{};
  exit.struct_size = sizeof exit;
  exit.kind = kind;
  exit.value = value;
  exit.stop_request = stop_requested ? 1 : 0;
  const hr_result outcome = hitchrail_adapter_entry()->on_exit(&host, session_, &exit);
  state_ = HR_STATE_EXITED;
  return after(outcome);
}

hr_result Run::control(std::uint64_t id, std::uint32_t kind) {
  HostContext context{&heard, {}};
  const hr_host host = make_host(context);
  hr_control control{};
  control.struct_size = sizeof control;
  control.kind = kind;
  control.control_id = id;
  return after(hitchrail_adapter_entry()->control(&host, session_, &control));
}

hr_result Run::end() {
  HostContext context{&heard, {}};
  const hr_host host = make_host(context);
  return hitchrail_adapter_entry()->on_end(&host, session_);
}

std::string Run::snapshot() {
  HostContext context{&heard, {}};
  const hr_host host = make_host(context);
  heard.snapshot.clear();
  if (hitchrail_adapter_entry()->snapshot(&host, session_) != HR_OK) {
    return {};
  }
  return heard.snapshot;
}

}  // namespace hitchrail::codex_cli::test
