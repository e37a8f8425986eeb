#pragma once
// What goes when a run is over: control sockets, temp/, git/ (unless something in it was not imported), login
// copies.

#include <string>

#include "core/fd.hpp"
#include "core/json.hpp"
#include "core/result.hpp"

namespace hitchrail::finish {

// The directory two levels above, when the attempt really is attempts/ID of it.
Result<Fd> open_state_home(int attempt_dirfd, const std::string& attempt_id);

// Idempotent. A login copy that cannot be removed is an error; of temp/ and git/ what cannot be removed
// stays.
Status cleanup(int attempt_dirfd, const json::Value& header, bool keep_git);

}  // namespace hitchrail::finish
