// Text that a repository, or a run, has written and that is read without git: configuration, status, index
// listing, refs.
#include <cstdint>
#include <string_view>

#include "core/canonical.hpp"
#include "workspace/git_config.hpp"
#include "workspace/index_entries.hpp"
#include "workspace/refs.hpp"
#include "workspace/status.hpp"

namespace {

using namespace hitchrail;
using namespace hitchrail::workspace;

void config(std::string_view text) {
  const auto parsed = GitConfig::parse(text, "config");
  if (parsed.has_error()) {
    return;
  }
  for (const auto& [key, value] : parsed.value().entries()) {
    // What we write is what we read.
    const auto again = GitConfig::parse("[a]\n" + config_line("b", value), "again");
    const bool plain = value.find('\r') == std::string::npos && value.find('\0') == std::string::npos;
    if (plain && (again.has_error() || again.value().get("a.b") != value)) {
      __builtin_trap();
    }
  }
}

void index(std::string_view text) {
  const auto parsed = parse_index(text, "sha1");
  if (parsed.has_error()) {
    return;
  }
  if (!merge_index(parsed.value(), parsed.value(), parsed.value()).empty()) {
    __builtin_trap();
  }
  const IndexMerge all = merge_index({}, {}, parsed.value());
  if (all.set != parsed.value() || index_info(all, "sha1").empty() != parsed.value().empty()) {
    __builtin_trap();
  }
}

void status(std::string_view text) {
  auto parsed = parse_status(text);
  if (parsed.has_error()) {
    return;
  }
  Baseline baseline;
  baseline.files = parsed.value().files;
  const auto back = baseline_from_json(baseline_json(baseline));
  if (back.has_error() || back.value().files != baseline.files) {
    __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      config(text);
      break;
    case 1:
      status(text);
      break;
    case 2:
      index(text);
      break;
    default:
      (void)valid_ref(text);
      break;
  }
  return 0;
}
