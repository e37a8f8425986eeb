// Any bytes as an adapter library: judged, never crashed upon, and a sound one keeps its promises.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "hitchrail/adapter.h"
#include "plugins/elf.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto report = hitchrail::plugins::inspect_adapter(bytes, "fuzz.so");
  if (report.has_error()) {
    const hitchrail::Error& error = report.error();
    if (error.code.empty() || error.detail.empty() || error.remedy.empty() || error.object != "fuzz.so") {
      std::abort();
    }
    return 0;
  }
  const auto note = hitchrail::plugins::read_adapter_note(bytes, "fuzz.so");
  if (note.has_error() || note->provider_id != report->note.provider_id || note->provider_id.empty() ||
      note->abi_major != HR_ABI_MAJOR || report->exports.size() != 1 ||
      report->exports.front() != HR_ENTRY_SYMBOL) {
    std::abort();
  }
  return 0;
}
