#pragma once
// Reads an adapter library as bytes: no code of it runs. Every offset and count is checked against the size
// given; any input is safe (fuzz target tests/fuzz/elf_fuzz.cpp). Links as hitchrail_plugins.
//
// Promises: inspect_adapter() returns only for a 64-bit little-endian x86-64 shared object with one
// well-formed note of a supported ABI, dependencies on the list, no search path, audit or text relocation, no
// DF_ flag but the harmless, and exactly one exported symbol. Refuses with the field, what was found, what is
// supported and the remedy:
//   plugin-not-elf, plugin-malformed, plugin-no-note, plugin-note-malformed, plugin-abi-newer,
//   plugin-abi-older, plugin-provider-invalid, plugin-dependency, plugin-search-path, plugin-dynamic-flag,
//   plugin-text-relocation, plugin-export
// Not yet: other machines than x86-64.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"

namespace hitchrail::plugins {

struct AdapterNote {
  std::uint32_t abi_major = 0;
  std::uint32_t abi_minor = 0;
  std::string provider_id;
  std::string sdk_version;
};

struct ElfReport {
  AdapterNote note;
  std::vector<std::string> needed;   // DT_NEEDED, in order
  std::vector<std::string> exports;  // defined dynamic symbols that others can see
};

// `name` is the file as the operator knows it; it stands in every error.
Result<ElfReport> inspect_adapter(std::string_view bytes, std::string_view name);
// The note alone, under the same rules; what the runner compares the loaded table with.
Result<AdapterNote> read_adapter_note(std::string_view bytes, std::string_view name);
Result<AdapterNote> read_adapter_note(int sealed_fd, std::string_view name);

}  // namespace hitchrail::plugins
