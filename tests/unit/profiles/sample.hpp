#pragma once
// A small valid profile that the tests change one line at a time.

#include <catch2/catch.hpp>

#include <string>
#include <string_view>

namespace hitchrail::test {

inline const std::string kSample = R"(schemaVersion: harness-support-profile/v1
id: sample
displayName: Sample
adapterId: sample-adapter
transport: process-jsonl
supportTier: configured
supportReason: A profile for tests.
executable:
  command: sample
  versionArgs: ["--version"]
  versionLine: 'sample ([0-9]+\.[0-9]+\.[0-9]+)'
authentication:
  kind: none
  nonMutating: true
compatibility:
  policy: Exact versions.
  testedVersions: ["0.145.0"]
  invalidateOn: [provider-version]
platforms: [linux]
launch:
  args: [run]
  workingDirectory: task-worktree
  worktree: required
  environmentAllowlist: [LANG]
  credentialAllowlist: [SAMPLE_KEY]
conformance: {fixtureSet: sample/v1, status: not-run}
documentationUrl: https://sample.example/
remediation: [Install it.]
)";

// The sample with one piece of text replaced.
inline std::string changed(std::string_view from, std::string_view to) {
  std::string text = kSample;
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace hitchrail::test
