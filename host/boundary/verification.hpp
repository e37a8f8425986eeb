#pragma once
// The boundary of a verification gate: what the finisher runs the operator's checks in when the run is over.
// It is made from the run's own policy, which is kept as a document meanwhile.
//
// Promises: what the run could not read the gate cannot read (denied paths, masked dotfiles and nested git
// directories are found again by identity, wherever the run moved them); nothing of the run's writable roots
// or of the git directory it is given is changed: a layer that is thrown away lies over each (native), or
// they are only read; no network, no credential, no home of the conversation; no namespaces or mounts of its
// own, also under an advisory preset. Machine facts (system trees, devices, Landlock's ABI) are those of the
// machine now. Refuses: verification-policy-invalid, backend-unavailable, hidden-lost (something hidden is
// neither at its place nor anywhere that could be looked at).

#include "boundary/boundary.hpp"

namespace hitchrail::boundary {

// Canonical members: what verification_boundary() needs of a run's boundary.
json::Value verification_policy(const Compiled& run);

struct VerificationOptions {
  bool layered = true;              // false: the writable roots are read-only
  std::uint64_t scratch_bytes = 0;  // of each layer; 0: a quarter of the memory, at most 4 GiB
};
// Looks at the disk (identities), changes nothing.
Result<Compiled> verification_boundary(const json::Value& policy, const Machine& now,
                                       const VerificationOptions& options = {});
// The part that looks at nothing, for a launch that wants to know whether the boundary can be had at all.
Result<Compiled> verification_design(const json::Value& policy, const Machine& now,
                                     const VerificationOptions& options = {});

// Control groups for a boundary's limits, where they can be had; recorded in the attempt directory like those
// of the run itself, so that remove_placeholders() finds them, too.
Status make_verification_limits(Compiled& compiled, int attempt_dirfd);
Status remove_verification_limits(int attempt_dirfd);

}  // namespace hitchrail::boundary
