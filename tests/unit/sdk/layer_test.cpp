#include <hitchrail/adapter.hpp>

#include <catch2/catch.hpp>
#include <new>
#include <stdexcept>

namespace {

namespace sdk = hitchrail::sdk;

// What each hook of the adapter under test does; set by the test case.
enum class Deed {
  nothing,
  throw_exception,
  throw_failure,
  throw_number,
  throw_out_of_memory,
  refused_callback
};
Deed deed = Deed::nothing;

void act(sdk::Host* host) {
  switch (deed) {
    case Deed::nothing:
      return;
    case Deed::throw_exception:
      throw std::runtime_error("broken thing");
    case Deed::throw_failure:
      throw sdk::Failure(HR_E_PROTOCOL, "bad-record", "no such type");
    case Deed::throw_number:
      throw 42;
    case Deed::throw_out_of_memory:
      throw std::bad_alloc();
    case Deed::refused_callback:
      host->set_turn("t");
      return;
  }
}

int live_sessions = 0;
int live_probes = 0;

class TestProbe : public sdk::Probe {
 public:
  TestProbe() { ++live_probes; }
  ~TestProbe() override { --live_probes; }
  void on_step(sdk::Host& host, const hr_probe_step_result& result) override {
    act(&host);
    if (result.step_id == 1) {
      host.probe_command(2, {"status"});
    } else {
      host.probe_result("{}");
    }
  }
};

class TestSession : public sdk::Session {
 public:
  TestSession() { ++live_sessions; }
  ~TestSession() override { --live_sessions; }
  void map_events(sdk::Host& host, const hr_record& record) override {
    act(&host);
    auto event = sdk::make<hr_event>();
    event.kind = HR_EVENT_PROGRESS;
    event.text = record.bytes;
    host.emit(event);
  }
  void on_exit(sdk::Host& host, const hr_exit&) override { act(&host); }
  void on_end(sdk::Host& host) override {
    act(&host);
    auto verdict = sdk::make<hr_verdict>();
    verdict.status = HR_VERDICT_SUCCESS;
    host.finish(verdict);
  }
  [[nodiscard]] std::string snapshot(sdk::Host& host) const override {
    act(&host);
    return "memory";
  }
  void control(sdk::Host& host, const hr_control& control) override {
    act(&host);
    Session::control(host, control);
  }
  void on_decision(sdk::Host& host, const hr_decision&) override { act(&host); }
  void on_call_result(sdk::Host& host, const hr_call_result&) override { act(&host); }
  void on_timer(sdk::Host& host, std::uint32_t) override { act(&host); }
  void on_transport(sdk::Host& host, const hr_transport_event&) override { act(&host); }
};

struct TestAdapter {
  static std::unique_ptr<sdk::Probe> probe(sdk::Host& host, const hr_probe_request&) {
    act(&host);
    host.probe_command(1, {"--version"});
    return std::make_unique<TestProbe>();
  }
  static std::string render(sdk::Host& host, const hr_render_request& request) {
    act(&host);
    return std::string(sdk::view(request.envelope_json));
  }
  static std::unique_ptr<sdk::Session> launch(sdk::Host& host, const hr_launch_request& request) {
    act(&host);
    sdk::Plan plan;
    plan.arg("exec").arg("-").env_home("HOME").env_from_host("PATH").env_literal("CI", "1");
    plan.stream(HR_STREAM_STDOUT, HR_FRAME_LINES)
        .input(sdk::view(request.request_text))
        .input_secret("API_KEY")
        .close_input();
    plan.stop_send("stop\n", 100).stop_close_input(200).stop_signal(15, 300).home_file("config", "text");
    CHECK(plan.file_stream("sessions/*.jsonl", HR_FRAME_LINES, HR_FILE_CARRY) == HR_STREAM_FILE_FIRST);
    CHECK(plan.file_stream("last", HR_FRAME_WHOLE) == HR_STREAM_FILE_FIRST + 1);
    host.plan(plan);
    return std::make_unique<TestSession>();
  }
  static std::unique_ptr<sdk::Session> reattach(sdk::Host& host, const hr_reattach&) {
    act(&host);
    return std::make_unique<TestSession>();
  }
};

constexpr hr_adapter table = sdk::make_adapter<TestAdapter>("test", "Test", "1.2.3");

// A host that answers HR_OK and remembers.
struct TestHost {
  TestHost() {
    raw.struct_size = sizeof raw;
    raw.ctx = this;
    raw.log = [](void*, std::uint32_t, hr_str) {};
    raw.fail = [](void* ctx, hr_str in_code, hr_str in_text) {
      self(ctx).code = sdk::view(in_code);
      self(ctx).text = sdk::view(in_text);
    };
    raw.now_ms = [](void*) -> std::int64_t { return 7; };
    raw.probe_step = [](void* ctx, const hr_probe_step* step) -> hr_result {
      ++self(ctx).calls;
      self(ctx).last_step = step->step_id;
      return HR_OK;
    };
    raw.probe_result = [](void* ctx, hr_str) -> hr_result { return count(ctx); };
    raw.rendered = [](void* ctx, hr_str in_text) -> hr_result {
      self(ctx).rendered = sdk::view(in_text);
      return count(ctx);
    };
    raw.plan = [](void* ctx, const hr_plan* plan) -> hr_result {
      self(ctx).take(*plan);
      return count(ctx);
    };
    raw.emit = [](void* ctx, const hr_event*) -> hr_result { return count(ctx); };
    raw.control_result = [](void* ctx, std::uint64_t, std::uint32_t outcome, hr_str) -> hr_result {
      self(ctx).control_outcome = outcome;
      return count(ctx);
    };
    raw.set_turn = [](void*, hr_str) -> hr_result { return HR_E_LIMIT; };
    raw.finish = [](void* ctx, const hr_verdict*) -> hr_result { return count(ctx); };
    raw.snapshot_bytes = [](void* ctx, hr_str bytes) -> hr_result {
      self(ctx).snapshot = sdk::view(bytes);
      return count(ctx);
    };
  }
  static TestHost& self(void* ctx) { return *static_cast<TestHost*>(ctx); }
  static hr_result count(void* ctx) {
    ++self(ctx).calls;
    return HR_OK;
  }
  void take(const hr_plan& plan) {
    for (std::size_t i = 0; i < plan.argc; ++i) {
      argv.emplace_back(sdk::view(plan.argv[i]));
    }
    stop_count = plan.stop_count;
    stop_text = sdk::view(plan.stop[0].parts[0].bytes);
    input = std::string(sdk::view(plan.initial_input[0].bytes));
    input_kinds = {plan.initial_input[0].kind, plan.initial_input[1].kind};
    env_count = plan.env_count;
  }
  hr_host raw{};
  int calls = 0;
  std::uint32_t last_step = 0, control_outcome = 0;
  std::string code, text, rendered, snapshot, input, stop_text;
  std::vector<std::string> argv;
  std::vector<std::uint32_t> input_kinds;
  std::size_t stop_count = 0, env_count = 0;
};

hr_session* open_session(TestHost& host, std::uint32_t state = HR_STATE_OPEN) {
  deed = Deed::nothing;
  auto in = sdk::make<hr_reattach>();
  in.state = state;
  hr_session* session = nullptr;
  REQUIRE(table.reattach(&host.raw, &in, &session) == HR_OK);
  return session;
}

// Every hook of a session in the open state (on_end: exited), by name.
struct NamedHook {
  const char* name;
  std::uint32_t state;
  std::function<hr_result(const hr_host*, hr_session*)> call;
};
std::vector<NamedHook> session_hooks() {
  static auto record = sdk::make<hr_record>();
  static auto exit = sdk::make<hr_exit>();
  static auto control = sdk::make<hr_control>();
  static auto decision = sdk::make<hr_decision>();
  static auto result = sdk::make<hr_call_result>();
  static auto event = sdk::make<hr_transport_event>();
  return {
      {"map_events", HR_STATE_OPEN, [](auto* h, auto* s) { return table.map_events(h, s, &record); }},
      {"on_exit", HR_STATE_OPEN, [](auto* h, auto* s) { return table.on_exit(h, s, &exit); }},
      {"on_end", HR_STATE_EXITED, [](auto* h, auto* s) { return table.on_end(h, s); }},
      {"snapshot", HR_STATE_OPEN, [](auto* h, auto* s) { return table.snapshot(h, s); }},
      {"control", HR_STATE_OPEN, [](auto* h, auto* s) { return table.control(h, s, &control); }},
      {"on_decision", HR_STATE_OPEN, [](auto* h, auto* s) { return table.on_decision(h, s, &decision); }},
      {"on_call_result", HR_STATE_OPEN, [](auto* h, auto* s) { return table.on_call_result(h, s, &result); }},
      {"on_timer", HR_STATE_OPEN, [](auto* h, auto* s) { return table.on_timer(h, s, 1); }},
      {"on_transport", HR_STATE_OPEN, [](auto* h, auto* s) { return table.on_transport(h, s, &event); }},
  };
}

struct Expected {
  Deed deed;
  hr_result result;
  const char* code;
  const char* text;
};
const Expected expectations[] = {
    {Deed::throw_exception, HR_E_INTERNAL, "adapter-exception", "broken thing"},
    {Deed::throw_failure, HR_E_PROTOCOL, "bad-record", "no such type"},
    {Deed::throw_number, HR_E_INTERNAL, "adapter-exception",
     "something that is not a std::exception was thrown"},
    {Deed::throw_out_of_memory, HR_E_LIMIT, "adapter-out-of-memory", "out of memory"},
    {Deed::refused_callback, HR_E_LIMIT, "callback-refused", "set_turn answered HR_E_LIMIT"},
};

TEST_CASE("whatever a session hook throws stays inside, and the host hears which hook it was") {
  for (const Expected& expected : expectations) {
    for (const NamedHook& hook : session_hooks()) {
      TestHost host;
      hr_session* session = open_session(host, hook.state);
      deed = expected.deed;
      INFO(hook.name << ": " << expected.code);
      CHECK(hook.call(&host.raw, session) == expected.result);
      CHECK(host.code == expected.code);
      CHECK(host.text == std::string(hook.name) + ": " + expected.text);
      table.close(session);
    }
  }
  CHECK(live_sessions == 0);
}

TEST_CASE("whatever a probe or plan hook throws stays inside, and no object is left behind") {
  for (const Expected& expected : expectations) {
    TestHost host;
    deed = expected.deed;
    const auto probe_request = sdk::make<hr_probe_request>();
    const auto render_request = sdk::make<hr_render_request>();
    const auto launch_request = sdk::make<hr_launch_request>();
    auto reattach_request = sdk::make<hr_reattach>();
    reattach_request.state = HR_STATE_OPEN;
    hr_probe* probe = nullptr;
    hr_session* session = nullptr;
    CHECK(table.probe(&host.raw, &probe_request, &probe) == expected.result);
    CHECK(host.text == std::string("probe: ") + expected.text);
    CHECK(table.render(&host.raw, &render_request) == expected.result);
    CHECK(host.text == std::string("render: ") + expected.text);
    CHECK(table.launch(&host.raw, &launch_request, &session) == expected.result);
    CHECK(host.text == std::string("launch: ") + expected.text);
    CHECK(table.reattach(&host.raw, &reattach_request, &session) == expected.result);
    CHECK(host.text == std::string("reattach: ") + expected.text);
    CHECK(probe == nullptr);
    CHECK(session == nullptr);
  }
  deed = Deed::nothing;
  CHECK(live_sessions == 0);
  CHECK(live_probes == 0);
}

TEST_CASE("every pair outside the state table is answered HR_E_STATE before the adapter sees it") {
  deed = Deed::nothing;
  TestHost host;
  const auto request = sdk::make<hr_launch_request>();
  hr_session* planned = nullptr;
  REQUIRE(table.launch(&host.raw, &request, &planned) == HR_OK);
  const auto wrong = [&](hr_session* session, std::initializer_list<std::string_view> allowed) {
    for (const NamedHook& hook : session_hooks()) {
      if (std::find(allowed.begin(), allowed.end(), hook.name) == allowed.end()) {
        const int before = host.calls;
        deed = Deed::throw_exception;  // would be noticed
        INFO(hook.name);
        CHECK(hook.call(&host.raw, session) == HR_E_STATE);
        CHECK(host.calls == before);
        deed = Deed::nothing;
      }
    }
  };
  wrong(planned, {"snapshot"});
  table.close(planned);
  hr_session* session = open_session(host);
  wrong(session, {"map_events", "control", "on_decision", "on_call_result", "on_timer", "on_transport",
                  "on_exit", "snapshot"});
  const auto exit = sdk::make<hr_exit>();
  REQUIRE(table.on_exit(&host.raw, session, &exit) == HR_OK);
  wrong(session, {"map_events", "on_end", "snapshot"});
  REQUIRE(table.on_end(&host.raw, session) == HR_OK);
  wrong(session, {"snapshot"});
  table.close(session);
  CHECK(live_sessions == 0);
}

TEST_CASE("a hook that fails does not change the state") {
  TestHost host;
  hr_session* session = open_session(host);
  const auto exit = sdk::make<hr_exit>();
  deed = Deed::throw_exception;
  CHECK(table.on_exit(&host.raw, session, &exit) == HR_E_INTERNAL);
  deed = Deed::nothing;
  CHECK(table.on_end(&host.raw, session) == HR_E_STATE);
  CHECK(table.on_exit(&host.raw, session, &exit) == HR_OK);
  table.close(session);
}

TEST_CASE("a probe's results are taken in the order asked for and no other") {
  TestHost host;
  deed = Deed::nothing;
  const auto request = sdk::make<hr_probe_request>();
  hr_probe* probe = nullptr;
  REQUIRE(table.probe(&host.raw, &request, &probe) == HR_OK);
  auto result = sdk::make<hr_probe_step_result>();
  result.step_id = 2;
  CHECK(table.on_probe_step(&host.raw, probe, &result) == HR_E_STATE);
  result.step_id = 1;
  CHECK(table.on_probe_step(&host.raw, probe, &result) == HR_OK);
  CHECK(host.last_step == 2);
  CHECK(table.on_probe_step(&host.raw, probe, &result) == HR_E_STATE);
  result.step_id = 2;
  CHECK(table.on_probe_step(&host.raw, probe, &result) == HR_OK);
  CHECK(table.on_probe_step(&host.raw, probe, &result) == HR_E_STATE);
  table.probe_close(probe);
  CHECK(live_probes == 0);
}

TEST_CASE("the plan that was collected is the plan that the host sees") {
  TestHost host;
  deed = Deed::nothing;
  auto request = sdk::make<hr_launch_request>();
  request.request_text = sdk::str("do it");
  hr_session* session = nullptr;
  REQUIRE(table.launch(&host.raw, &request, &session) == HR_OK);
  CHECK(host.argv == std::vector<std::string>{"exec", "-"});
  CHECK(host.input == "do it");
  CHECK(host.input_kinds == std::vector<std::uint32_t>{HR_PART_BYTES, HR_PART_SECRET});
  CHECK(host.stop_count == 3);
  CHECK(host.stop_text == "stop\n");
  CHECK(host.env_count == 3);
  table.close(session);
}

TEST_CASE("structs of an older minor read as zero where they end, of a newer one up to what is known") {
  struct Newer {
    hr_exit known;
    std::uint64_t later;
  } newer{};
  newer.known.struct_size = sizeof newer;
  newer.known.kind = HR_EXIT_SIGNAL;
  newer.later = ~0ULL;
  const hr_exit cut = sdk::read(&newer.known);
  CHECK(cut.kind == HR_EXIT_SIGNAL);
  CHECK(cut.struct_size == sizeof(hr_exit));
  hr_exit older{};
  older.struct_size = offsetof(hr_exit, value);
  older.kind = HR_EXIT_CODE;
  older.value = 99;  // beyond what its maker knew
  CHECK(sdk::read(&older).value == 0);
  CHECK(sdk::read<hr_exit>(nullptr).kind == 0);
}

TEST_CASE("a callback that the host does not have is never called") {
  TestHost host;
  host.raw.struct_size = offsetof(hr_host, emit);  // an older host
  hr_session* session = nullptr;
  auto in = sdk::make<hr_reattach>();
  in.state = HR_STATE_OPEN;
  REQUIRE(table.reattach(&host.raw, &in, &session) == HR_OK);
  const auto record = sdk::make<hr_record>();
  CHECK(table.map_events(&host.raw, session, &record) == HR_E_UNSUPPORTED);
  CHECK(host.code == "host-lacks-callback");
  CHECK(host.text == "map_events: this host has no callback emit");
  host.raw.struct_size = sizeof host.raw;
  host.raw.end_run = nullptr;
  sdk::Host view(&host.raw);
  CHECK_THROWS_AS(view.end_run(), sdk::Failure);
  table.close(session);
}

TEST_CASE("a control that an adapter does not know is answered as impossible") {
  TestHost host;
  hr_session* session = open_session(host);
  auto control = sdk::make<hr_control>();
  control.control_id = 9;
  CHECK(table.control(&host.raw, session, &control) == HR_OK);
  CHECK(host.control_outcome == HR_CONTROL_IMPOSSIBLE);
  table.close(session);
}

TEST_CASE("null arguments are answered, not followed") {
  TestHost host;
  const auto in = sdk::make<hr_launch_request>();
  hr_session* session = nullptr;
  CHECK(table.launch(&host.raw, nullptr, &session) == HR_E_ARGUMENT);
  CHECK(table.launch(&host.raw, &in, nullptr) == HR_E_ARGUMENT);
  CHECK(table.launch(nullptr, &in, &session) == HR_E_ARGUMENT);
  CHECK(table.snapshot(&host.raw, nullptr) == HR_E_ARGUMENT);
  CHECK(table.on_end(&host.raw, nullptr) == HR_E_ARGUMENT);
  table.close(nullptr);
  table.probe_close(nullptr);
}

}  // namespace
