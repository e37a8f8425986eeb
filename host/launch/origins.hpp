#pragma once
// Where each effective value of a launch comes from. All sources are recorded, the highest precedence wins:
// system default 0, workspace 150 (the preset; the environment of the host), provider and task file 100,
// agent profile 200, command line 300, parent's phase 400, the compiler's own result 1000.

#include <vector>

#include "launch/stages.hpp"

namespace hitchrail::launch {

std::vector<manifest::Origin> origins_of(const Request& request, const Prepared& prepared);

}  // namespace hitchrail::launch
