#include "boundary/preset.hpp"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>

#include "boundary/boundary.hpp"
#include "core/canonical.hpp"
#include "core/json.hpp"
#include "profiles/yaml.hpp"

namespace hitchrail::boundary {
namespace {

constexpr std::int64_t min_memory = 16 << 20;  // less starts no program worth a run

std::string program_directory() {
  char buffer[PATH_MAX];
  const ssize_t size = readlink("/proc/self/exe", buffer, sizeof buffer);
  if (size <= 0) {
    return "";
  }
  const std::string path(buffer, static_cast<std::size_t>(size));
  return path.substr(0, path.rfind('/'));
}

// The forms a policy path may have; whether `.` and `..` are in it is judged here too, so that a preset
// cannot be written that only fails at launch.
bool known_form(const std::string& path) {
  const bool form = path[0] == '/' || path == "~" || path.rfind("~/", 0) == 0 || path == "<workspace>" ||
                    path.rfind("<workspace>/", 0) == 0;
  if (!form || path.find('\0') != std::string::npos) {
    return false;
  }
  std::size_t start = path.find('/');
  while (start != std::string::npos && start + 1 < path.size()) {
    const std::size_t end = std::min(path.find('/', start + 1), path.size());
    const std::string_view part(path.data() + start + 1, end - start - 1);
    if (part.empty() || part == "." || part == "..") {
      return false;
    }
    start = end == path.size() ? std::string::npos : end;
  }
  return path == "/" || path.back() != '/';
}

std::vector<std::string> read_paths(yaml::Reader& reader, yaml::Fields& fields, const char* key) {
  std::vector<std::string> paths = fields.texts(key, {.max_items = 100, .max = 1000});
  for (const std::string& path : paths) {
    if (!known_form(path)) {
      reader.fail(fields.mark(key), "preset-path-form",
                  fields.name(key) +
                      ": a path is <workspace>, <workspace>/x, ~, ~/x or absolute, without . " +
                      "and .., not '" + path + "'");
    }
  }
  return paths;
}

// `name`, `*.name`, each with `:port`. A DNS name of two labels or more, without address forms: what an
// address stands for is decided by nobody's spelling, and a fixed relay is the way to a literal one.
bool host_name(std::string host) {
  if (const std::size_t colon = host.find(':'); colon != std::string::npos) {
    const std::string port = host.substr(colon + 1);
    const bool digits = !port.empty() && port.size() <= 5 && port.front() != '0' &&
                        std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!digits || std::stoi(port) > 65535) {
      return false;
    }
    host.resize(colon);
  }
  host.erase(0, host.rfind("*.", 0) == 0 ? 2 : 0);
  if (host.empty() || host.size() > 253 || host.find('.') == std::string::npos) {
    return false;
  }
  std::size_t start = 0;
  std::string_view label;
  while (start <= host.size()) {
    const std::size_t end = std::min(host.find('.', start), host.size());
    label = std::string_view(host).substr(start, end - start);
    const bool characters = std::all_of(label.begin(), label.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
    });
    if (label.empty() || label.size() > 63 || !characters || label.front() == '-' || label.back() == '-') {
      return false;
    }
    start = end + 1;
  }
  return std::any_of(label.begin(), label.end(), [](char c) { return c >= 'a' && c <= 'z'; }) &&
         label.rfind("0x", 0) != 0;
}

void read_network(yaml::Reader& reader, yaml::Fields& root, Preset& preset) {
  const auto mode = [](const std::string& word) {
    return word == "none" ? Network::none : word == "gate" ? Network::gate : Network::host;
  };
  const yaml::Node* node = root.find("network");
  if (node == nullptr || node->kind != yaml::Kind::mapping) {
    preset.network = mode(root.choice("network", {"host", "none", "gate"}));
    return;
  }
  yaml::Fields network = root.mapping("network", {"mode", "allowedHosts"});
  preset.network = mode(network.choice("mode", {"host", "none", "gate"}));
  preset.allowed_hosts = network.texts("allowedHosts", {.max_items = 100, .max = 253});
  for (std::string& host : preset.allowed_hosts) {
    for (char& c : host) {
      c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
    if (!host_name(host)) {
      reader.fail(
          network.mark("allowedHosts"), "preset-host-form",
          network.name("allowedHosts") + ": a host is name, *.name or either with :port, not '" + host + "'");
    }
  }
  if (preset.network != Network::gate && !preset.allowed_hosts.empty()) {
    reader.fail(network.mark("allowedHosts"), "preset-hosts-unheld",
                network.name("allowedHosts") + ": only network mode gate can hold a list of hosts");
  }
}

void read_filesystem(yaml::Reader& reader, yaml::Fields& root, Preset& preset) {
  yaml::Fields filesystem = root.mapping("filesystem", {"readPaths", "writePaths", "deniedPaths", "stores",
                                                        "dotfileMasking", "localOnlyHandles"});
  preset.read_paths = read_paths(reader, filesystem, "readPaths");
  preset.write_paths = read_paths(reader, filesystem, "writePaths");
  preset.denied_paths = read_paths(reader, filesystem, "deniedPaths");
  preset.stores = read_paths(reader, filesystem, "stores");
  preset.dotfile_masking = filesystem.optional_boolean("dotfileMasking").value_or(false);
  preset.local_only_handles = filesystem.optional_boolean("localOnlyHandles").value_or(false);
}

void read_rest(yaml::Reader& reader, yaml::Fields& root, Preset& preset) {
  preset.environment = root.texts("environment", {.max_items = 120, .max = 120});
  for (const std::string& name : preset.environment) {
    if (name.find('=') != std::string::npos) {
      reader.fail(root.mark("environment"), "preset-environment-form",
                  "environment: names only, a value never stands in a preset");
    }
  }
  if (root.has("credentials")) {
    const std::string mode = root.choice("credentials", {"none", "environment", "login"});
    preset.credentials = mode == "none"          ? Credentials::none
                         : mode == "environment" ? Credentials::environment
                                                 : Credentials::login;
  }
  if (root.has("limits")) {
    yaml::Fields limits = root.mapping("limits", {"maxProcesses", "maxMemory"});
    preset.max_processes =
        static_cast<std::uint64_t>(limits.optional_integer("maxProcesses", 1, 1'000'000).value_or(0));
    preset.max_memory = static_cast<std::uint64_t>(
        limits.optional_integer("maxMemory", min_memory, std::int64_t{1} << 50).value_or(0));
  }
  for (const std::string& capability : preset.required_capabilities) {
    if (!std::binary_search(capability_names().begin(), capability_names().end(), capability)) {
      reader.fail(root.mark("requiredCapabilities"), "capability-unknown",
                  "requiredCapabilities: no boundary can prove '" + capability + "'");
    }
  }
}

bool id_form(const std::string& id) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return !id.empty() && letter(id.front()) &&
         std::all_of(id.begin(), id.end(), [&](char c) { return letter(c) || c == '-' || c == '_'; });
}

Result<Preset> read_preset(const yaml::Document& document) {
  yaml::Reader reader(document);
  yaml::Fields root(reader, document.root, "",
                    {"schemaVersion", "id", "name", "description", "enforcement", "requiredCapabilities",
                     "filesystem", "network", "environment", "credentials", "limits"});
  Preset preset;
  root.choice("schemaVersion", {"sandbox-preset/v1"});
  preset.id = root.text("id", {.max = 80});
  if (!preset.id.empty() && !id_form(preset.id)) {
    reader.fail(root.mark("id"), "preset-id-form",
                "id: small letters, digits, - and _, beginning with none of these two");
  }
  preset.name = root.text("name", {.max = 120});
  preset.description = root.optional_text("description", {.max = 800, .lines = true});
  preset.enforcement = root.choice("enforcement", {"required", "advisory"}) == "advisory"
                           ? Enforcement::advisory
                           : Enforcement::required;
  preset.required_capabilities = root.texts("requiredCapabilities", {.max_items = 50, .max = 80});
  read_filesystem(reader, root, preset);
  read_network(reader, root, preset);
  read_rest(reader, root, preset);
  HR_CHECK(reader.status());
  for (auto* list : {&preset.required_capabilities, &preset.read_paths, &preset.write_paths,
                     &preset.denied_paths, &preset.stores, &preset.allowed_hosts, &preset.environment}) {
    std::sort(list->begin(), list->end());
    list->erase(std::unique(list->begin(), list->end()), list->end());
  }
  preset.document = yaml::to_json(document.root);
  HR_TRY(digest, document_digest(preset.document));
  preset.digest = std::move(digest);
  return preset;
}

}  // namespace

const char* network_name(Network network) {
  return network == Network::host ? "host" : network == Network::none ? "none" : "gate";
}

const char* credentials_name(Credentials credentials) {
  return credentials == Credentials::none          ? "none"
         : credentials == Credentials::environment ? "environment"
                                                   : "login";
}

Result<Preset> parse_preset(std::string_view text, const std::string& file_name) {
  HR_TRY(document, yaml::parse(text, file_name, "read preset"));
  return read_preset(document);
}

Result<Preset> load_preset(const std::string& path_or_name) {
  const bool is_path = path_or_name.find('/') != std::string::npos || path_or_name.ends_with(".yaml");
  if (is_path) {
    HR_TRY(document, yaml::read_file(path_or_name, "read preset"));
    return read_preset(document);
  }
  const std::string programs = program_directory();
  std::vector<std::string> places;
  if (const char* folder = std::getenv("HITCHRAIL_PROFILES")) {
    places.push_back(std::string(folder) + "/sandbox");
  }
  places.push_back(programs + "/../share/hitchrail/profiles/sandbox");
#ifdef HITCHRAIL_SOURCE_PROFILES
  places.emplace_back(HITCHRAIL_SOURCE_PROFILES "/sandbox");  // a build that was not installed
#endif
  for (const std::string& place : places) {
    const std::string path = place + "/" + path_or_name + ".yaml";
    if (access(path.c_str(), F_OK) == 0) {
      HR_TRY(document, yaml::read_file(path, "read preset"));
      return read_preset(document);
    }
  }
  return Error{ErrorClass::usage,
               "preset-unknown",
               "find preset",
               path_or_name,
               "No preset of this name is installed.",
               "Known by default: workspace."};
}

}  // namespace hitchrail::boundary
