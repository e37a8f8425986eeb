#pragma once
// The proof: what a backend really holds on this machine, found by hitchrail-probe. Each probe is run without
// a boundary first (its control, in a scratch world of its own), then inside; a capability is proved when
// each of its probes whose control got through was stopped inside, and each one that must work did.
//
// Promises: credential-free (environment built from empty); everything a probe can reach when it gets through
// lies in a scratch world in a new private directory below the temporary directory, removed at the end;
// bounded in time. A proof is remembered in `cache_dirfd` (0600) under the content of hitchrail-init,
// hitchrail-probe and hitchrail-shim, the kernel, the kind of user, Landlock's ABI, the filter and the probe
// revision; an executable counts as unchanged while its whole identity (device, inode, size, mtime, ctime) is
// equal, else its content is hashed again. Only a proof in which everything the backend declares was proved
// is remembered.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "boundary/boundary.hpp"

namespace hitchrail::boundary {

inline constexpr int proof_revision = 1;

struct ProbeOutcome {
  std::string id;
  std::string capability;
  std::string control;  // "through", "refused ENOENT", "killed SYS", "broken WHAT", "timeout"
  std::string inside;
  std::string layers;   // names of the layers that suffice alone, "namespaces, landlock"
  bool judged = false;  // the control got through
  bool good = false;    // judged, and the answer inside is what it must be
};
struct CapabilityProof {
  std::string capability;
  bool proved = false;
  bool declared = false;            // the backend claims it
  unsigned probes = 0;              // judged
  std::vector<std::string> failed;  // ids
};
struct Proof {
  Backend backend = Backend::native;
  std::vector<CapabilityProof> capabilities;  // sorted by name
  std::vector<ProbeOutcome> outcomes;         // in the table's order
  bool from_cache = false;
  std::int64_t took_ms = 0;
  // hitchrail-init as it was proved: what is executed later must be this very file.
  FileIdentity init;
  // What remember_proof() writes; "" for a proof from the cache, and for one that failed.
  std::string cache_name, cache_document;

  [[nodiscard]] bool proves(const std::string& capability) const;
  [[nodiscard]] std::vector<std::string> proved() const;  // sorted
};

struct ProofRequest {
  Backend backend = Backend::automatic;
  std::vector<std::string> required;  // of the preset
  int cache_dirfd = -1;               // where proofs are remembered; only read. -1: nowhere
  bool fresh = false;                 // do not believe the cache
  // Called when the cache has no proof, before one is made; then the cache is read once more (another process
  // may have made it meanwhile).
  std::function<void()> before_proving{};
};
// Proves one backend now. Errors: probe-missing, init-missing, probe-failed; a backend this machine cannot
// start gives the machine's finding.
// Reads the cache, and never writes it.
Result<Proof> prove(const Machine& machine, Backend backend, int cache_dirfd = -1, bool fresh = false,
                    const std::function<void()>& before_proving = {});
// Proofs for Options::proven: backends in order of preference until one proves all that is required. Never an
// error because a backend cannot be had: compile() says that with the machine's findings.
Result<std::vector<ProvenBackend>> proof(const Machine& machine, const ProofRequest& request);
// Writes what is not remembered yet. Losing it costs time only.
void remember_proof(int cache_dirfd, const std::string& cache_name, const std::string& cache_document);

json::Value proof_document(const Proof& proof);

}  // namespace hitchrail::boundary
