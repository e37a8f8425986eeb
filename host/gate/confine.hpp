#pragma once
// What the gate gives up, as far as this kernel can take it.

namespace hitchrail::gate {

// First: not dumpable, dies with its parent, no core, no descriptor but its own, signals as a fresh program
// has them, no capability, no new privileges, files: those a resolver reads. nullptr, or the step that
// failed.
const char* give_up_privileges(int descriptor_end);
// After the resolver's threads exist, for all of them: an allow-list of calls. No exec, no new process or
// thread, no executable memory, no socket but TCP and UDP over IP, no listening, nothing opened for writing.
const char* load_filter();

}  // namespace hitchrail::gate
