#pragma once
// sdk/schemas/probe-result.v1.json in code: what is wrong with a probe's result, "" when nothing is. The unit
// test tests/unit/sdk/schemas.cpp holds both against the same examples.

#include <string>
#include <string_view>

namespace hitchrail::runner {

std::string probe_result_fault(std::string_view text);

}  // namespace hitchrail::runner
