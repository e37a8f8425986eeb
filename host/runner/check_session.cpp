#include <array>

#include "runner/check_live.hpp"

namespace hitchrail::runner {

using plugins::Hook;
using plugins::SessionState;

namespace {

// In an allowed state an adapter may dislike the argument; it may not deny the state or blame itself.
bool is_sound_answer(hr_result result) {
  return result == HR_OK || result == HR_E_ARGUMENT || result == HR_E_UNSUPPORTED ||
         result == HR_E_PROTOCOL || result == HR_E_LIMIT;
}

hr_record record_of(std::string_view bytes, std::uint32_t stream = HR_STREAM_STDOUT,
                    std::uint32_t flags = HR_RECORD_REPLAYED, std::uint64_t offset = 0) {
  auto record = make<hr_record>();
  record.stream = stream;
  record.flags = flags;
  record.offset = offset;
  record.bytes = str(bytes);
  return record;
}

struct OddRecord {
  std::string bytes;
  std::uint32_t stream;
  std::uint32_t flags;
};
std::vector<OddRecord> odd_records() {
  constexpr std::size_t deep = 100'000;
  constexpr std::size_t large = 1u << 20;
  return {
      {"", HR_STREAM_STDOUT, 0},
      {"{}", HR_STREAM_STDOUT, 0},
      {"[]", HR_STREAM_STDOUT, 0},
      {"null", HR_STREAM_STDOUT, 0},
      {"{\"type\":", HR_STREAM_STDOUT, HR_RECORD_UNTERMINATED},
      {"{\"type\":\"\\u0000\",\"type\":1}", HR_STREAM_STDOUT, 0},
      {std::string("\0\xff\xfe\x80{", 5), HR_STREAM_STDOUT, 0},
      {std::string(deep, '['), HR_STREAM_STDOUT, 0},
      {std::string(large, 'a'), HR_STREAM_STDOUT, HR_RECORD_TRUNCATED},
      {"plain text", HR_STREAM_STDERR, 0},
      {"", HR_STREAM_FILE_FIRST, HR_RECORD_ABSENT},
      {"{\"type\":\"x\"}", HR_STREAM_FILE_FIRST, 0},
      {"?", 4242, 0},
  };
}

}  // namespace

// Any session hook with a plain argument; HR_OK for an optional hook the adapter lacks.
hr_result CheckWalk::invoke(Hook hook, hr_session* session) {
  const hr_host* host = host_.raw();
  return call(hook, [&]() -> hr_result {
    switch (hook) {
      case Hook::snapshot:
        return adapter_.snapshot(host, session);
      case Hook::map_events: {
        const hr_record record = record_of("{}");
        return adapter_.map_events(host, session, &record);
      }
      case Hook::on_exit: {
        auto exit = make<hr_exit>();
        exit.kind = HR_EXIT_CODE;
        return adapter_.on_exit(host, session, &exit);
      }
      case Hook::on_end:
        return adapter_.on_end(host, session);
      case Hook::control: {
        auto control = make<hr_control>();
        control.kind = HR_CONTROL_STEER;
        control.control_id = 1;
        control.text = str("And say it twice.");
        return adapter_.control == nullptr ? HR_OK : adapter_.control(host, session, &control);
      }
      case Hook::on_decision: {
        auto decision = make<hr_decision>();
        decision.decision = HR_DECISION_DENY;
        decision.approval_id = str("never-asked");
        return adapter_.on_decision == nullptr ? HR_OK : adapter_.on_decision(host, session, &decision);
      }
      case Hook::on_call_result: {
        auto result = make<hr_call_result>();
        result.outcome = HR_CALL_REFUSED;
        result.call_id = 4711;
        result.result_json = str("{}");
        return adapter_.on_call_result == nullptr ? HR_OK : adapter_.on_call_result(host, session, &result);
      }
      case Hook::on_timer:
        return adapter_.on_timer == nullptr ? HR_OK : adapter_.on_timer(host, session, 4711);
      case Hook::on_transport: {
        auto event = make<hr_transport_event>();
        event.kind = HR_TRANSPORT_OPEN;
        event.generation = 1;
        return adapter_.on_transport == nullptr ? HR_OK : adapter_.on_transport(host, session, &event);
      }
      default:
        return HR_E_INTERNAL;
    }
  });
}

// ---- the state table
// -----------------------------------------------------------------------------------------------

void CheckWalk::pair(SessionState state, Hook hook) {
  need(hook);
  LiveSession session(*this, state);
  if (hook == Hook::close) {
    session.close();
    return;
  }
  const hr_result result = invoke(hook, session.get());
  const std::string what = answered(hook, result, host_) + " in state " + plugins::state_name(state);
  const bool offered = !(hook == Hook::control && adapter_.control == nullptr) &&
                       !(hook == Hook::on_decision && adapter_.on_decision == nullptr) &&
                       !(hook == Hook::on_call_result && adapter_.on_call_result == nullptr) &&
                       !(hook == Hook::on_timer && adapter_.on_timer == nullptr) &&
                       !(hook == Hook::on_transport && adapter_.on_transport == nullptr);
  if (!offered) {
    return;
  }
  if (!plugins::pair_allowed(state, hook)) {
    if (result != HR_E_STATE) {
      fail(what + ", expected HR_E_STATE");
    }
    if (!host_.transcript().empty()) {
      fail(what + " after side effects: " + host_.transcript());
    }
    return;
  }
  if (!host_.fault().empty()) {
    fail(host_.fault());
  }
  const bool must_succeed = hook == Hook::snapshot || hook == Hook::on_exit || hook == Hook::on_end;
  if (must_succeed ? result != HR_OK : !is_sound_answer(result)) {
    fail(what);
  }
  if (hook == Hook::snapshot && host_.snapshots().size() != 1) {
    fail("snapshot gave " + std::to_string(host_.snapshots().size()) + " snapshots");
  }
}

void CheckWalk::snapshot_same() {
  LiveSession planned(*this, SessionState::planned);
  const std::string first = planned.take_snapshot();
  if (planned.take_snapshot() != first) {
    fail("the second snapshot of an unchanged session differs from the first");
  }
  LiveSession open(*this, first, HR_STATE_OPEN);
  if (open.take_snapshot() != first) {
    fail("the snapshot after reattach differs from the one it was made of");
  }
}

void CheckWalk::reattach_quiet() {
  LiveSession planned(*this, SessionState::planned);
  const std::string snapshot = planned.take_snapshot();
  LiveSession open(*this, snapshot, HR_STATE_OPEN);
  if (!host_.fault().empty()) {
    fail(host_.fault());
  }
}

void CheckWalk::reattach_broken() {
  for (const std::string_view bytes :
       {std::string_view(), std::string_view("\0\xff{", 3), std::string_view("{\"a\":[")}) {
    auto in = make<hr_reattach>();
    in.snapshot = str(bytes);
    in.state = HR_STATE_OPEN;
    hr_session* session = nullptr;
    const hr_result result =
        call(Hook::reattach, [&] { return adapter_.reattach(host_.raw(), &in, &session); });
    if (result == HR_OK && session != nullptr) {
      call(Hook::close, [&] {
        adapter_.close(session);
        return HR_OK;
      });
    } else if (result == HR_OK) {
      fail("reattach answered HR_OK and made no session");
    }
  }
}

// ---- records and the end
// ---------------------------------------------------------------------------------------------

void CheckWalk::records_any() {
  LiveSession planned(*this, SessionState::planned);
  const std::string snapshot = planned.take_snapshot();
  for (const OddRecord& odd : odd_records()) {
    LiveSession session(*this, snapshot,
                        odd.stream >= HR_STREAM_FILE_FIRST ? HR_STATE_EXITED : HR_STATE_OPEN);
    const hr_record record = record_of(odd.bytes, odd.stream, odd.flags);
    const hr_result result =
        call(Hook::map_events, [&] { return adapter_.map_events(host_.raw(), session.get(), &record); });
    if (!host_.fault().empty()) {
      fail(host_.fault());
    }
    if (!is_sound_answer(result)) {
      fail(answered(Hook::map_events, result, host_) + " for a record of " +
           std::to_string(odd.bytes.size()) + " bytes");
    }
  }
}

std::string CheckWalk::run_records() {
  std::string all;
  LiveSession planned(*this, SessionState::planned);
  const std::string snapshot = planned.take_snapshot();
  LiveSession session(*this, snapshot, HR_STATE_OPEN);
  std::uint64_t offset = 0;
  for (const OddRecord& odd : odd_records()) {
    if (odd.stream != HR_STREAM_STDOUT) {
      continue;
    }
    const hr_record record = record_of(odd.bytes, odd.stream, odd.flags, offset);
    offset += odd.bytes.size() + 1;
    const hr_result result =
        call(Hook::map_events, [&] { return adapter_.map_events(host_.raw(), session.get(), &record); });
    all += std::to_string(result) + "\n" + host_.transcript();
    if (result != HR_OK) {
      break;
    }
  }
  return all;
}

void CheckWalk::records_same() {
  if (run_records() != run_records()) {
    fail("the second run of the same records gave other callbacks");
  }
}

void CheckWalk::end_verdict() {
  LiveSession exited(*this, SessionState::exited);
  const hr_result result = invoke(Hook::on_end, exited.get());
  if (result != HR_OK) {
    skip("not reached: " + answered(Hook::on_end, result, host_));
  }
  if (host_.verdicts() != 1) {
    fail("on_end called finish " + std::to_string(host_.verdicts()) + " times");
  }
}

}  // namespace hitchrail::runner
