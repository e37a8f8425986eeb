#pragma once
// Runs through a journal file from its first byte, checking the chain; shared by the writer's open, verify
// and the reader.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "core/fd.hpp"
#include "core/result.hpp"
#include "journal/format.hpp"

namespace hitchrail::journal {

// Opens journal.jsonl without following a link; refuses what is not a regular file of ours with one name
// (journal-absent, journal-unsafe).
Result<Fd> open_journal(int attempt_dirfd, int flags);

struct ScanEnd {
  std::uint64_t size = 0;      // bytes of whole lines
  std::uint64_t sequence = 0;  // of the last event
  std::uint64_t torn_bytes = 0;
  Hash last_hash{};
};
// Calls `line` with every whole line (text without line feed, byte offset); an error of it ends the scan.
Result<ScanEnd> scan(
    int fd, Hasher& hasher,
    const std::function<Status(const LineView&, std::string_view text, std::uint64_t offset)>& line);

// Splits off lines and checks them one by one as bytes come.
class ChainCursor {
 public:
  explicit ChainCursor(Hasher& hasher) : hasher_(hasher) {}
  // Checks the next line (without its line feed) at `offset_`.
  Status accept(std::string_view text, LineView& view);
  [[nodiscard]] bool header_seen() const { return header_seen_; }
  [[nodiscard]] std::uint64_t sequence() const { return sequence_; }
  [[nodiscard]] std::uint64_t offset() const { return offset_; }
  [[nodiscard]] const Hash& last_hash() const { return last_; }
  // Damage when an unterminated tail cannot be a torn write.
  Status accept_tail(std::string_view tail);

 private:
  Hasher& hasher_;
  Hash last_{};
  std::uint64_t sequence_ = 0;
  std::uint64_t offset_ = 0;
  bool header_seen_ = false;
};

}  // namespace hitchrail::journal
