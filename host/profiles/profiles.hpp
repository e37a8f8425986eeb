#pragma once
// Support profiles (harness-support-profile/v1): what is known about one harness and how it is found and
// started. The fields are described in docs/authors/profile.md.
//
// Promises: strict reading with FILE:LINE:COLUMN in every refusal; a profile that cannot be read is reported,
// never skipped; secrets written into a profile never leave it: arguments that look like credentials are
// redacted before anything is digested, and such a profile is `degraded`, which blocks every launch before
// any probe. Refuses: what is listed in yaml.hpp, broken cross references (code profile-invalid), a
// configuration digest that is not the file's own (profile-digest-mismatch), text that holds a secret
// (profile-secret). Not yet: profile packages of third parties, certification evidence beyond the fields of
// `conformance`.

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.hpp"
#include "core/result.hpp"

namespace hitchrail::profiles {

enum class Tier { detected, configured, certified, degraded, unsupported };
std::string_view to_string(Tier tier);

// One rule of executable.resolve: the launcher script of an npm package stands for a program of a platform
// package.
struct PlatformProgram {
  std::string machine;  // uname -m: x86_64, aarch64
  std::string package;  // "@openai/codex-linux-x64"
  std::string program;  // below that package; a component may be "*"
};
struct LauncherRule {
  std::string package;  // "@openai/codex"
  std::string script;   // "bin/codex.js"
  std::vector<PlatformProgram> programs;
};

struct SupportProfile {
  std::string file;
  std::string id;
  std::string display_name;
  std::string adapter_id;  // "" when none: tier unsupported
  std::string adapter;     // provider id of the plugin that reaches it; adapter_id unless given
  std::string transport;
  Tier tier = Tier::unsupported;
  std::string support_reason;

  std::string command;  // redacted
  std::vector<std::string> version_args;
  std::string version_line;  // POSIX extended regular expression for the whole first line; "" = any
  std::vector<LauncherRule> resolve;
  std::string package_marker;      // file that marks the root of the executable's package; "" = no package
  std::size_t package_levels = 0;  // how many directories above the program may be looked at

  std::string authentication_kind;  // command, environment, provider-managed, none
  std::vector<std::string> authentication_args;
  std::vector<std::string> authentication_keys;
  std::string login_source;     // "~/.codex/auth.json"; "" = no login file
  std::string login_variable;   // environment variable naming another directory for it
  std::string login_home_path;  // where it is bound below the conversation's home
  std::string keyring_hint;     // remedy when the login is in a keyring

  std::string compatibility_policy;
  std::vector<std::string> tested_versions;
  std::vector<std::string> invalidate_on;
  std::vector<std::string> platforms;

  std::vector<std::string> launch_args;  // redacted
  std::string working_directory;
  std::string worktree;
  std::vector<std::string> environment_allowlist;
  std::vector<std::string> credential_allowlist;
  std::vector<std::string> provider_hosts;

  // What of a repository the harness reads by itself under the launch we give it: patterns of
  // workspace/trust_table.hpp. Not stated: whatever harnesses are known to read.
  bool workspace_files_stated = false;
  std::vector<std::string> workspace_instructions;  // as text for the model
  std::vector<std::string> workspace_executable;    // runs it, or takes it as configuration

  std::string documentation_url;
  std::vector<std::string> remediation;
  json::Value conformance;

  json::Value configuration;         // what configuration_digest is the digest of
  std::string configuration_digest;  // contracts: §2.4, canonical
  json::Value document;              // harness-support-profile/v1, sealed
};

Result<SupportProfile> parse_profile(std::string_view text, const std::string& file);
Result<SupportProfile> load_profile(const std::string& path);

struct FoundProfile {
  std::string file;
  std::optional<SupportProfile> profile;
  std::optional<Error> error;  // set when the profile could not be used
};
// *.yaml of these directories in order, each directory sorted by name; a directory that does not exist is no
// error. The second profile of one id is reported with the code profile-duplicate-id.
Result<std::vector<FoundProfile>> find_profiles(std::span<const std::string> directories);
// By id, or by adapter or else command when exactly one profile has it. Codes: no-such-agent (the remedy
// lists the known ids), or the error of the broken file when its name is the id.
Result<SupportProfile> select_profile(const std::vector<FoundProfile>& found, std::string_view agent);

// profile-unsupported, profile-degraded, or profile-platform; nothing when the profile may be used.
std::optional<Error> blocking_error(const SupportProfile& profile);
// The whole first line of `--version` against version_line; gives the version: the first group, else the
// line. Code version-line-mismatch.
Result<std::string> match_version_line(const SupportProfile& profile, std::string_view first_line);
// Exact member of testedVersions, or any when that list is empty. Code version-not-tested.
Status check_tested_version(const SupportProfile& profile, std::string_view version);

struct LoginFile {
  std::string path;       // absolute
  std::string home_path;  // below the conversation's home
};
// The login file of this operator; nullopt when the profile names none. Absent file: code login-missing, or
// login-keyring when the profile has a keyring hint (the remedy is the hint).
using EnvironmentLookup = std::function<std::optional<std::string>(std::string_view)>;
Result<std::optional<LoginFile>> find_login_file(const SupportProfile& profile,
                                                 const EnvironmentLookup& environment);

struct ResolvedExecutable {
  std::string found;         // what the search gave
  std::string launcher;      // the launcher script that was replaced, "" when none
  std::string program;       // absolute, without links: what will run
  std::string package_root;  // to be granted read; "" when the program stands alone
};
// `command` with a slash, else searched along `path_variable` (empty and relative entries are passed over).
// Codes: executable-missing, executable-not-executable, executable-not-a-file, executable-platform-missing.
Result<ResolvedExecutable> resolve_executable(const SupportProfile& profile, std::string_view path_variable);

// What an operator reads about a profile: one line per fact, escaped.
std::vector<std::string> explain(const SupportProfile& profile);

}  // namespace hitchrail::profiles
