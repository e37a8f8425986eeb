#pragma once
// run-launch-credential-plan/v1: which credentials a run gets, how, and who can read them. Names only.
//
// One table decides what authenticates the harness itself: the profile's credentialAllowlist (and its login
// file). A variable of the shape of a credential that is on no such list is handed over too when profile and
// preset name it, and is shown as high-risk. No broker exists yet: a task reference cannot be brokered, and
// is `blocked`. Isolation: `none` where the harness gets its key in its environment or home, since its tool
// commands are children of the same user in the same boundary and can read both; `not-required` where there
// is nothing to isolate. A harness that sees only a placeholder (the gate puts the key in) would be
// `enforced`.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.hpp"
#include "core/result.hpp"

namespace hitchrail::manifest {

struct CredentialPlanInput {
  bool credentials_allowed = true;      // of the preset
  std::vector<std::string> boot_names;  // the profile's credentialAllowlist
  std::vector<std::string> passed;      // names of the environment that is handed over, plain and secret
  std::string login_file;               // "" or the login file's place in the conversation's home
  std::vector<std::string> task_references;
  json::Value runtime_manifest;  // sealed
};
Result<json::Value> build_credential_plan(const CredentialPlanInput& input);
// Digest, order, and that it belongs to this runtime manifest section of a launch manifest.
Status check_credential_plan(const json::Value& plan, const json::Value& provider_runtime);
// Its underscore-delimited words say that the variable holds a credential: "GITHUB_TOKEN", not "TOKENIZER".
bool names_credential(std::string_view variable);

}  // namespace hitchrail::manifest
