#pragma once
// Parts of the envelope's builder and its check. Internal to manifest/.

#include <string>
#include <vector>

#include "manifest/manifest.hpp"

namespace hitchrail::manifest {

inline constexpr std::size_t max_name_bytes =
    500;  // of a repository's and a branch's name, in every document

// What a launch allows when the task says nothing.
std::vector<SideEffect> default_effects(const TaskEnvelopeInput& input);
// What the task asks for, as far as the launch allows it; what was taken away is a warning.
std::vector<SideEffect> effective_effects(const TaskEnvelopeInput& input, std::vector<Finding>& warnings);

}  // namespace hitchrail::manifest
