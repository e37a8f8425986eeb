#pragma once
// Where proofs of the boundary are remembered: the directory that HITCHRAIL_PROOF_CACHE names (absolute, this
// user's, 0700, reached without links), else `memo/` of the state home (nullptr: there is none). An invalid
// descriptor when there is none that can be used: then each launch proves anew, which costs time and nothing
// else.

#include "core/fd.hpp"
#include "store/state_home.hpp"

namespace hitchrail::launch {

Fd proof_directory(const store::StateHome* home, store::Access access);

}  // namespace hitchrail::launch
