#pragma once
// What a launch says on stderr beside its result: what each stage cost, and what went wrong without harm.

#include <vector>

#include "core/result.hpp"
#include "launch/timings.hpp"

namespace hitchrail::cli {

void print_timings(const launch::Timings& timings);
void print_notices(const std::vector<Error>& notices);

}  // namespace hitchrail::cli
