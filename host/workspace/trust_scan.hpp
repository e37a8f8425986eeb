#pragma once
// The trust inventory of a worktree: every entry at a place of trust_table.hpp, with posture and fingerprint.
//
// Promises: through pathfs only, no link followed, no FIFO or device opened; nothing is changed; the same
// content gives the same bytes and the same digest, whatever the order of directories on disk. Nothing at a
// place is passed over in silence: a link, a FIFO, a directory where a file is expected, a file over 2 MiB or
// one that cannot be read, a tree deeper than 12 and everything beyond 2,000 entries is an entry of its own,
// posture executable, and says why. Not looked into: directories called `.git` (but the hooks of the
// worktree's own). Does not see what changes after it has looked: scan again and compare digests.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/json.hpp"
#include "core/result.hpp"
#include "workspace/trust_table.hpp"
#include "workspace/workspace.hpp"

namespace hitchrail::workspace {

struct TrustEntry {
  std::string path;   // relative to the worktree, or to the common git directory; any bytes
  std::string scope;  // workspace-root, workspace-descendant, git-common-directory
  std::string place;  // the pattern that led here
  std::string kind;
  TrustPosture posture = TrustPosture::executable;
  std::string fingerprint;  // sha256:… of the content, of a link's text, or of what stands there instead
  std::uint64_t byte_length = 0;
  bool symbolic_link = false;
  // "", symbolic-link, not-a-file, not-a-directory, too-large, unreadable, too-deep, too-many, changing,
  // outside (a hooks path), closed (a directory that neither we nor the harness may enter)
  std::string problem;
  std::vector<std::string> requested_capabilities;
  // Of this harness, and not in the digest: whether it reads the entry by itself, as what, and the content of
  // a loaded instruction for its fingerprint; never in a document.
  bool loaded = false;
  TrustPosture effect = TrustPosture::executable;
  std::string content;
  bool content_kept = false;
};

struct TrustLimits {
  std::size_t max_entries = 2'000;
  std::size_t max_file_bytes = 2u << 20;
  std::size_t max_depth = 12;              // of a tree place
  std::size_t max_walked = 1'000'000;      // names looked at for places in any directory
  std::size_t max_kept_bytes = 16u << 20;  // TrustEntry::content, all together
};

enum class MaximumTrust { trusted, restricted, denied };
std::string_view to_string(MaximumTrust maximum);

struct TrustInventory {
  std::vector<TrustEntry> entries;  // sorted by scope and path
  json::Value document;             // workspace-execution-trust-inventory/v1, sealed
  std::string digest;
  // Of .hitchrail/workspace-trust.json; an invalid one, or a link there, is `denied`.
  MaximumTrust maximum = MaximumTrust::trusted;
  std::string maximum_reason;  // "" without a policy file
  std::size_t walked = 0;
};
// `files` of the harness in question; {} with `stated` = true where no harness is meant: nothing is loaded.
Result<TrustInventory> scan_trust(const Worktree& worktree, const TrustFiles& files,
                                  const TrustLimits& limits = {});

// Which repository, in which directories: device, inode and birth of each, their paths, and the remote
// without credentials. workspace-execution-trust-identity/v1.
struct TrustIdentity {
  std::string digest;
  std::string remote;  // without user, password and query; "" = none
  json::Value document;
};
Result<TrustIdentity> trust_identity(const Worktree& worktree);

}  // namespace hitchrail::workspace
