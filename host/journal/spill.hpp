#pragma once
// Payloads over 8 KiB: one file each in spill/ (0700), 0600, no link followed, synced before the journal line
// that names it.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/fd.hpp"
#include "core/result.hpp"

namespace hitchrail::journal {

class Spill {
 public:
  // Opens spill/ (makes it when absent) and counts what is there.
  static Result<Spill> open(int attempt_dirfd);
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  // Writes the file; a leftover of an event that was never journaled is overwritten. Not yet durable.
  Status write(const std::string& name, std::string_view bytes);
  // Makes everything written since the last call durable, files first, then the names.
  Status sync(int (*sync_file)(int));

 private:
  static constexpr std::size_t max_open = 64;
  Status sync_files(int (*sync_file)(int));
  Fd directory_;
  std::uint64_t bytes_ = 0;
  std::vector<Fd> unsynced_;
  bool names_unsynced_ = false;
  int (*sync_file_)(int) = nullptr;
};

}  // namespace hitchrail::journal
