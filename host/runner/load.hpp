#pragma once
// Loads exactly one adapter into a confined process. Links as hitchrail_load (plugins, Boost.DLL).
//
// Promises: the library comes from the sealed descriptor (RTLD_NOW, RTLD_LOCAL, RTLD_NODELETE), one plain
// symbol is looked up, and the table is checked against the note read before any code ran: size, ABI,
// provider id, every required hook. The table handed out is a zero-filled copy of min(struct_size, own size).
// Refuses: adapter-load-failed (dlerror's own words), adapter-entry-missing, adapter-table-invalid (which
// member), adapter-note-mismatch, adapter-already-loaded (two dlopens of one /proc/self/fd name give the
// first library twice). Never claims an unload: a library with a template static stays whatever dlclose says,
// so a loaded adapter lives as long as the process. An upgrade is a new process.

#include "core/result.hpp"
#include "hitchrail/adapter.h"
#include "plugins/elf.hpp"

namespace hitchrail::runner {

class LoadedAdapter {
 public:
  [[nodiscard]] const hr_adapter& table() const { return table_; }

 private:
  friend Result<LoadedAdapter> load_adapter(int sealed_fd, const plugins::AdapterNote& note);
  hr_adapter table_{};
};

// note: plugins::read_adapter_note of the same sealed descriptor.
Result<LoadedAdapter> load_adapter(int sealed_fd, const plugins::AdapterNote& note);

}  // namespace hitchrail::runner
