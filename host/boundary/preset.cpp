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

std::string program_directory() {
  char buffer[PATH_MAX];
  const ssize_t size = readlink("/proc/self/exe", buffer, sizeof buffer);
  if (size <= 0) {
    return "";
  }
  const std::string path(buffer, static_cast<std::size_t>(size));
  return path.substr(0, path.rfind('/'));
}

void check_paths(yaml::Reader& reader, const yaml::Fields& fields, const char* key,
                 const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    const bool known = path[0] == '/' || path.rfind("~/", 0) == 0 || path == "<workspace>" ||
                       path.rfind("<workspace>/", 0) == 0;
    if (!known) {
      reader.fail(
          fields.mark(key), "preset-path-form",
          fields.name(key) + ": a path is <workspace>, <workspace>/x, ~/x or absolute, not '" + path + "'");
    }
  }
}

Result<Preset> read_preset(const yaml::Document& document) {
  yaml::Reader reader(document);
  yaml::Fields root(reader, document.root, "",
                    {"schemaVersion", "id", "name", "description", "enforcement", "requiredCapabilities",
                     "filesystem", "network", "environment", "limits"});
  Preset preset;
  root.choice("schemaVersion", {"sandbox-preset/v1"});
  preset.id = root.text("id", {.max = 80});
  preset.name = root.text("name", {.max = 120});
  preset.description = root.optional_text("description", {.max = 800, .lines = true});
  preset.enforcement = root.choice("enforcement", {"required", "advisory"}) == "advisory"
                           ? Enforcement::advisory
                           : Enforcement::required;
  preset.required_capabilities = root.texts("requiredCapabilities", {.max_items = 50, .max = 80});
  yaml::Fields filesystem = root.mapping("filesystem", {"readPaths", "writePaths", "deniedPaths"});
  const yaml::ListRule paths{.max_items = 100, .max = 1000};
  preset.read_paths = filesystem.texts("readPaths", paths);
  preset.write_paths = filesystem.texts("writePaths", paths);
  preset.denied_paths = filesystem.texts("deniedPaths", paths);
  check_paths(reader, filesystem, "readPaths", preset.read_paths);
  check_paths(reader, filesystem, "writePaths", preset.write_paths);
  check_paths(reader, filesystem, "deniedPaths", preset.denied_paths);
  preset.network_allowed = root.choice("network", {"host", "none"}) != "none";
  preset.environment = root.texts("environment", {.max_items = 120, .max = 120});
  if (root.has("limits")) {
    yaml::Fields limits = root.mapping("limits", {"maxProcesses"});
    preset.max_processes =
        static_cast<std::uint64_t>(limits.optional_integer("maxProcesses", 1, 1'000'000).value_or(0));
  }
  for (const std::string& capability : preset.required_capabilities) {
    if (!std::binary_search(capability_names().begin(), capability_names().end(), capability)) {
      reader.fail(root.mark("requiredCapabilities"), "capability-unknown",
                  "requiredCapabilities: no boundary can prove '" + capability + "'");
    }
  }
  HR_CHECK(reader.status());
  for (auto* list : {&preset.required_capabilities, &preset.read_paths, &preset.write_paths,
                     &preset.denied_paths, &preset.environment}) {
    std::sort(list->begin(), list->end());
  }
  HR_TRY(digest, document_digest(yaml::to_json(document.root)));
  preset.digest = std::move(digest);
  return preset;
}

}  // namespace

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
