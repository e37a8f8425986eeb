#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/file.hpp"
#include "core/text.hpp"
#include "profiles/profiles.hpp"

namespace hitchrail::profiles {
namespace {

constexpr std::size_t kMaxProfiles = 1000;

bool ends_with(std::string_view text, std::string_view tail) {
  return text.size() >= tail.size() && text.substr(text.size() - tail.size()) == tail;
}

// "codex-cli" of "/usr/share/hitchrail/profiles/harness/codex-cli.yaml".
std::string_view stem_of(std::string_view file) {
  file.remove_prefix(file.rfind('/') + 1);  // npos + 1 is 0
  return file.substr(0, file.rfind('.'));
}

std::string joined(const std::vector<std::string>& words, const char* nothing) {
  std::string out;
  for (const std::string& word : words) {
    out += (out.empty() ? "" : ", ") + escape_visible(word);
  }
  return out.empty() ? nothing : out;
}

}  // namespace

Result<std::vector<FoundProfile>> find_profiles(std::span<const std::string> directories) {
  std::vector<FoundProfile> found;
  for (const std::string& path : directories) {
    Fd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory && errno == ENOENT) {
      continue;
    }
    if (!directory) {
      return errno_error("list profiles", path, errno);
    }
    HR_TRY(names, list_directory(directory.get()));
    for (const std::string& name : names) {
      if (!ends_with(name, ".yaml")) {
        continue;
      }
      FoundProfile each;
      each.file = path + "/" + name;
      auto profile =
          found.size() < kMaxProfiles
              ? load_profile(each.file)
              : Result<SupportProfile>(Error{ErrorClass::usage, "profile-too-many", "list profiles", path,
                                             "there are more than 1000 profiles", ""});
      if (profile.has_error()) {
        each.error = std::move(profile).error();
      } else {
        const auto other = std::find_if(found.begin(), found.end(), [&](const FoundProfile& before) {
          return before.profile && before.profile->id == profile->id;
        });
        if (other != found.end()) {
          each.error =
              Error{ErrorClass::usage,
                    "profile-duplicate-id",
                    "read profile",
                    each.file,
                    "the id `" + profile->id + "` is already taken by " + escape_visible(other->file),
                    "remove one of the two files, or give one another id"};
        } else {
          each.profile = std::move(profile).value();
        }
      }
      found.push_back(std::move(each));
    }
  }
  return found;
}

Result<SupportProfile> select_profile(const std::vector<FoundProfile>& found, std::string_view agent) {
  std::vector<std::string> known;
  std::vector<const SupportProfile*> by_adapter;
  std::vector<const SupportProfile*> by_command;
  for (const FoundProfile& each : found) {
    if (each.profile && each.profile->id == agent) {
      return *each.profile;
    }
    if (each.profile) {
      known.push_back(each.profile->id);
      if (each.profile->adapter == agent && !agent.empty()) {
        by_adapter.push_back(&*each.profile);
      }
      if (each.profile->command == agent && !agent.empty()) {
        by_command.push_back(&*each.profile);
      }
    }
  }
  for (const auto* candidates : {&by_adapter, &by_command}) {
    if (candidates->size() == 1) {
      return *candidates->front();
    }
  }
  for (const FoundProfile& each : found) {
    if (each.error && stem_of(each.file) == agent) {
      return *each.error;
    }
  }
  const std::string detail = by_adapter.empty() && by_command.empty()
                                 ? "no profile has this id, adapter or command"
                                 : "several profiles have this adapter or command: name one by its id";
  return Error{
      ErrorClass::usage,      "no-such-agent", "select agent",
      escape_cut(agent, 120), detail,          "the agents known here are: " + joined(known, "none")};
}

std::optional<Error> blocking_error(const SupportProfile& profile) {
  const std::string remedy = profile.remediation.empty() ? "" : profile.remediation.front();
  if (std::find(profile.platforms.begin(), profile.platforms.end(), "linux") == profile.platforms.end()) {
    return Error{ErrorClass::refused,
                 "profile-platform",
                 "check profile",
                 profile.id,
                 "this profile is not for Linux",
                 remedy};
  }
  if (profile.tier == Tier::unsupported) {
    return Error{ErrorClass::refused, "profile-unsupported",  "check profile",
                 profile.id,          profile.support_reason, remedy};
  }
  if (profile.tier == Tier::degraded) {
    return Error{ErrorClass::refused, "profile-degraded",     "check profile",
                 profile.id,          profile.support_reason, remedy};
  }
  return std::nullopt;
}

Result<std::optional<LoginFile>> find_login_file(const SupportProfile& profile,
                                                 const EnvironmentLookup& environment) {
  if (profile.login_source.empty()) {
    return std::optional<LoginFile>();
  }
  std::string path = profile.login_source;
  const std::optional<std::string> other =
      profile.login_variable.empty() ? std::nullopt : environment(profile.login_variable);
  if (other && other->substr(0, 1) == "/") {
    path = *other + path.substr(path.rfind('/'));
  } else if (path.front() == '~') {
    const std::optional<std::string> home = environment("HOME");
    if (!home || home->substr(0, 1) != "/") {
      return Error{ErrorClass::environment,
                   "login-missing",
                   "find login",
                   path,
                   "HOME is not an absolute path",
                   "set HOME to your home directory"};
    }
    path = *home + path.substr(1);
  }
  struct stat st {};
  if (::stat(path.c_str(), &st) != 0 || !S_ISREG(st.st_mode) || ::access(path.c_str(), R_OK) != 0) {
    const bool keyring = !profile.keyring_hint.empty();
    const std::string remedy = profile.remediation.empty() ? "" : profile.remediation.front();
    return Error{ErrorClass::environment,
                 keyring ? "login-keyring" : "login-missing",
                 "find login",
                 escape_visible(path),
                 keyring ? "there is no readable login file; a login kept in a keyring cannot be handed in"
                         : "there is no readable login file",
                 keyring ? profile.keyring_hint : remedy};
  }
  return std::optional<LoginFile>(LoginFile{std::move(path), profile.login_home_path});
}

std::vector<std::string> explain(const SupportProfile& profile) {
  std::vector<std::string> lines;
  const auto say = [&](const char* name, const std::string& text) {
    if (!text.empty()) {
      lines.push_back(std::string(name) + ": " + escape_visible(text));
    }
  };
  say("profile", profile.id + " (" + profile.display_name + ")");
  say("file", profile.file);
  say("tier", std::string(to_string(profile.tier)) + ": " + profile.support_reason);
  say("adapter", profile.adapter);
  say("transport", profile.transport);
  std::string command = profile.command;
  for (const std::string& argument : profile.launch_args) {
    command += " " + argument;
  }
  say("command", command);
  for (const LauncherRule& rule : profile.resolve) {
    say("launcher",
        rule.script + " of the npm package " + rule.package + " is replaced by its platform program");
  }
  say("version line", profile.version_line);
  say("tested versions", joined(profile.tested_versions, "any"));
  say("login",
      profile.authentication_kind +
          (profile.login_source.empty() ? "" : ", file " + profile.login_source + " is bound in alone"));
  say("variables handed over", joined(profile.environment_allowlist, "none"));
  say("credentials handed over", joined(profile.credential_allowlist, "none"));
  say("provider hosts", joined(profile.provider_hosts, "not stated"));
  say("configuration digest", profile.configuration_digest);
  say("documentation", profile.documentation_url);
  return lines;
}

}  // namespace hitchrail::profiles
