// Callbacks of a live session, called from hooks of the test's own in this process.

#include "runner/session.hpp"

#include <hitchrail/adapter.h>

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "runner/config.hpp"

using namespace hitchrail;
using namespace hitchrail::runner;

namespace {

// What the running test wants its hooks to do.
struct Script {
  std::function<hr_result(const hr_host*)> map, exit, end, decision, call, timer, control;
  std::function<hr_result(const hr_host*)> reattach = [](const hr_host*) { return HR_OK; };
  std::function<hr_result(const hr_host*)> snapshot = [](const hr_host* host) {
    return host->snapshot_bytes(host->ctx, str("s"));
  };
};
Script script;
const hr_host* kept = nullptr;  // a host pointer used after its hook
int session_object = 0;

hr_result run(const std::function<hr_result(const hr_host*)>& body, const hr_host* host) {
  kept = host;
  return body ? body(host) : HR_OK;
}

hr_adapter table() {
  hr_adapter adapter{};
  adapter.struct_size = sizeof(adapter);
  adapter.abi_major = HR_ABI_MAJOR;
  adapter.reattach = [](const hr_host* host, const hr_reattach*, hr_session** out) {
    *out = reinterpret_cast<hr_session*>(&session_object);
    return run(script.reattach, host);
  };
  adapter.map_events = [](const hr_host* host, hr_session*, const hr_record*) {
    return run(script.map, host);
  };
  adapter.on_exit = [](const hr_host* host, hr_session*, const hr_exit*) { return run(script.exit, host); };
  adapter.on_end = [](const hr_host* host, hr_session*) { return run(script.end, host); };
  adapter.snapshot = [](const hr_host* host, const hr_session*) { return run(script.snapshot, host); };
  adapter.close = [](hr_session*) {};
  adapter.control = [](const hr_host* host, hr_session*, const hr_control*) {
    return run(script.control, host);
  };
  adapter.on_decision = [](const hr_host* host, hr_session*, const hr_decision*) {
    return run(script.decision, host);
  };
  adapter.on_call_result = [](const hr_host* host, hr_session*, const hr_call_result*) {
    return run(script.call, host);
  };
  adapter.on_timer = [](const hr_host* host, hr_session*, std::uint32_t) { return run(script.timer, host); };
  return adapter;
}

struct Bench {
  Bench() {
    script = Script();
    REQUIRE(session.reattach(HR_STATE_OPEN, "").has_value());
  }
  Status map(std::function<hr_result(const hr_host*)> body, std::string_view raw = "{}") {
    script.map = std::move(body);
    Cause cause;
    cause.origin.kind = journal::Origin::Kind::record;
    cause.origin.stream = 1;
    cause.origin.offset = 100;
    cause.unix_ms = 1234;
    cause.raw = raw;
    return session.map_events(cause, 0);
  }
  static Cause input(std::uint64_t id) {
    Cause cause;
    cause.origin.kind = journal::Origin::Kind::input;
    cause.origin.input = id;
    return cause;
  }
  hr_adapter adapter = table();
  wire::Current current{};
  Session session{adapter, current};
};

hr_event event(std::uint32_t kind, std::string_view text = "") {
  hr_event out{};
  out.struct_size = sizeof(out);
  out.kind = kind;
  out.text = str(text);
  return out;
}
hr_result emit(const hr_host* host, const hr_event& in) {
  return host->emit(host->ctx, &in);
}
hr_result send(const hr_host* host, std::string_view bytes) {
  const hr_part part{HR_PART_BYTES, 0, str(bytes)};
  return host->send(host->ctx, &part, 1);
}

}  // namespace

TEST_CASE("a callback outside a hook changes nothing") {
  Bench bench;
  REQUIRE(bench.map([](const hr_host*) { return HR_OK; }).has_value());
  CHECK(emit(kept, event(HR_EVENT_PROGRESS)) == HR_E_STATE);
  CHECK(send(kept, "x") == HR_E_STATE);
  CHECK(kept->close_input(kept->ctx) == HR_E_STATE);
  CHECK(kept->set_timer(kept->ctx, 1, 1) == HR_E_STATE);
  CHECK(kept->set_conversation(kept->ctx, str("c")) == HR_E_STATE);
  CHECK(kept->end_run(kept->ctx) == HR_E_STATE);
  CHECK(kept->now_ms(kept->ctx) == 0);
  kept->log(kept->ctx, HR_LOG_WARNING, str("late"));
  CHECK(bench.session.staged().empty());
  CHECK(bench.session.effects.quiet());
  CHECK(bench.session.state.conversation_id.empty());
}

TEST_CASE("callbacks of other hooks are refused in a session hook") {
  Bench bench;
  REQUIRE(bench
              .map([](const hr_host* host) {
                hr_verdict verdict{};
                verdict.struct_size = sizeof(verdict);
                verdict.status = HR_VERDICT_SUCCESS;
                CHECK(host->finish(host->ctx, &verdict) == HR_E_STATE);
                CHECK(host->snapshot_bytes(host->ctx, str("x")) == HR_E_STATE);
                CHECK(host->rendered(host->ctx, str("x")) == HR_E_STATE);
                CHECK(host->plan(host->ctx, nullptr) == HR_E_STATE);
                CHECK(host->probe_step(host->ctx, nullptr) == HR_E_STATE);
                CHECK(host->probe_result(host->ctx, str("{}")) == HR_E_STATE);
                CHECK(host->extension(host->ctx, str(HR_EXT_FS)) == nullptr);
                unsigned char random[4] = {1, 2, 3, 4};
                host->random(host->ctx, random, sizeof(random));
                CHECK((random[0] | random[1] | random[2] | random[3]) == 0);
                CHECK(host->now_ms(host->ctx) == 1234);
                return HR_OK;
              })
              .has_value());
}

TEST_CASE("reattach and snapshot may set nothing") {
  Bench bench;
  const auto nothing = [](const hr_host* host) {
    CHECK(emit(host, event(HR_EVENT_PROGRESS)) == HR_E_STATE);
    CHECK(send(host, "x") == HR_E_STATE);
    CHECK(host->set_turn(host->ctx, str("t")) == HR_E_STATE);
    CHECK(host->cancel_timer(host->ctx, 1) == HR_E_STATE);
    return HR_OK;
  };
  script.reattach = nothing;
  CHECK(bench.session.reattach(HR_STATE_OPEN, "").has_value());
  script.snapshot = [&](const hr_host* host) {
    nothing(host);
    CHECK(host->snapshot_bytes(host->ctx, str("one")) == HR_OK);
    CHECK(host->snapshot_bytes(host->ctx, str("two")) == HR_E_STATE);
    return HR_OK;
  };
  CHECK(bench.session.snapshot().value() == "one");
}

TEST_CASE("a snapshot over 1 MiB or none at all is a failing hook") {
  Bench bench;
  script.snapshot = [](const hr_host* host) {
    return host->snapshot_bytes(host->ctx, str(std::string(HR_MAX_SNAPSHOT + 1, 'x')));
  };
  CHECK(bench.session.snapshot().error().detail.find("HR_E_LIMIT") != std::string::npos);
  script.snapshot = [](const hr_host*) { return HR_OK; };
  CHECK(bench.session.snapshot().error().code == "adapter-hook-failed");
}

TEST_CASE("kinds that only the host writes and malformed events are refused") {
  Bench bench;
  REQUIRE(bench
              .map([](const hr_host* host) {
                hr_event named = event(HR_EVENT_NAMED);
                for (const char* kind :
                     {"run.completed", "approval.resolved", "control.result", "adapter.warning", "single",
                      "Upper.case", "a..b", "a.b-", "", "stream.stdout"}) {
                  INFO(kind);
                  named.kind_name = str(kind);
                  CHECK(emit(host, named) == HR_E_ARGUMENT);
                }
                named.kind_name = str("codex.todo-list");
                CHECK(emit(host, named) == HR_OK);
                CHECK(emit(host, event(HR_EVENT_KIND_COUNT)) == HR_E_ARGUMENT);
                CHECK(host->emit(host->ctx, nullptr) == HR_E_ARGUMENT);
                hr_event broken = event(HR_EVENT_PROGRESS);
                broken.fields_json = str("[1]");
                CHECK(emit(host, broken) == HR_E_ARGUMENT);
                broken.fields_json = str("{\"a\":1} x");
                CHECK(emit(host, broken) == HR_E_ARGUMENT);
                broken.fields_json = {nullptr, 5};
                CHECK(emit(host, broken) == HR_E_ARGUMENT);
                broken = event(HR_EVENT_PROGRESS);
                broken.flags = 1u << 20;
                CHECK(emit(host, broken) == HR_E_ARGUMENT);
                broken = event(HR_EVENT_PROGRESS);
                broken.text = {"x", HR_MAX_EVENT_PAYLOAD + std::size_t{1}};
                CHECK(emit(host, broken) == HR_E_LIMIT);
                return HR_OK;
              })
              .has_value());
  REQUIRE(bench.session.staged().size() == 1);
  CHECK(bench.session.staged()[0].kind == "codex.todo-list");
}

TEST_CASE("an event keeps what it was given, long ids hashed and odd times dropped") {
  Bench bench;
  REQUIRE(bench
              .map(
                  [](const hr_host* host) {
                    hr_event in = event(HR_EVENT_TOOL_STARTED, "text");
                    const std::string long_id(161, 'i');
                    in.flags = HR_EVENT_RAW_RECORD;
                    in.item_id = str(long_id);
                    in.provider_event_id = str("p");
                    in.provider_timestamp = str("yesterday");
                    in.turn_id = str("own");
                    CHECK(host->set_turn(host->ctx, str("sticky")) == HR_OK);
                    CHECK(emit(host, in) == HR_OK);
                    in.turn_id = {};
                    in.provider_timestamp = str("2026-01-02T03:04:05.5+01:00");
                    CHECK(emit(host, in) == HR_OK);
                    return HR_OK;
                  },
                  "{\"raw\":1}")
              .has_value());
  const auto staged = bench.session.staged();
  REQUIRE(staged.size() == 2);
  CHECK(staged[0].item_id.substr(0, 7) == "sha256_");
  CHECK(staged[0].item_id.size() == 71);
  CHECK(staged[0].raw == "{\"raw\":1}");
  CHECK(staged[0].turn_id == "own");
  CHECK(staged[0].provider_timestamp.empty());
  CHECK(staged[1].turn_id == "sticky");
  CHECK(staged[1].provider_timestamp == "2026-01-02T03:04:05.5+01:00");
  CHECK(staged[1].origin.ordinal == 1);
  CHECK(staged[1].origin.offset == 100);
}

TEST_CASE("an event struct of an older adapter is read as far as it goes") {
  Bench bench;
  REQUIRE(bench
              .map([](const hr_host* host) {
                hr_event in = event(HR_EVENT_PROGRESS, "beyond the old struct");
                in.struct_size = offsetof(hr_event, provider_type);
                CHECK(emit(host, in) == HR_OK);
                in.struct_size = 2;
                CHECK(emit(host, in) == HR_E_ARGUMENT);
                return HR_OK;
              })
              .has_value());
  REQUIRE(bench.session.staged().size() == 1);
  CHECK(bench.session.staged()[0].text.empty());
}

TEST_CASE("the outbox holds 4 MiB of one commit and no more") {
  Bench bench;
  REQUIRE(bench
              .map([](const hr_host* host) {
                const std::string half(2u << 20, 'x');
                CHECK(send(host, half) == HR_OK);
                CHECK(send(host, half) == HR_E_LIMIT);
                CHECK(send(host, "small") == HR_OK);
                const hr_part parts[2] = {{HR_PART_BYTES, 0, str("kept?")}, {9, 0, str("x")}};
                CHECK(host->send(host->ctx, parts, 2) == HR_E_ARGUMENT);
                const hr_part nameless{HR_PART_SECRET, HR_ENCODE_RAW, {}};
                CHECK(host->send(host->ctx, &nameless, 1) == HR_E_ARGUMENT);
                CHECK(host->send(host->ctx, nullptr, 1) == HR_E_ARGUMENT);
                return HR_OK;
              })
              .has_value());
  CHECK(bench.session.effects.outbox.size() == (2u << 20) + 5 + 2 * sizeof(wire::OutboxPart));
}

TEST_CASE("a failing callback leaves no half of a send behind") {
  Bench bench;
  REQUIRE(bench
              .map([](const hr_host* host) {
                const hr_part parts[2] = {{HR_PART_BYTES, 0, str("first")}, {HR_PART_SECRET, 77, str("KEY")}};
                return host->send(host->ctx, parts, 2) == HR_E_ARGUMENT ? HR_OK : HR_E_INTERNAL;
              })
              .has_value());
  CHECK(bench.session.effects.outbox.empty());
}

TEST_CASE("sixteen timers, eight signals of the permitted kind, sixty-four approvals") {
  Bench bench;
  REQUIRE(bench
              .map([](const hr_host* host) {
                for (std::uint32_t id = 0; id < HR_MAX_TIMERS; ++id) {
                  CHECK(host->set_timer(host->ctx, id, 1) == HR_OK);
                }
                CHECK(host->set_timer(host->ctx, 99, 1) == HR_E_LIMIT);
                CHECK(host->set_timer(host->ctx, 3, 5) == HR_OK);
                CHECK(host->cancel_timer(host->ctx, 3) == HR_OK);
                CHECK(host->set_timer(host->ctx, 99, 1) == HR_OK);
                CHECK(host->signal_leader(host->ctx, 9) == HR_E_ARGUMENT);
                for (int i = 0; i < 8; ++i) {
                  CHECK(host->signal_leader(host->ctx, 15) == HR_OK);
                }
                CHECK(host->signal_leader(host->ctx, 15) == HR_E_LIMIT);
                hr_approval approval{};
                approval.struct_size = sizeof(approval);
                approval.kind = 1;
                approval.action_json = str("{}");
                for (std::size_t i = 0; i < max_open_approvals; ++i) {
                  const std::string id = "a" + std::to_string(i);
                  approval.approval_id = str(id);
                  CHECK(host->request_approval(host->ctx, &approval) == HR_OK);
                  CHECK(host->request_approval(host->ctx, &approval) == HR_E_ARGUMENT);
                }
                approval.approval_id = str("more");
                CHECK(host->request_approval(host->ctx, &approval) == HR_E_LIMIT);
                CHECK(host->withdraw_approval(host->ctx, str("a0")) == HR_OK);
                CHECK(host->request_approval(host->ctx, &approval) == HR_OK);
                return HR_OK;
              })
              .has_value());
  CHECK(bench.session.staged().size() == max_open_approvals + 2);
}

TEST_CASE("a failing hook stages nothing that is given out") {
  Bench bench;
  const Status status = bench.map([](const hr_host* host) {
    CHECK(emit(host, event(HR_EVENT_PROGRESS)) == HR_OK);
    host->fail(host->ctx, str("first-reason"), str("this one"));
    host->fail(host->ctx, str("second-reason"), str("not this"));
    return HR_E_PROTOCOL;
  });
  REQUIRE(status.has_error());
  CHECK(status.error().code == "adapter-hook-failed");
  CHECK(status.error().operation == "map_events");
  CHECK(status.error().detail == "HR_E_PROTOCOL, first-reason: this one");
}

TEST_CASE("a refused call that calls again is stopped") {
  Bench bench;
  const auto again = [](const hr_host* host) {
    std::uint64_t id = 0;
    return host->call_service(host->ctx, str("hitchrail.fs/1"), str("read"), str("{}"), &id);
  };
  script.call = again;
  const Status status = bench.map(again);
  REQUIRE(status.has_error());
  CHECK(status.error().detail.find("HR_E_LIMIT") != std::string::npos);
}

TEST_CASE("after the exit nothing reaches for the harness") {
  Bench bench;
  const auto refused = [](const hr_host* host) {
    CHECK(send(host, "x") == HR_E_STATE);
    CHECK(host->close_input(host->ctx) == HR_E_STATE);
    CHECK(host->signal_leader(host->ctx, 15) == HR_E_STATE);
    CHECK(host->set_timer(host->ctx, 1, 1) == HR_E_STATE);
    CHECK(host->end_run(host->ctx) == HR_E_STATE);
    CHECK(host->cancel_timer(host->ctx, 1) == HR_OK);
    CHECK(emit(host, event(HR_EVENT_PROGRESS)) == HR_OK);
    return HR_OK;
  };
  REQUIRE(bench.map([](const hr_host* host) { return host->set_timer(host->ctx, 1, 1); }).has_value());
  script.exit = refused;
  REQUIRE(bench.session.on_exit(Bench::input(1), {}).has_value());
  CHECK(bench.session.exited);
  CHECK(bench.session.timers[0].armed == 0);
  CHECK(bench.map(refused).has_value());
}

TEST_CASE("the verdict is given once, at the end, and must be whole") {
  Bench bench;
  REQUIRE(bench.session.on_exit(Bench::input(1), {}).has_value());
  script.end = [](const hr_host* host) {
    hr_verdict verdict{};
    verdict.struct_size = sizeof(verdict);
    verdict.status = HR_VERDICT_FAILED;
    CHECK(host->finish(host->ctx, &verdict) == HR_E_ARGUMENT);  // no error
    verdict.error = str("why");
    verdict.code = str("Not Kebab");
    CHECK(host->finish(host->ctx, &verdict) == HR_E_ARGUMENT);
    verdict.code = str("turn-failed");
    verdict.continuation_kind = str("thread");
    CHECK(host->finish(host->ctx, &verdict) == HR_E_ARGUMENT);  // no reference
    verdict.continuation_reference = str("t1");
    const std::string summary(100'000, 's');
    verdict.summary = str(summary);
    CHECK(host->finish(host->ctx, &verdict) == HR_OK);
    CHECK(host->finish(host->ctx, &verdict) == HR_E_STATE);
    return HR_OK;
  };
  REQUIRE(bench.session.on_end(Bench::input(2)).has_value());
  REQUIRE(bench.session.staged().size() == 1);
  const auto& draft = bench.session.staged()[0];
  CHECK(draft.kind == "run.verdict");
  CHECK(draft.summary.size() == 64u << 10);
  CHECK(
      draft.fields_json ==
      R"({"status":"failed","code":"turn-failed","error":"why","continuation":{"kind":"thread","reference":"t1"},"summaryBytes":100000})");
}

TEST_CASE("warnings of an adapter are journaled, at most sixteen of one input") {
  Bench bench;
  REQUIRE(bench
              .map([](const hr_host* host) {
                host->log(host->ctx, HR_LOG_DEBUG, str("not this"));
                for (int i = 0; i < 20; ++i) {
                  host->log(host->ctx, HR_LOG_WARNING, str("look"));
                }
                return HR_OK;
              })
              .has_value());
  REQUIRE(bench.session.staged().size() == 16);
  CHECK(bench.session.staged()[0].fields_json == R"({"hook":"map_events","text":"look"})");
}

TEST_CASE("what runs is published around each hook") {
  Bench bench;
  REQUIRE(bench
              .map([&](const hr_host*) {
                CHECK(bench.current.busy.load() == wire::hook_map_events);
                CHECK(bench.current.stream == 1);
                CHECK(bench.current.offset == 100);
                return HR_OK;
              })
              .has_value());
  CHECK(bench.current.busy.load() == wire::hook_none);
  script.exit = [&](const hr_host*) {
    CHECK(bench.current.busy.load() == wire::hook_on_exit);
    CHECK(bench.current.stream == 0);
    CHECK(bench.current.input == 5);
    return HR_OK;
  };
  REQUIRE(bench.session.on_exit(Bench::input(5), {}).has_value());
  CHECK(bench.current.count == 3);
}

TEST_CASE("session state survives encoding, and nothing less than the whole is taken") {
  SessionState state;
  state.conversation_id = "th";
  state.turn_id = "t";
  state.last_call_id = 7;
  state.input_closed = true;
  state.open_approvals = {"a", std::string("b\0c", 3)};
  state.discard_start[3] = 99;
  const std::string bytes = encode_state(state) + "adapter";
  std::string_view rest = bytes;
  const auto back = decode_state(rest);
  REQUIRE(back.has_value());
  CHECK(rest == "adapter");
  CHECK(back.value().open_approvals == state.open_approvals);
  CHECK(back.value().discard_start == state.discard_start);
  CHECK(back.value().input_closed);
  for (std::size_t size = 0; size + 7 < bytes.size(); ++size) {
    std::string_view cut = std::string_view(bytes).substr(0, size);
    REQUIRE(decode_state(cut).has_error());
  }
}

TEST_CASE("the runner's configuration is read back and nothing unknown accepted") {
  RunnerConfig config;
  config.streams = {{1, 1, 1, 100}, {8, 3, 2, 5}};
  config.timers = {{4, 1000}};
  config.services = {"hitchrail.fs/1"};
  config.input_closed = true;
  config.journal.max_events = 9;
  const std::string text = to_json(config);
  const auto back = parse_config(text);
  REQUIRE(back.has_value());
  CHECK(to_json(back.value()) == text);
  CHECK(parse_config("{}").error().code == "runner-config-invalid");
  std::string unknown = text;
  unknown.insert(1, "\"extra\":1,");
  CHECK(parse_config(unknown).error().object == "extra");
}
