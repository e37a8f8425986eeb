#pragma once
// A complete, ordinary input of each builder, for tests that change one thing.

#include "manifest/manifest.hpp"

namespace hitchrail::manifest::test {

RuntimeManifestInput runtime_input();
TaskEnvelopeInput envelope_input();
LaunchManifestInput launch_input();

json::Value built(const Result<json::Value>& result);
// "code field" of the error, "" when there is none.
std::string refusal(const Result<json::Value>& result);
std::string refusal(const Result<TaskEnvelope>& result);
std::string refusal(const Result<TaskSpec>& result);
std::string refusal(const Status& status);
json::Value envelope_of(const TaskEnvelopeInput& input);

}  // namespace hitchrail::manifest::test
