#include "runner/loop.hpp"

#include <malloc.h>

#include <cstring>
#include <utility>

#include "core/json.hpp"
#include "runner/egress.hpp"
#include "shim/slot.hpp"

namespace hitchrail::runner {

namespace {

// A batch ends at the first of these, or when nothing more is waiting: one sync then pays for many records.
constexpr std::size_t max_batch_records = 4096;
constexpr std::size_t max_batch_bytes = 2u << 20;

constexpr std::size_t trim_after = 1u << 20;  // bytes mapped since memory was last given back

constexpr std::uint32_t dropped_ordinal =
    0x80000000;  // of the event that counts what a truncated record lost

Error invalid(std::string detail) {
  return {ErrorClass::internal, "frame-invalid", "receive", "shim", std::move(detail), ""};
}

std::string stream_name(std::uint64_t stream) {
  switch (stream) {
    case HR_STREAM_STDOUT:
      return "stdout";
    case HR_STREAM_STDERR:
      return "stderr";
    case HR_STREAM_TRANSPORT:
      return "transport";
    default:
      return "file-" + std::to_string(stream - HR_STREAM_FILE_FIRST);
  }
}

StreamConfig config_of(const RunnerConfig& config, std::uint32_t stream) {
  for (const auto& candidate : config.streams) {
    if (candidate.stream == stream) {
      return candidate;
    }
  }
  return {stream, HR_FRAME_CHUNKS, HR_OVERFLOW_TRUNCATE, 64u << 10};
}

}  // namespace

Loop::Loop(wire::SharedState& area, const RunnerConfig& config, const hr_adapter& adapter,
           journal::Writer& writer, Frames& frames, std::vector<Fd> rings)
    : area_(area), config_(config), writer_(writer), frames_(frames), session_(adapter, area.current) {
  for (std::size_t i = 0; i < rings.size(); ++i) {
    const std::uint32_t id = area.streams[i];
    streams_.push_back({id, Framer(config_of(config, id)), Window(std::move(rings[i]))});
  }
  // The predecessor's last words: only a crash leaves a hook in `busy`.
  if (area.restarts > 0 && area.current.busy.load(std::memory_order_acquire) != wire::hook_none) {
    crash_ = CrashPoint{area.current.stream, area.current.offset, area.current.input};
  }
}

Status Loop::reattach() {
  const std::uint64_t generation = area_.published.load(std::memory_order_acquire);
  if (!wire::read_slot(&area_, generation, published_)) {
    return Error{ErrorClass::internal,
                 "slot-damaged",
                 "read state area",
                 "slot",
                 "the published slot does not verify",
                 ""};
  }
  std::string_view snapshot(static_cast<const char*>(wire::slot_snapshot_bytes(&area_, generation)),
                            published_.snapshot_size);
  if (generation > 1) {
    HR_TRY(state, decode_state(snapshot));
    session_.state = std::move(state);
  }
  last_input_ = published_.last_input;
  session_state_ = published_.session_state;
  session_.action = published_.action;
  std::copy(std::begin(published_.timers), std::end(published_.timers), session_.timers.begin());
  session_.input_closed = config_.input_closed || session_.state.input_closed;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const wire::StreamPosition& position = published_.streams[i];
    streams_[i].framer.restore(position.mapped, position.discarding != 0, session_.state.discard_start[i]);
    streams_[i].arrived = position.mapped;
    streams_[i].ended = streams_[i].eof = position.ended != 0;
  }
  if (session_state_ == 2) {
    return {};
  }
  HR_CHECK(session_.reattach(session_state_ == 0 ? HR_STATE_OPEN : HR_STATE_EXITED, snapshot));
  if (generation == 1) {
    for (const auto& timer : config_.timers) {
      session_.arm(timer.id, timer.after_ms);
      dirty_ = true;
    }
  }
  return {};
}

Status Loop::run() {
  while (session_state_ != 2) {
    if (frames_.empty()) {
      HR_CHECK(frames_.fill(false));
    }
    if (frames_.empty()) {
      // Nothing waits: what there is becomes durable at once, and memory of a burst goes back before the
      // sleep.
      HR_CHECK(commit());
      if (unreturned_bytes_ >= trim_after) {
        ::malloc_trim(0);
        unreturned_bytes_ = 0;
      }
      HR_CHECK(frames_.fill(true));
      continue;
    }
    const Message message = frames_.take();
    if (Status status = handle(message); status.has_error()) {
      // What precedes the failed input is evidence; the adapter's state is not, so nothing is published.
      const auto kept = writer_.commit();
      // A writer that failed a moment ago can only say that it is dead: why is what the shim must hear.
      return kept.has_error() && kept.error().code != "journal-writer-dead" ? kept.error() : status.error();
    }
  }
  HR_CHECK(commit());
  session_.close();
  return {};
}

Loop::Stream* Loop::find(std::uint64_t id) {
  for (auto& stream : streams_) {
    if (stream.id == id) {
      return &stream;
    }
  }
  return nullptr;
}

Status Loop::handle(const Message& message) {
  const wire::Frame& frame = message.frame;
  if (frame.type == wire::frame_input) {
    return input(message);
  }
  if (frame.type != wire::frame_arrived && frame.type != wire::frame_eof) {
    return invalid("an unknown frame type");
  }
  Stream* stream = find(frame.a & 0xFFFFFFFFu);
  if (stream == nullptr) {
    return invalid("a frame for a stream that has no ring");
  }
  if (stream->eof || frame.b < stream->arrived) {
    return {};  // covered by the slot this runner began with
  }
  stream->arrived = frame.b;
  if (frame.type == wire::frame_eof) {
    const std::uint64_t flags = frame.a >> 32;
    stream->eof = true;
    stream->end_flags = ((flags & wire::eof_absent) != 0 ? HR_RECORD_ABSENT : 0u) |
                        ((flags & wire::eof_truncated) != 0 ? HR_RECORD_TRUNCATED : 0u);
  }
  return pump(*stream, frame.unix_ms);
}

Status Loop::pump(Stream& stream, std::int64_t unix_ms) {
  for (;;) {
    HR_TRY(bytes, stream.window.view(stream.framer.position(), stream.arrived));
    const std::uint64_t before = stream.framer.position();
    const Framer::Step step = stream.framer.next(bytes, stream.eof, stream.end_flags);
    dirty_ = dirty_ || stream.framer.position() != before;
    switch (step) {
      case Framer::Step::record:
        HR_CHECK(map(stream, unix_ms));
        break;
      case Framer::Step::dropped:
        HR_CHECK(note_dropped(stream, unix_ms));
        break;
      case Framer::Step::more:
        return {};
      case Framer::Step::done:
        stream.ended = true;
        dirty_ = true;
        return {};
      case Framer::Step::too_long:
        return Error{ErrorClass::failed,
                     "record-too-long",
                     "map_events",
                     stream_name(stream.id),
                     "a record at offset " + std::to_string(stream.framer.position()) +
                         " is longer than the stream allows",
                     ""};
      case Framer::Step::malformed:
        return Error{ErrorClass::failed,
                     "framing-invalid",
                     "map_events",
                     stream_name(stream.id),
                     "no frame at offset " + std::to_string(stream.framer.position()),
                     ""};
    }
  }
}

Status Loop::map(Stream& stream, std::int64_t unix_ms) {
  const Record record = stream.framer.record();
  Cause cause;
  cause.origin.kind = journal::Origin::Kind::record;
  cause.origin.stream = stream.id;
  cause.origin.offset = record.offset;
  cause.unix_ms = unix_ms;
  cause.size = record.end - record.offset;
  cause.raw = record.bytes;
  if (crash_) {
    HR_CHECK(before_hook(cause));
  }
  HR_CHECK(session_.map_events(cause, record.flags));
  HR_CHECK(deliver(unix_ms));
  stream.framer.accept();
  // Together with the last record: a successor must not frame the end of the stream a second time.
  stream.ended = stream.framer.finished();
  const auto index = static_cast<std::size_t>(&stream - streams_.data());
  session_.state.discard_start[index] = stream.framer.discard_start();
  ++batch_records_;
  batch_bytes_ += cause.size;
  unreturned_bytes_ += cause.size;
  if (batch_records_ >= max_batch_records || batch_bytes_ >= max_batch_bytes || !session_.effects.quiet()) {
    return commit();
  }
  return {};
}

Status Loop::note_dropped(const Stream& stream, std::int64_t unix_ms) {
  const Dropped& dropped = stream.framer.dropped();
  journal::Draft draft;
  draft.kind = "stream.record-truncated";
  draft.origin.kind = journal::Origin::Kind::record;
  draft.origin.stream = stream.id;
  draft.origin.offset = dropped.offset;
  draft.origin.ordinal = dropped_ordinal;
  draft.session_id = session_.state.conversation_id;
  draft.system = true;
  const std::string fields = R"({"stream":")" + stream_name(stream.id) + R"(","offset":)" +
                             std::to_string(dropped.offset) + R"(,"droppedBytes":)" +
                             std::to_string(dropped.bytes) + "}";
  draft.fields_json = fields;
  dirty_ = true;
  return writer_.append(draft, unix_ms);
}

Status Loop::before_hook(const Cause& cause) {
  const bool record = cause.origin.kind == journal::Origin::Kind::record;
  const bool here = record ? crash_->stream == cause.origin.stream && crash_->offset == cause.origin.offset
                           : crash_->input != 0 && crash_->input == cause.origin.input;
  if (!here) {
    return {};
  }
  crash_.reset();
  return commit();
}

Status Loop::deliver(std::int64_t unix_ms) {
  dirty_ = true;
  for (const auto& draft : session_.staged()) {
    HR_CHECK(writer_.append(draft, unix_ms));
  }
  return {};
}

Status Loop::input(const Message& message) {
  const wire::Frame& frame = message.frame;
  if (frame.a <= last_input_) {
    return {};
  }
  Cause cause;
  cause.origin.kind = journal::Origin::Kind::input;
  cause.origin.input = frame.a;
  cause.unix_ms = frame.unix_ms;
  cause.size = frame.size;
  if (crash_) {
    HR_CHECK(before_hook(cause));
  }
  session_.begin(cause);
  const std::string_view payload = message.payload;
  switch (frame.b) {
    case wire::input_control:
      HR_CHECK(control_input(cause, payload));
      break;
    case wire::input_decision:
      HR_CHECK(decision_input(cause, payload));
      break;
    case wire::input_timer: {
      wire::TimerInput timer;
      if (payload.size() < sizeof(timer)) {
        return invalid("a timer input is too short");
      }
      std::memcpy(&timer, payload.data(), sizeof(timer));
      HR_CHECK(session_.on_timer(cause, timer.id, timer.action));
      break;
    }
    case wire::input_exit:
      HR_CHECK(exit_input(cause, payload));
      session_state_ = 1;
      break;
    case wire::input_end:
      HR_CHECK(session_.on_end(cause));
      session_state_ = 2;
      break;
    case wire::input_blocked: {
      std::uint64_t stream = 0;
      if (payload.size() < sizeof(stream)) {
        return invalid("a blocked input is too short");
      }
      std::memcpy(&stream, payload.data(), sizeof(stream));
      session_.stage_host("stream.output-blocked", R"({"stream":")" + stream_name(stream) + "\"}");
      break;
    }
    case wire::input_egress:
      if (const EgressEvent event = egress_event(payload); !event.kind.empty()) {
        session_.stage_host(event.kind, event.fields);
      }
      break;
    default:
      break;  // of a newer shim, or an answer nobody asked for: numbered, so it must be passed
  }
  HR_CHECK(deliver(frame.unix_ms));
  last_input_ = frame.a;
  return session_.effects.quiet() ? Status{} : commit();
}

Status Loop::exit_input(const Cause& cause, std::string_view payload) {
  wire::ExitInput in;
  if (payload.size() < sizeof(in)) {
    return invalid("an exit input is too short");
  }
  std::memcpy(&in, payload.data(), sizeof(in));
  hr_exit exit{};
  exit.struct_size = sizeof(exit);
  exit.kind = in.kind == wire::kind_code || in.kind == wire::kind_signal ? in.kind : HR_EXIT_UNKNOWN;
  exit.value = in.value;
  exit.stop_request = in.stop_requested != 0 ? 1 : 0;
  return session_.on_exit(cause, exit);
}

Status Loop::control_input(const Cause& cause, std::string_view payload) {
  wire::ControlInput in;
  if (payload.size() < sizeof(in)) {
    return invalid("a control input is too short");
  }
  std::memcpy(&in, payload.data(), sizeof(in));
  payload.remove_prefix(sizeof(in));
  if (payload.size() < std::uint64_t{in.name_size} + in.text_size) {
    return invalid("a control input is too short");
  }
  hr_control control{};
  control.struct_size = sizeof(control);
  control.kind = in.kind;
  control.control_id = cause.origin.input;
  control.name = str(payload.substr(0, in.name_size));
  control.text = str(payload.substr(in.name_size, in.text_size));
  return session_.control(cause, control);
}

Status Loop::decision_input(const Cause& cause, std::string_view payload) {
  wire::DecisionInput in;
  if (payload.size() < sizeof(in)) {
    return invalid("a decision input is too short");
  }
  std::memcpy(&in, payload.data(), sizeof(in));
  payload.remove_prefix(sizeof(in));
  if (payload.size() < std::uint64_t{in.id_size} + in.answer_size) {
    return invalid("a decision input is too short");
  }
  return session_.on_decision(cause, in.decision, payload.substr(0, in.id_size),
                              payload.substr(in.id_size, in.answer_size));
}

// ---- the five steps
// ---------------------------------------------------------------------------------------------------

wire::Slot Loop::next_slot(const journal::Position& position) const {
  wire::Slot slot{};
  slot.last_input = last_input_;
  slot.journal_size = position.origins_from;
  slot.outbox_offset = published_.outbox_offset + published_.outbox_size;
  slot.action = session_.action;
  slot.close_input = session_.effects.close_input ? 1 : 0;
  slot.end_run = session_.effects.end_run ? 1 : 0;
  slot.session_state = session_state_;
  slot.signal_count = static_cast<std::uint32_t>(session_.effects.signals.size());
  std::copy(session_.effects.signals.begin(), session_.effects.signals.end(), std::begin(slot.signals));
  std::copy(session_.timers.begin(), session_.timers.end(), std::begin(slot.timers));
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    slot.streams[i] = {streams_[i].framer.position(), streams_[i].framer.discarding() ? 1u : 0u,
                       streams_[i].ended ? 1u : 0u};
  }
  return slot;
}

Status Loop::wait_applied(std::uint64_t generation) {
  while (frames_.applied() < generation && area_.applied.load(std::memory_order_acquire) < generation) {
    HR_CHECK(frames_.fill(true));
  }
  return {};
}

Status Loop::commit() {
  if (!dirty_) {
    return {};
  }
  HR_TRY(position, writer_.commit());
  session_.state.input_closed = session_.input_closed;
  std::string snapshot = encode_state(session_.state);
  HR_TRY(adapter_snapshot, session_.snapshot());
  snapshot += adapter_snapshot;
  // The half written now held the generation before the published one: its outbox must be in the shim's
  // hands.
  const std::uint64_t generation = area_.published.load(std::memory_order_relaxed);
  HR_CHECK(wait_applied(generation - 1));
  const std::string& outbox = session_.effects.outbox;
  const wire::Slot slot = next_slot(position);
  if (!wire::publish_slot(&area_, slot, outbox.data(), outbox.size(), snapshot.data(), snapshot.size())) {
    return Error{
        ErrorClass::internal, "slot-too-large", "publish", "slot", "outbox or snapshot over its bound", ""};
  }
  published_ = slot;
  published_.generation = generation + 1;
  published_.outbox_size = static_cast<std::uint32_t>(outbox.size());
  session_.effects = {};
  dirty_ = false;
  batch_records_ = 0;
  batch_bytes_ = 0;
  return frames_.send(wire::frame_commit, generation + 1);
}

}  // namespace hitchrail::runner
