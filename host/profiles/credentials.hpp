#pragma once
// Credential-like material in the command and arguments of a profile: redacted before anything else sees it.

#include <string>
#include <vector>

namespace hitchrail::profiles {

// Both return true when something was redacted; the argument then holds the redacted form.
bool redact_arguments(std::vector<std::string>& arguments);
bool redact_command(std::string& command);

}  // namespace hitchrail::profiles
