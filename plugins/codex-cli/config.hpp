#pragma once
// From the launch request (schemas/launch-request.v1.json) to what Codex reads: its config.toml and its
// arguments.
//
// Promises: nothing of the task, no secret and no path of the operator's in the arguments; every string in
// the configuration is a TOML basic string that reads back as exactly the same text; the worktree is marked
// untrusted, so that no configuration, hook or MCP server of the repository is loaded; credentials are kept
// out of tool commands. Refuses, as sdk::Failure with HR_E_ARGUMENT or HR_E_UNSUPPORTED:
// launch-request-invalid, conversation-id-invalid, fork-unsupported, provider-option-unknown,
// provider-option-invalid.
//
// Provider options (launch_json.providerOptions), named as in Codex's own configuration: base_url (http or
// https, no user, query or fragment), env_key (a name out of the launch's credentials; without it no
// credential is sent), name, wire_api (only "responses"), request_max_retries, stream_max_retries,
// stream_idle_timeout_ms.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hitchrail/adapter.h"
#include "json_view.hpp"

namespace hitchrail::codex_cli {

// Folders and files below the conversation's home. Not ".codex": Codex protects that name below a writable
// root.
inline constexpr std::string_view codex_home = "codex";
inline constexpr std::string_view last_message_file = "last-message";
inline constexpr std::string_view session_files = "codex/sessions/*/*/*/rollout-*.jsonl";

struct Provider {
  bool given = false;
  std::string name, base_url, env_key;
  std::vector<std::pair<std::string, std::uint64_t>> numbers;
};

struct Launch {
  std::uint32_t mode = HR_LAUNCH_NEW;
  std::string worktree, home, model, thread;
  bool delegated = false;  // an enforced boundary stands in for Codex's own sandbox
  std::vector<std::string> credentials;
  Provider provider;
  json::View prior_usage;  // conversation.usage: what the thread had used before, when the host knows
};

// The views in the result point into `request`.
Launch read_launch(std::string_view request, std::uint32_t mode);
std::string config_toml(const Launch& launch);
std::vector<std::string> arguments(const Launch& launch);

std::string toml_string(std::string_view text);
bool is_thread_id(std::string_view text);  // a UUID in lower case, as Codex prints it

}  // namespace hitchrail::codex_cli
