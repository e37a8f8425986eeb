#pragma once
// hitchrail-runner --check: the confined child of plugins::check_plugin. Inherits 3 = the sealed adapter, 4 =
// the shared page of plugins/check_wire.hpp; 0 is /dev/null, 1 and 2 a memfd each. Promises: it confines
// itself with nothing granted before the adapter is loaded, writes each step's result into the page before
// the next begins, and says in the page which step it is in, so that its death is the finding of that step.
// Exit codes mean nothing.

namespace hitchrail::runner {

int check_main();

}  // namespace hitchrail::runner
