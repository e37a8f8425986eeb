#include "runner/load.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <boost/dll/shared_library.hpp>
#include <cstring>
#include <string>
#include <string_view>

namespace hitchrail::runner {
namespace {

Error refuse(std::string code, const plugins::AdapterNote& note, std::string detail,
             std::string remedy = {}) {
  return {ErrorClass::refused, std::move(code),   "load adapter",
          note.provider_id,    std::move(detail), std::move(remedy)};
}

struct Required {
  const char* name;
  bool set;
};

// What every adapter has; hooks marked optional in adapter.h are not asked for.
std::string missing_members(const hr_adapter& table) {
  const Required required[] = {
      {"probe", table.probe != nullptr},
      {"on_probe_step", table.on_probe_step != nullptr},
      {"probe_close", table.probe_close != nullptr},
      {"render", table.render != nullptr},
      {"launch", table.launch != nullptr},
      {"reattach", table.reattach != nullptr},
      {"map_events", table.map_events != nullptr},
      {"on_exit", table.on_exit != nullptr},
      {"on_end", table.on_end != nullptr},
      {"snapshot", table.snapshot != nullptr},
      {"close", table.close != nullptr},
      {"provider_id", table.provider_id.data != nullptr},
      {"display_name", table.display_name.data != nullptr},
      {"version", table.version.data != nullptr},
  };
  std::string out;
  for (const Required& member : required) {
    if (!member.set) {
      out += (out.empty() ? "" : ", ") + std::string(member.name);
    }
  }
  return out;
}

Status judge(const hr_adapter& table, std::uint32_t their_size, const plugins::AdapterNote& note) {
  constexpr std::size_t least = offsetof(hr_adapter, control);  // all required members
  if (their_size < least) {
    return refuse("adapter-table-invalid", note,
                  "found struct_size " + std::to_string(their_size) + "; supported is at least " +
                      std::to_string(least),
                  "Set struct_size to sizeof(hr_adapter).");
  }
  if (table.abi_major != note.abi_major || table.abi_minor != note.abi_minor) {
    return refuse("adapter-note-mismatch", note,
                  "the table says ABI " + std::to_string(table.abi_major) + "." +
                      std::to_string(table.abi_minor) + ", the note " + std::to_string(note.abi_major) + "." +
                      std::to_string(note.abi_minor),
                  "Build every file of the adapter with the same SDK.");
  }
  const std::string missing = missing_members(table);
  if (!missing.empty()) {
    return refuse("adapter-table-invalid", note, "required members are not set: " + missing, "Set them.");
  }
  if (table.provider_id.size > HR_MAX_PROVIDER_ID ||
      std::string_view(table.provider_id.data, table.provider_id.size) != note.provider_id) {
    const std::size_t shown = std::min<std::size_t>(table.provider_id.size, HR_MAX_PROVIDER_ID);
    return refuse("adapter-note-mismatch", note,
                  "the table names the provider \"" + std::string(table.provider_id.data, shown) +
                      "\", the note \"" + note.provider_id + "\"",
                  "Use one provider id in both.");
  }
  return {};
}

bool load_tried = false;

}  // namespace

Result<LoadedAdapter> load_adapter(int sealed_fd, const plugins::AdapterNote& note) {
  if (load_tried) {
    return refuse("adapter-already-loaded", note,
                  "this process has loaded an adapter before; one process holds one",
                  "Start another runner.");
  }
  load_tried = true;
  // Never destroyed: nothing of the library is unmapped while the process lives (RTLD_NODELETE says the same
  // to libc).
  static boost::dll::shared_library library;
  const auto mode = static_cast<boost::dll::load_mode::type>(RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  boost::dll::fs::error_code failed;
  library.load("/proc/self/fd/" + std::to_string(sealed_fd), failed, mode);
  if (failed) {
    const char* words = ::dlerror();
    return refuse("adapter-load-failed", note, words != nullptr ? words : failed.message());
  }
  if (!library.has(HR_ENTRY_SYMBOL)) {
    return refuse("adapter-entry-missing", note, std::string("no symbol ") + HR_ENTRY_SYMBOL,
                  "Export it with C linkage.");
  }
  auto* const entry = &library.get<const hr_adapter*(void)>(HR_ENTRY_SYMBOL);
  const hr_adapter* theirs = entry();
  if (theirs == nullptr) {
    return refuse("adapter-table-invalid", note, std::string(HR_ENTRY_SYMBOL) + " returned NULL");
  }
  LoadedAdapter out;
  std::memcpy(&out.table_, theirs, std::min<std::size_t>(theirs->struct_size, sizeof out.table_));
  HR_CHECK(judge(out.table_, theirs->struct_size, note));
  out.table_.struct_size = sizeof out.table_;
  return out;
}

}  // namespace hitchrail::runner
