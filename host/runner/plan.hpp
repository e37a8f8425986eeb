#pragma once
// hitchrail-runner --plan: serves plugins::Planner. Inherits 3 = SOCK_STREAM to the host, 4 = the sealed
// adapter. Promises: it confines itself with nothing granted before the adapter is loaded, answers one
// request at a time in order, and ends when the host closes the socket. Messages: host/plugins/plan_wire.hpp.

namespace hitchrail::runner {

int plan_main();

}  // namespace hitchrail::runner
