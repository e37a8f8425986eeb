#pragma once
// The entries of an index, and the three-way merge by which a run's index reaches the operator's: entry by
// entry, ids only.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/result.hpp"
#include "workspace/git_runner.hpp"

namespace hitchrail::workspace {

struct IndexEntry {
  std::string mode;  // "100644"
  std::string oid;
  bool operator==(const IndexEntry&) const = default;
};
using IndexKey = std::pair<std::string, int>;  // path, stage
using IndexEntries = std::map<IndexKey, IndexEntry>;

// Output of `git ls-files --stage -z`. Code git-output-invalid: also for a path that no index may have
// (absolute, "..", ".git").
Result<IndexEntries> parse_index(std::string_view output, std::string_view object_format);

struct IndexMerge {
  IndexEntries set;                     // to be written
  std::vector<IndexKey> removed;        // to be taken out
  std::optional<std::string> conflict;  // a path that both sides changed differently
  [[nodiscard]] bool empty() const { return set.empty() && removed.empty(); }
};
IndexMerge merge_index(const IndexEntries& launch, const IndexEntries& ours, const IndexEntries& theirs);

// Input for `git update-index -z --replace --index-info`: removals first, so that a file may take a
// directory's place.
std::string index_info(const IndexMerge& merge, std::string_view object_format);

}  // namespace hitchrail::workspace
