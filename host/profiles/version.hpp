#pragma once
// The expression a profile gives for the first line of its harness's version output.

#include <optional>
#include <string>

namespace hitchrail::profiles {

// Why this expression cannot be used; nothing when it can. Refuses back references and counted repetitions,
// whose cost has no bound.
std::optional<std::string> check_version_line(const std::string& expression);

}  // namespace hitchrail::profiles
