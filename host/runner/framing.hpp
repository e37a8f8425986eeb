#pragma once
// Cuts a stream's bytes into records. A pure state machine over (position, discarding): it never copies, and
// whatever the chunks in which bytes arrive it gives the same records (CHUNKS excepted, whose records end
// where arrivals ended; there a UTF-8 character cut by an arrival waits for its rest).
//
// LINES splits at 0x0A only: U+2028, CR and NUL are data. A last line without its line feed is UNTERMINATED.
// Not yet: HR_FRAME_MESSAGES (remote transports).

#include <cstdint>
#include <string_view>

#include "runner/config.hpp"

namespace hitchrail::runner {

struct Record {
  std::uint64_t offset = 0;  // of the first byte
  std::uint64_t end = 0;     // first byte after the record and its frame
  std::uint32_t flags = 0;   // HR_RECORD_*
  std::string_view bytes;    // without the frame
};

// Bytes of an over-long record that were dropped (HR_OVERFLOW_TRUNCATE).
struct Dropped {
  std::uint64_t offset = 0;  // of the record
  std::uint64_t bytes = 0;
};

class Framer {
 public:
  enum class Step {
    record,     // `record` is set: call the hook, then accept()
    more,       // nothing whole yet
    dropped,    // the rest of a truncated record ended: `dropped` is set, already accepted
    too_long,   // over the cap and the stream's overflow is FAIL
    malformed,  // the frame itself is broken (CONTENT_LENGTH)
    done,       // after the end of the stream: everything was given
  };

  explicit Framer(const StreamConfig& config) : config_(config) {}
  void restore(std::uint64_t position, bool discarding, std::uint64_t discard_start);

  // bytes: the stream from position() to the end of what arrived. eof: no more will come. end_flags:
  // HR_RECORD_ABSENT or HR_RECORD_TRUNCATED for the last record of a file stream.
  Step next(std::string_view bytes, bool eof, std::uint32_t end_flags = 0);
  void accept();

  [[nodiscard]] const Record& record() const { return record_; }
  [[nodiscard]] const Dropped& dropped() const { return dropped_; }
  [[nodiscard]] std::uint64_t position() const { return position_; }
  [[nodiscard]] bool finished() const { return finished_; }  // nothing comes after the record just given
  [[nodiscard]] bool discarding() const { return discarding_; }
  [[nodiscard]] std::uint64_t discard_start() const { return discard_start_; }

 private:
  Step lines(std::string_view bytes, bool eof, std::uint32_t end_flags);
  Step chunks(std::string_view bytes, bool eof, std::uint32_t end_flags);
  Step whole(std::string_view bytes, bool eof, std::uint32_t end_flags);
  Step content_length(std::string_view bytes, bool eof, std::uint32_t end_flags);
  Step discard(std::string_view bytes, bool eof);
  Step over_cap(std::string_view bytes);
  Step give(std::string_view bytes, std::uint64_t end, std::uint32_t flags);

  StreamConfig config_;
  std::uint64_t position_ = 0;
  std::uint64_t discard_start_ = 0;
  std::size_t scanned_ = 0;  // bytes after position_ known to hold no line feed
  bool discarding_ = false;
  bool begins_discard_ = false;
  bool finished_ = false;
  Record record_;
  Dropped dropped_;
};

}  // namespace hitchrail::runner
