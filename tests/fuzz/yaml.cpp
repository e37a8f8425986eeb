// The strict YAML reader and the profile reader on top of it: any bytes give a tree or an error with a
// position.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/canonical.hpp"
#include "profiles/profiles.hpp"
#include "profiles/yaml.hpp"

using namespace hitchrail;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto document = yaml::parse(text, "f", "read");
  if (document.has_error()) {
    if (document.error().object.substr(0, 2) != "f:" || document.error().code.substr(0, 5) != "yaml-") {
      std::abort();
    }
    return 0;
  }
  (void)yaml::to_json(document->root);
  const auto profile = profiles::parse_profile(text, "f");
  if (profile.has_value() && verify_document(profile->document).has_error()) {
    std::abort();
  }
  return 0;
}
