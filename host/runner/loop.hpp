#pragma once
// The life of a live runner after its adapter is loaded: frames in, hooks, drafts into the journal, commits
// out.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "journal/journal.hpp"
#include "runner/config.hpp"
#include "runner/frames.hpp"
#include "runner/framing.hpp"
#include "runner/session.hpp"
#include "runner/window.hpp"

namespace hitchrail::runner {

class Loop {
 public:
  // area: the mapped state area; rings: in the order of SharedState::streams. All outlive the loop.
  Loop(wire::SharedState& area, const RunnerConfig& config, const hr_adapter& adapter,
       journal::Writer& writer, Frames& frames, std::vector<Fd> rings);

  // Rebuilds the session from the published slot.
  Status reattach();
  // Until the end input is committed, or an error: then the journal holds whatever precedes the failed input.
  Status run();

 private:
  struct Stream {
    std::uint32_t id;
    Framer framer;
    Window window;
    std::uint64_t arrived = 0;
    bool eof = false;
    bool ended = false;
    std::uint32_t end_flags = 0;
  };
  // The input a predecessor crashed in.
  struct CrashPoint {
    std::uint32_t stream;
    std::uint64_t offset;
    std::uint64_t input;
  };

  Status handle(const Message& message);
  Status pump(Stream& stream, std::int64_t unix_ms);
  Status map(Stream& stream, std::int64_t unix_ms);
  Status note_dropped(const Stream& stream, std::int64_t unix_ms);
  Status input(const Message& message);
  Status exit_input(const Cause& cause, std::string_view payload);
  Status control_input(const Cause& cause, std::string_view payload);
  Status decision_input(const Cause& cause, std::string_view payload);
  Status before_hook(const Cause& cause);
  Status deliver(std::int64_t unix_ms);
  Status commit();
  Status wait_applied(std::uint64_t generation);
  wire::Slot next_slot(const journal::Position& position) const;
  Stream* find(std::uint64_t id);

  wire::SharedState& area_;
  const RunnerConfig& config_;
  journal::Writer& writer_;
  Frames& frames_;
  Session session_;
  std::vector<Stream> streams_;
  wire::Slot published_{};
  std::optional<CrashPoint> crash_;
  std::uint64_t last_input_ = 0;
  std::uint32_t session_state_ = 0;  // wire::Slot::session_state
  bool dirty_ = false;
  std::size_t batch_records_ = 0;
  std::size_t batch_bytes_ = 0;
  std::size_t unreturned_bytes_ = 0;
};

}  // namespace hitchrail::runner
