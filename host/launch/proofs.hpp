#pragma once
// Where proofs of the boundary are remembered: the directory that HITCHRAIL_PROOF_CACHE names (absolute, this
// user's, 0700, reached without links), else the probe cache. An invalid descriptor when there is none that
// can be used: then each launch proves anew, which costs time and nothing else.

#include "core/fd.hpp"
#include "store/cache.hpp"

namespace hitchrail::launch {

Fd proof_directory(const store::Cache& cache);

}  // namespace hitchrail::launch
