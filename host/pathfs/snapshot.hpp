#pragma once
// The state of named entries, and going back to it. Restoring trusts no name: every way is walked again
// without links, content comes by a new file that is exchanged for the very file that was looked at, a mode
// through a descriptor. Where a link, or anything of another kind, stands at an entry's place or on its way,
// that entry is left alone and reported: the restore is incomplete, and nothing outside is touched.

#include <string>
#include <vector>

#include "pathfs/patch.hpp"

namespace hitchrail::pathfs {

struct SnapshotLimits {
  std::size_t entries = 4096;
  std::size_t file_bytes = 64u << 20;
  std::size_t total_bytes = 256u << 20;
};

class Snapshot {
 public:
  // Regular files (content, mode, owner), directories (mode, owner, not what is below) and absence. A link
  // is symlink-rejected, FIFOs, sockets and devices are not-regular-file.
  static Result<Snapshot> take(int root, const std::vector<std::string>& paths,
                               const SnapshotLimits& limits = {});

  struct Report {
    std::vector<std::string> restored;  // differed and are as before
    std::vector<Unrestored> unrestored;
    [[nodiscard]] bool complete() const { return unrestored.empty(); }
  };
  // Files that were absent are removed, directories that were absent only when empty, missing ones are made
  // again (their missing parents too).
  [[nodiscard]] Report restore(int root) const;

 private:
  struct Entry {
    std::string path;
    Identity identity;
    std::string bytes;
  };
  std::vector<Entry> entries_;
};

}  // namespace hitchrail::pathfs
