#include "profiles/profiles.hpp"

#include <algorithm>

#include "core/canonical.hpp"
#include "core/secret_shapes.hpp"
#include "core/text.hpp"
#include "profiles/credentials.hpp"
#include "profiles/version.hpp"
#include "profiles/yaml.hpp"

namespace hitchrail::profiles {
namespace {

constexpr const char* kSchema = "harness-support-profile/v1";
constexpr const char* kInvalid = "profile-invalid";

bool is_id(std::string_view text) {
  const auto alnum = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  return !text.empty() && text.size() <= 120 && alnum(text.front()) &&
         std::all_of(text.begin(), text.end(), [&](char c) {
           return alnum(c) || std::string_view("._:/-").find(c) != std::string_view::npos;
         });
}

bool is_environment_key(std::string_view text) {
  return text.size() >= 2 && text.size() <= 80 && text.front() >= 'A' && text.front() <= 'Z' &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; });
}

bool is_digest(std::string_view text) {
  return text.size() == 71 && text.substr(0, 7) == "sha256:" &&
         text.find_first_not_of("0123456789abcdef", 7) == std::string_view::npos;
}

// A path that stays below where it is joined to.
bool is_inner_path(std::string_view path) {
  if (path.empty() || path.front() == '/' || path.back() == '/') {
    return false;
  }
  const std::string framed = "/" + std::string(path) + "/";
  return framed.find("/../") == std::string::npos && framed.find("/./") == std::string::npos &&
         framed.find("//") == std::string::npos;
}

bool is_host(std::string_view text) {
  const std::string_view name = text.substr(0, text.find(':'));
  const std::string_view port = name.size() == text.size() ? "443" : text.substr(name.size() + 1);
  return !name.empty() && name.size() <= 253 && name.front() != '.' && name.front() != '-' &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789.-") == std::string_view::npos &&
         !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string_view::npos;
}

json::Value texts_json(const std::vector<std::string>& texts) {
  json::Value list = json::Value::array();
  for (const std::string& text : texts) {
    list.push(text);
  }
  return list;
}

void set_text(json::Value& object, const char* key, const std::string& text) {
  if (!text.empty()) {
    object.set(key, text);
  }
}

class ProfileReader {
 public:
  explicit ProfileReader(const yaml::Document& document)
      : reader_(document),
        root_(reader_, document.root, "",
              {"schemaVersion", "id", "displayName", "adapterId", "adapter", "transport", "supportTier",
               "supportReason", "executable", "authentication", "compatibility", "platforms", "launch",
               "conformance", "providerHosts", "workspaceFiles", "toolCatalogDelivery", "documentationUrl",
               "remediation"}) {
    profile_.file = document.file;
  }

  Result<SupportProfile> run() {
    identity();
    executable();
    authentication();
    compatibility();
    launch();
    workspace_files();
    conformance();
    HR_CHECK(reader_.status());
    cross_checks();
    HR_CHECK(reader_.status());
    redact();
    HR_CHECK(seal());
    HR_CHECK(reader_.status());
    return std::move(profile_);
  }

 private:
  void fail(const yaml::Fields& fields, std::string_view key, std::string detail, std::string remedy = "") {
    reader_.fail(fields.mark(key), kInvalid, "`" + fields.name(key) + "` " + std::move(detail),
                 std::move(remedy));
  }

  // A text for people, which may hold no secret.
  std::string prose(yaml::Fields& fields, std::string_view key, std::size_t max) {
    std::string text = fields.text(key, {.min = 1, .max = max, .lines = true});
    check_secret(fields, key, text);
    return text;
  }

  void check_secret(const yaml::Fields& fields, std::string_view key, std::string_view text) {
    if (holds_secret_shape(text)) {
      reader_.fail(fields.mark(key), "profile-secret",
                   "`" + fields.name(key) + "` holds what looks like a secret",
                   "take it out and replace the secret where it is valid");
    }
  }

  std::string id(yaml::Fields& fields, std::string_view key) {
    std::string text = fields.text(key, {.min = 1, .max = 120});
    if (!reader_.failed() && !is_id(text)) {
      fail(fields, key, "must begin with a letter or digit and hold only letters, digits and . _ : / -");
    }
    return text;
  }

  std::vector<std::string> keys(yaml::Fields& fields, std::string_view key, std::size_t max_items) {
    std::vector<std::string> names = fields.texts(key, {.max_items = max_items, .max = 80});
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (!is_environment_key(names[i])) {
        reader_.fail(fields.find(key)->items[i].at, kInvalid,
                     "`" + fields.name(key) + "` holds `" + escape_cut(names[i], 40) +
                         "`, which is no environment variable name of capital letters, digits and _");
      }
    }
    return names;
  }

  void identity() {
    root_.choice("schemaVersion", {kSchema});
    profile_.id = id(root_, "id");
    profile_.display_name = root_.text("displayName", {.max = 120});
    profile_.adapter_id = root_.has("adapterId") ? id(root_, "adapterId") : "";
    profile_.adapter = root_.has("adapter") ? id(root_, "adapter") : profile_.adapter_id;
    profile_.transport = root_.choice("transport", {"process-jsonl", "process-text", "sdk", "http-tools",
                                                    "acp", "app-server", "unsupported"});
    const std::string tier =
        root_.choice("supportTier", {"detected", "configured", "certified", "degraded", "unsupported"});
    for (const Tier each :
         {Tier::detected, Tier::configured, Tier::certified, Tier::degraded, Tier::unsupported}) {
      if (to_string(each) == tier) {
        profile_.tier = each;
      }
    }
    profile_.support_reason = prose(root_, "supportReason", 1000);
    profile_.platforms =
        root_.choices("platforms", {.min_items = 1, .max_items = 3}, {"darwin", "linux", "win32"});
    profile_.documentation_url = root_.text("documentationUrl", {.max = 500});
    profile_.remediation = root_.texts("remediation", {.min_items = 1, .max_items = 16, .max = 1000});
    for (const std::string& line : profile_.remediation) {
      check_secret(root_, "remediation", line);
    }
    profile_.provider_hosts = root_.texts("providerHosts", {.max_items = 64, .max = 260});
    for (std::size_t i = 0; i < profile_.provider_hosts.size(); ++i) {
      if (!is_host(profile_.provider_hosts[i])) {
        reader_.fail(root_.find("providerHosts")->items[i].at, kInvalid,
                     "`providerHosts` holds `" + escape_cut(profile_.provider_hosts[i], 60) +
                         "`, which is no host name in small letters with or without a port");
      }
    }
    tool_catalog_ = root_.has("toolCatalogDelivery")
                        ? root_.choice("toolCatalogDelivery", {"native", "veritas-bridge"})
                        : "native";
  }

  void executable() {
    yaml::Fields fields =
        root_.mapping("executable", {"command", "versionArgs", "versionLine", "resolve", "packageRoot"});
    profile_.command = fields.text("command", {.max = 500});
    profile_.version_args = fields.texts("versionArgs", {.max_items = 16, .max = 500, .unique = false});
    profile_.version_line = fields.optional_text("versionLine", {.max = 200});
    if (reader_.failed()) {
      return;
    }
    if (profile_.command.find('/') != std::string::npos && profile_.command.front() != '/') {
      fail(fields, "command", "must be a program's name or an absolute path");
    }
    const auto bad = check_version_line(profile_.version_line);
    if (bad) {
      fail(fields, "versionLine", *bad);
    } else if (!profile_.version_line.empty() && profile_.version_args.empty()) {
      fail(fields, "versionLine", "needs `executable.versionArgs`");
    }
    for (yaml::Fields& rule : fields.mappings("resolve", {"package", "script", "programs"}, 8)) {
      launcher_rule(rule);
    }
    if (fields.has("packageRoot")) {
      yaml::Fields package = fields.mapping("packageRoot", {"marker", "levels"});
      profile_.package_marker = package.text("marker", {.max = 255});
      profile_.package_levels =
          static_cast<std::size_t>(package.optional_integer("levels", 1, 8).value_or(2));
      if (!reader_.failed() && !is_inner_path(profile_.package_marker)) {
        fail(package, "marker", "must be a path below the package");
      }
    }
  }

  void launcher_rule(yaml::Fields& fields) {
    LauncherRule rule;
    rule.package = inner_path(fields, "package");
    rule.script = inner_path(fields, "script");
    for (yaml::Fields& each : fields.mappings("programs", {"machine", "package", "program"}, 16)) {
      PlatformProgram program;
      program.machine = each.text("machine", {.max = 40});
      program.package = inner_path(each, "package");
      program.program = inner_path(each, "program");
      rule.programs.push_back(std::move(program));
    }
    if (rule.programs.empty()) {
      fail(fields, "programs", "must name a program for at least one machine");
    }
    profile_.resolve.push_back(std::move(rule));
  }

  std::string inner_path(yaml::Fields& fields, std::string_view key) {
    std::string path = fields.text(key, {.max = 500});
    if (!reader_.failed() && !is_inner_path(path)) {
      fail(fields, key, "must be a relative path without . and ..");
    }
    return path;
  }

  void authentication() {
    yaml::Fields fields = root_.mapping("authentication", {"kind", "commandArgs", "environmentKeys",
                                                           "nonMutating", "loginFile", "keyringHint"});
    profile_.authentication_kind =
        fields.choice("kind", {"command", "environment", "provider-managed", "none"});
    profile_.authentication_args =
        fields.texts("commandArgs", {.max_items = 16, .max = 500, .unique = false});
    profile_.authentication_keys = keys(fields, "environmentKeys", 32);
    if (!fields.boolean("nonMutating")) {
      fail(fields, "nonMutating", "must be true: looking at a login may not change it");
    }
    if (fields.has("loginFile")) {
      yaml::Fields login = fields.mapping("loginFile", {"source", "directoryVariable", "homePath"});
      profile_.login_source = login.text("source", {.max = 500});
      profile_.login_home_path = inner_path(login, "homePath");
      profile_.login_variable = login.optional_text("directoryVariable", {.max = 80});
      const std::string& source = profile_.login_source;
      const bool below_home = source.substr(0, 2) == "~/" && is_inner_path(source.substr(2));
      const bool absolute =
          source.substr(0, 1) == "/" && source.size() > 1 && is_inner_path(source.substr(1));
      if (!reader_.failed() && !below_home && !absolute) {
        fail(login, "source", "must be an absolute path or begin with ~/");
      }
      if (!profile_.login_variable.empty() && !is_environment_key(profile_.login_variable)) {
        fail(login, "directoryVariable", "is no environment variable name");
      }
    }
    if (fields.has("keyringHint")) {
      profile_.keyring_hint = prose(fields, "keyringHint", 1000);
    }
    if (profile_.authentication_kind == "command" && profile_.authentication_args.empty()) {
      fail(fields, "kind", "`command` needs `authentication.commandArgs`");
    }
    if (profile_.authentication_kind == "environment" && profile_.authentication_keys.empty()) {
      fail(fields, "kind", "`environment` needs `authentication.environmentKeys`");
    }
    if (!profile_.keyring_hint.empty() && profile_.login_source.empty()) {
      fail(fields, "keyringHint", "needs `authentication.loginFile`");
    }
  }

  void compatibility() {
    yaml::Fields fields =
        root_.mapping("compatibility", {"policy", "testedVersions", "invalidateOn", "configurationDigest"});
    profile_.compatibility_policy = prose(fields, "policy", 1000);
    profile_.tested_versions = fields.texts("testedVersions", {.max_items = 100, .max = 200});
    profile_.invalidate_on =
        fields.choices("invalidateOn", {.min_items = 1, .max_items = 4},
                       {"provider-version", "provider-build", "configuration-digest", "probe-revision"});
    stated_digest_ = digest(fields, "configurationDigest");
    stated_digest_mark_ = fields.mark("configurationDigest");
  }

  std::string digest(yaml::Fields& fields, std::string_view key) {
    std::string text = fields.optional_text(key, {.max = 100});
    if (!text.empty() && !is_digest(text)) {
      fail(fields, key, "must be sha256: and 64 small hexadecimal digits");
    }
    return text;
  }

  void launch() {
    yaml::Fields fields = root_.mapping(
        "launch", {"args", "workingDirectory", "worktree", "environmentAllowlist", "credentialAllowlist"});
    profile_.launch_args = fields.texts("args", {.max_items = 64, .max = 500, .unique = false});
    profile_.working_directory =
        fields.choice("workingDirectory", {"task-worktree", "workspace", "provider-managed"});
    profile_.worktree = fields.choice("worktree", {"required", "supported", "provider-managed"});
    profile_.environment_allowlist = keys(fields, "environmentAllowlist", 64);
    profile_.credential_allowlist = keys(fields, "credentialAllowlist", 64);
  }

  // The form of a pattern; whose place it is, the trust scan knows.
  std::vector<std::string> patterns(yaml::Fields& fields, std::string_view key) {
    std::vector<std::string> texts = fields.texts(key, {.max_items = 64, .max = 500});
    for (std::size_t i = 0; i < texts.size(); ++i) {
      std::string_view path = texts[i];
      for (const std::string_view prefix : {"**/", ".../"}) {
        if (path.starts_with(prefix)) {
          path.remove_prefix(prefix.size());
          break;
        }
      }
      if (path.ends_with("/**")) {
        path.remove_suffix(3);
      }
      const bool git = path == ".git" || path.starts_with(".git/");
      if (!is_inner_path(path) || path.find_first_of("*?[\\") != std::string_view::npos || git ||
          path.starts_with(".../") || path.find("/.../") != std::string_view::npos) {
        reader_.fail(
            fields.find(key)->items[i].at, kInvalid,
            "`" + fields.name(key) + "` holds `" + escape_cut(texts[i], 60) +
                "`, which is no place of a repository: NAME, DIR/NAME or DIR/**, with `.../` before it "
                "for every level down to the working directory or `**/` for any directory");
      }
    }
    return texts;
  }

  void workspace_files() {
    if (!root_.has("workspaceFiles")) {
      return;
    }
    yaml::Fields fields = root_.mapping("workspaceFiles", {"instructions", "executable"});
    profile_.workspace_files_stated = true;
    profile_.workspace_instructions = patterns(fields, "instructions");
    profile_.workspace_executable = patterns(fields, "executable");
  }

  void conformance() {
    yaml::Fields fields = root_.mapping(
        "conformance", {"fixtureSet", "status", "certifiedAt", "providerVersion", "providerBuild",
                        "manifestDigest", "configurationDigest", "probeRevision"});
    json::Value& out = profile_.conformance;
    out = json::Value::object();
    out.set("fixtureSet", id(fields, "fixtureSet"));
    const std::string status = fields.choice("status", {"not-run", "passed", "failed", "stale"});
    out.set("status", status);
    set_text(out, "certifiedAt", fields.optional_text("certifiedAt", {.max = 40}));
    set_text(out, "providerVersion", fields.optional_text("providerVersion", {.max = 200}));
    set_text(out, "providerBuild", fields.optional_text("providerBuild", {.max = 300}));
    set_text(out, "manifestDigest", digest(fields, "manifestDigest"));
    set_text(out, "configurationDigest", digest(fields, "configurationDigest"));
    if (const auto revision = fields.optional_integer("probeRevision", 1, 1'000'000)) {
      out.set("probeRevision", *revision);
    }
    if (status == "passed") {
      for (const char* key :
           {"certifiedAt", "providerVersion", "manifestDigest", "configurationDigest", "probeRevision"}) {
        if (out.find(key) == nullptr) {
          fail(fields, "status", std::string("`passed` needs `conformance.") + key + "`");
        }
      }
    }
  }

  void cross_checks() {
    if (profile_.tier != Tier::unsupported && profile_.adapter_id.empty()) {
      fail(root_, "supportTier", "needs `adapterId` unless it is `unsupported`");
    }
    if (!profile_.adapter_id.empty() && profile_.transport == "unsupported") {
      fail(root_, "transport", "cannot be `unsupported` where there is an `adapterId`");
    }
    if (profile_.tier == Tier::certified && profile_.conformance.get("status").as_string() != "passed") {
      fail(root_, "supportTier", "`certified` needs `conformance.status: passed`");
    }
    if (root_.has("adapter") && profile_.adapter_id.empty()) {
      fail(root_, "adapter", "needs `adapterId`");
    }
  }

  void redact() {
    bool dirty = redact_command(profile_.command);
    for (std::vector<std::string>* list :
         {&profile_.version_args, &profile_.authentication_args, &profile_.launch_args}) {
      dirty = redact_arguments(*list) || dirty;
    }
    if (dirty) {
      profile_.tier = Tier::degraded;
      profile_.support_reason = "the command or an argument of this profile holds credential material";
      profile_.remediation.insert(
          profile_.remediation.begin(),
          "Take the credential out of the profile and hand it over by a variable of credentialAllowlist.");
      profile_.remediation.resize(std::min<std::size_t>(profile_.remediation.size(), 16));
    }
  }

  json::Value executable_json() const {
    json::Value out = json::Value::object();
    out.set("command", profile_.command);
    out.set("versionArgs", texts_json(profile_.version_args));
    set_text(out, "versionLine", profile_.version_line);
    json::Value rules = json::Value::array();
    for (const LauncherRule& rule : profile_.resolve) {
      json::Value programs = json::Value::array();
      for (const PlatformProgram& program : rule.programs) {
        programs.push(json::Value::object(
            {{"machine", program.machine}, {"package", program.package}, {"program", program.program}}));
      }
      rules.push(
          json::Value::object({{"package", rule.package}, {"script", rule.script}, {"programs", programs}}));
    }
    if (!profile_.resolve.empty()) {
      out.set("resolve", std::move(rules));
    }
    if (!profile_.package_marker.empty()) {
      out.set("packageRoot",
              json::Value::object({{"marker", profile_.package_marker},
                                   {"levels", static_cast<std::int64_t>(profile_.package_levels)}}));
    }
    return out;
  }

  json::Value authentication_json() const {
    json::Value out = json::Value::object();
    out.set("kind", profile_.authentication_kind);
    if (!profile_.authentication_args.empty()) {
      out.set("commandArgs", texts_json(profile_.authentication_args));
    }
    if (!profile_.authentication_keys.empty()) {
      out.set("environmentKeys", texts_json(profile_.authentication_keys));
    }
    out.set("nonMutating", true);
    if (!profile_.login_source.empty()) {
      json::Value login = json::Value::object();
      login.set("source", profile_.login_source);
      set_text(login, "directoryVariable", profile_.login_variable);
      login.set("homePath", profile_.login_home_path);
      out.set("loginFile", std::move(login));
    }
    set_text(out, "keyringHint", profile_.keyring_hint);
    return out;
  }

  json::Value launch_json() const {
    return json::Value::object({{"args", texts_json(profile_.launch_args)},
                                {"workingDirectory", profile_.working_directory},
                                {"worktree", profile_.worktree},
                                {"environmentAllowlist", texts_json(profile_.environment_allowlist)},
                                {"credentialAllowlist", texts_json(profile_.credential_allowlist)}});
  }

  void set_workspace_files(json::Value& out) const {
    if (profile_.workspace_files_stated) {
      out.set("workspaceFiles",
              json::Value::object({{"instructions", texts_json(profile_.workspace_instructions)},
                                   {"executable", texts_json(profile_.workspace_executable)}}));
    }
  }

  // What the digest of a configuration covers: everything that changes what is started, nothing that is only
  // said.
  json::Value configuration() const {
    json::Value out = json::Value::object({{"profileId", profile_.id}});
    set_text(out, "adapterId", profile_.adapter_id);
    set_text(out, "adapter", profile_.adapter);
    out.set("transport", profile_.transport);
    out.set("executable", executable_json());
    out.set("authentication", authentication_json());
    out.set("platforms", texts_json(profile_.platforms));
    out.set("launch", launch_json());
    out.set("providerHosts", texts_json(profile_.provider_hosts));
    set_workspace_files(out);
    out.set("toolCatalogDelivery", tool_catalog_);
    return out;
  }

  Status seal() {
    profile_.configuration = configuration();
    HR_TRY(digest, document_digest(profile_.configuration));
    profile_.configuration_digest = digest;
    if (!stated_digest_.empty() && stated_digest_ != digest) {
      reader_.fail(stated_digest_mark_, "profile-digest-mismatch",
                   "`compatibility.configurationDigest` is not the digest of this configuration, " + digest,
                   "look at what was changed, then state the new digest or leave the field out");
      return {};
    }
    json::Value document = json::Value::object({{"schemaVersion", kSchema}});
    document.set("id", profile_.id);
    document.set("displayName", profile_.display_name);
    set_text(document, "adapterId", profile_.adapter_id);
    set_text(document, "adapter", profile_.adapter);
    document.set("transport", profile_.transport);
    document.set("supportTier", to_string(profile_.tier));
    document.set("supportReason", profile_.support_reason);
    document.set("executable", executable_json());
    document.set("authentication", authentication_json());
    document.set("compatibility",
                 json::Value::object({{"policy", profile_.compatibility_policy},
                                      {"testedVersions", texts_json(profile_.tested_versions)},
                                      {"invalidateOn", texts_json(profile_.invalidate_on)},
                                      {"configurationDigest", digest}}));
    document.set("platforms", texts_json(profile_.platforms));
    document.set("launch", launch_json());
    document.set("conformance", profile_.conformance);
    document.set("providerHosts", texts_json(profile_.provider_hosts));
    set_workspace_files(document);
    document.set("toolCatalogDelivery", tool_catalog_);
    document.set("documentationUrl", profile_.documentation_url);
    document.set("remediation", texts_json(profile_.remediation));
    HR_CHECK(seal_document(document));
    profile_.document = std::move(document);
    return {};
  }

  yaml::Reader reader_;
  yaml::Fields root_;
  SupportProfile profile_;
  std::string tool_catalog_;
  std::string stated_digest_;
  yaml::Mark stated_digest_mark_;
};

}  // namespace

std::string_view to_string(Tier tier) {
  switch (tier) {
    case Tier::detected:
      return "detected";
    case Tier::configured:
      return "configured";
    case Tier::certified:
      return "certified";
    case Tier::degraded:
      return "degraded";
    case Tier::unsupported:
      break;
  }
  return "unsupported";
}

Result<SupportProfile> parse_profile(std::string_view text, const std::string& file) {
  HR_TRY(document, yaml::parse(text, file, "read profile"));
  return ProfileReader(document).run();
}

Result<SupportProfile> load_profile(const std::string& path) {
  HR_TRY(document, yaml::read_file(path, "read profile"));
  return ProfileReader(document).run();
}

}  // namespace hitchrail::profiles
