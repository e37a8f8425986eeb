#pragma once
// hitchrail-runner --run: the live runner of one attempt. Inherits wire::RunnerFd, speaks wire::Frame with
// the shim.
//
// Promises: it confines itself before the adapter is loaded; every record reaches the adapter exactly once
// per committed history, framed the same way however the bytes arrived; one batch is one commit (journal,
// snapshot, slot, publish, frame); nothing is told to the shim before it is durable; a failing or crashing
// hook takes nothing down that came before its input. Refuses: callbacks outside a hook or of another hook's
// kind (HR_E_STATE), values beyond the bounds of adapter.h (HR_E_LIMIT), event kinds that only the host may
// write (HR_E_ARGUMENT). now_ms is the time of the input being handled; in reattach, which has none, it is 0.
// Not yet: services (every call is answered HR_CALL_REFUSED), remote transports.

namespace hitchrail::runner {

int run_main();  // the process's exit code: 0 the end input is committed, 1 anything else (said by
                 // frame_failed)

}  // namespace hitchrail::runner
