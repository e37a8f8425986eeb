#pragma once
// Several changes below a root as one: all are made, or those that were made are taken back.
//
// A patch is a list of edits with whole contents, not the text of a unified diff. The host's own writers
// (file service, finisher, collected artifacts) hold whole contents and the state they saw; a diff's meaning
// depends on a search for context, which makes "was exactly this applied" a guess. Where a diff is to be
// applied, git does it, in its own boundary.
//
// How: each edit is one rename or exchange in the end, by which the old file itself is kept, under a
// temporary name beside it, until all are done. Undoing renames it back, so it needs no space and brings back
// content, mode, owner and links. An edit that finds another file than it expects fails with io/estale and
// takes the rest back. Promised against errors, not against a power cut: what was killed in the middle leaves
// old files under temporary_prefix names. Needs a file system that knows RENAME_EXCHANGE and RENAME_NOREPLACE
// (io/einval otherwise).

#include <optional>
#include <string>
#include <vector>

#include "pathfs/pathfs.hpp"

namespace hitchrail::pathfs {

struct Edit {
  enum class Kind { write, make_directory, chmod, rename, remove };
  Kind kind = Kind::write;
  std::string path;
  std::string to;              // rename
  std::string bytes;           // write
  std::optional<mode_t> mode;  // chmod: needed; write: default as before, or 0644; make_directory: 0755
  // write, remove, rename, chmod: the file as the caller saw it. Without it any regular file will do.
  std::optional<Identity> expected;  // type absent (write): there must be none
};

inline constexpr std::size_t max_edits = 4096;
inline constexpr std::size_t max_patch_bytes = 256u << 20;

struct Unrestored {
  std::string path;
  Error error;
};
struct PatchResult {
  std::optional<Error> failed;         // none: every edit was made
  std::size_t failed_edit = 0;         // its index
  std::vector<Unrestored> unrestored;  // what could not be taken back: somebody else changed it meanwhile
  std::vector<std::string> leftovers;  // old files that could not be removed after success
  [[nodiscard]] bool applied() const { return !failed; }
};

// Paths and bounds are judged before anything is tried (path-escape, too-large).
PatchResult apply_patch(int root, const std::vector<Edit>& edits);

}  // namespace hitchrail::pathfs
