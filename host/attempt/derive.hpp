#pragma once
// Within the service: the status derivation of whoever may hold the lock itself, and the identities in an
// exit slot.

#include "attempt/attempt.hpp"
#include "core/ids.hpp"
#include "shim/wire.hpp"

namespace hitchrail::attempt {

Result<AttemptStatus> derive_status(const Directory& directory, bool own_lock);
ProcessIdentity shim_identity(const wire::ExitSlot& slot);
ProcessIdentity init_identity(const wire::ExitSlot& slot);
ProcessIdentity leader_identity(const wire::ExitSlot& slot);

}  // namespace hitchrail::attempt
