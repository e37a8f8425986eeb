#include "config.hpp"

#include <algorithm>
#include <array>

#include "hitchrail/adapter.hpp"

namespace hitchrail::codex_cli {
namespace {

constexpr std::size_t path_limit = 4096;
constexpr std::size_t short_limit = 200;
constexpr std::size_t url_limit = 2000;

[[noreturn]] void refuse(hr_result result, std::string code, std::string text) {
  throw sdk::Failure(result, std::move(code), std::move(text));
}

[[noreturn]] void refuse_option(const std::string& name, const std::string& why) {
  refuse(HR_E_ARGUMENT, "provider-option-invalid", "provider option " + name + " " + why);
}

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
  });
}

std::string read_path(const json::View& request, std::string_view name) {
  std::string path = request.get(name).string();
  if (path.empty() || path.front() != '/' || path.size() > path_limit ||
      path.find('\0') != std::string::npos) {
    refuse(HR_E_ARGUMENT, "launch-request-invalid",
           std::string(name) + " is not an absolute path that can be written as text");
  }
  return path;
}

bool is_env_name(std::string_view text) {
  if (text.empty() || text.size() > 80 || (text.front() >= '0' && text.front() <= '9')) {
    return false;
  }
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; });
}

void check_url(const std::string& url) {
  std::size_t authority = 0;
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (url.starts_with(scheme)) {
      authority = scheme.size();
    }
  }
  if (authority == 0 || authority == url.size() || url[authority] == '/' || url.size() > url_limit) {
    refuse_option("base_url", "is not an http or https address");
  }
  const bool plain = std::all_of(url.begin(), url.end(), [](char c) { return c > 0x20 && c < 0x7f; });
  if (!plain || url.find_first_of("?#\\\"'<>{}|^`") != std::string::npos) {
    refuse_option("base_url", "has a query, a fragment or a character that has to be percent-encoded");
  }
  const std::string host = url.substr(authority, url.find('/', authority) - authority);
  if (host.find('@') != std::string::npos) {
    refuse_option("base_url", "has a user or a password in it; name the variable of the key with env_key");
  }
}

// An operator's option comes as a string from the command line and as a number from a profile.
std::uint64_t read_number(const std::string& name, const json::View& value) {
  const std::string text = value.is_string() ? value.string() : std::string(value.raw());
  std::uint64_t number = 0;
  const bool digits = !text.empty() && text.size() <= 9 &&
                      std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!digits) {
    refuse_option(name, "is not a number of at most nine digits");
  }
  for (const char c : text) {
    number = number * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return number;
}

void read_option(Launch& launch, const std::string& name, const json::View& value) {
  constexpr std::array numbers{"request_max_retries", "stream_max_retries", "stream_idle_timeout_ms"};
  if (std::find(numbers.begin(), numbers.end(), name) != numbers.end()) {
    launch.provider.numbers.emplace_back(name, read_number(name, value));
    return;
  }
  const std::string text = value.string();
  if (!value.is_string() || text.empty() || text.size() > url_limit || has_control(text)) {
    refuse_option(name, "is not a text without control characters");
  }
  if (name == "base_url") {
    check_url(text);
    launch.provider.base_url = text;
  } else if (name == "env_key") {
    const auto& known = launch.credentials;
    if (!is_env_name(text) || std::find(known.begin(), known.end(), text) == known.end()) {
      refuse_option(name, "is not a name out of the profile's credential list");
    }
    launch.provider.env_key = text;
  } else if (name == "name" && text.size() <= short_limit) {
    launch.provider.name = text;
  } else if (name == "wire_api") {
    if (text != "responses") {
      refuse_option(name, "is not \"responses\", the only protocol of this version");
    }
  } else {
    refuse(
        HR_E_ARGUMENT, "provider-option-unknown",
        "provider options are base_url, env_key, name, wire_api, request_max_retries, stream_max_retries and "
        "stream_idle_timeout_ms");
  }
}

void read_provider(Launch& launch, const json::View& options) {
  if (!options.present() || options.is_null()) {
    return;
  }
  if (!options.is_object()) {
    refuse(HR_E_ARGUMENT, "provider-option-invalid", "providerOptions is not an object");
  }
  for (json::View::Walker walker(options); walker.next();) {
    launch.provider.given = true;
    read_option(launch, walker.key(), walker.value());
  }
  if (launch.provider.given && launch.provider.base_url.empty()) {
    refuse_option("base_url", "is missing; the other options describe the provider behind it");
  }
}

void read_conversation(Launch& launch, const json::View& conversation) {
  if (launch.mode != HR_LAUNCH_RESUME) {
    return;
  }
  launch.thread = conversation.get("id").string();
  if (!is_thread_id(launch.thread)) {
    // Codex takes any other word for the name of a thread, finds none and silently begins a new one.
    refuse(HR_E_ARGUMENT, "conversation-id-invalid",
           "a conversation of Codex is named by a UUID in lower case");
  }
  launch.prior_usage = conversation.get("usage");
}

void line(std::string& out, std::string_view key, std::string_view value) {
  out += key;
  out += " = ";
  out += value;
  out += '\n';
}

}  // namespace

bool is_thread_id(std::string_view text) {
  constexpr std::string_view form = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
  if (text.size() != form.size()) {
    return false;
  }
  for (std::size_t i = 0; i < form.size(); ++i) {
    const bool hex = (text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f');
    if (form[i] == '-' ? text[i] != '-' : !hex) {
      return false;
    }
  }
  return true;
}

std::string toml_string(std::string_view text) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\u00";
      out += digits[byte >> 4];
      out += digits[byte & 15u];
    } else {
      out += c;
    }
  }
  return out + '"';
}

Launch read_launch(std::string_view request, std::uint32_t mode) {
  if (mode != HR_LAUNCH_NEW && mode != HR_LAUNCH_RESUME) {
    refuse(HR_E_UNSUPPORTED, "fork-unsupported",
           "codex exec cannot begin a conversation from another one's history");
  }
  if (!json::valid(request) || !json::View(request).is_object()) {
    refuse(HR_E_ARGUMENT, "launch-request-invalid", "the launch request is not a JSON object");
  }
  const json::View view(request);
  Launch launch;
  launch.mode = mode;
  launch.worktree = read_path(view, "worktree");
  launch.home = read_path(view, "home");
  launch.model = view.get("model").string();
  if (launch.model.size() > short_limit || has_control(launch.model)) {
    refuse(HR_E_ARGUMENT, "launch-request-invalid", "model is not a short text without control characters");
  }
  launch.delegated = view.get("providerSandbox").equals("delegated");
  for (json::View::Walker walker(view.get("credentials")); walker.next();) {
    launch.credentials.push_back(walker.value().string());
    if (!is_env_name(launch.credentials.back())) {
      refuse(HR_E_ARGUMENT, "launch-request-invalid",
             "credentials holds something that is no variable's name");
    }
  }
  read_provider(launch, view.get("providerOptions"));
  read_conversation(launch, view.get("conversation"));
  return launch;
}

std::string config_toml(const Launch& launch) {
  std::string out = "# Written before every launch; changes are lost.\n";
  if (!launch.model.empty()) {
    line(out, "model", toml_string(launch.model));
  }
  if (launch.provider.given) {
    line(out, "model_provider", "\"operator\"");
  }
  line(out, "check_for_update_on_startup", "false");
  line(out, "cli_auth_credentials_store", "\"file\"");
  // With analytics or plugins on, and no network, the end of a run waits five seconds for hosts it cannot
  // reach. A shell snapshot would give tool commands the credentials back that the policy below takes away.
  out += "\n[analytics]\nenabled = false\n";
  out += "\n[features]\nplugins = false\napps = false\nhooks = false\nshell_snapshot = false\n";
  out += "\n[history]\npersistence = \"none\"\n";
  if (!launch.credentials.empty()) {
    out += "\n[shell_environment_policy]\nexclude = [";
    for (std::size_t i = 0; i < launch.credentials.size(); ++i) {
      out += (i == 0 ? "" : ", ") + toml_string(launch.credentials[i]);
    }
    out += "]\n";
  }
  if (launch.provider.given) {
    out += "\n[model_providers.operator]\n";
    line(out, "name", toml_string(launch.provider.name.empty() ? "operator" : launch.provider.name));
    line(out, "base_url", toml_string(launch.provider.base_url));
    line(out, "wire_api", "\"responses\"");
    if (!launch.provider.env_key.empty()) {
      line(out, "env_key", toml_string(launch.provider.env_key));
    }
    for (const auto& [name, value] : launch.provider.numbers) {
      line(out, name, std::to_string(value));
    }
  }
  // Without this entry a writable run marks the repository trusted by itself and starts what its .codex/
  // names.
  out += "\n[projects." + toml_string(launch.worktree) + "]\ntrust_level = \"untrusted\"\n";
  return out;
}

std::vector<std::string> arguments(const Launch& launch) {
  std::vector<std::string> argv{"exec",
                                "--json",
                                "--strict-config",
                                "--skip-git-repo-check",
                                "--sandbox",
                                launch.delegated ? "danger-full-access" : "workspace-write",
                                "--output-last-message",
                                launch.home + "/" + std::string(last_message_file)};
  // Options of exec stand before the word: resume knows none of them.
  if (launch.mode == HR_LAUNCH_RESUME) {
    argv.insert(argv.end(), {"resume", launch.thread});
  }
  argv.emplace_back("-");
  return argv;
}

}  // namespace hitchrail::codex_cli
