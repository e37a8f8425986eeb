#pragma once
// Internal to launch.cpp: the sections of run-launch-manifest/v1, each from the input alone. Violations are
// collected in `fields`.

#include "manifest/fields.hpp"
#include "manifest/manifest.hpp"

namespace hitchrail::manifest {

Result<json::Value> envelope_section(const LaunchManifestInput& input);
Result<json::Value> runtime_section(const LaunchManifestInput& input);
json::Value requirements_section(const LaunchManifestInput& input);
json::Value routing_section(const LaunchManifestInput& input, Fields& fields);
json::Value instructions_section(const LaunchManifestInput& input, Fields& fields);
json::Value workspace_section(const LaunchManifestInput& input);
json::Value command_section(const LaunchManifestInput& input, Fields& fields);
json::Value origins_section(const LaunchManifestInput& input, Fields& fields);
json::Value enforcement_section(const LaunchManifestInput& input, Fields& fields);
// What nobody asked for, said so.
json::Value no_tools();
json::Value no_permissions();
json::Value no_resources();

}  // namespace hitchrail::manifest
