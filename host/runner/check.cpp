#include "runner/check.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "plugins/check_steps.hpp"
#include "plugins/check_wire.hpp"
#include "plugins/elf.hpp"
#include "runner/check_walk.hpp"
#include "runner/confine.hpp"
#include "runner/load.hpp"

namespace hitchrail::runner {

using plugins::CheckPage;
using plugins::Hook;
using plugins::StepResult;

namespace {

constexpr int exit_fault = 5;
// An adapter that fills the memory or the descriptors meant for its output is stopped by the kernel.
constexpr rlim_t most_output = 64u << 20;
constexpr rlim_t most_memory = 2u << 30;

confine::TrapLog trap;  // written by the SIGSYS handler

void put(char (&to)[plugins::check_detail_size], const std::string& text) {
  const std::size_t size = std::min(text.size(), sizeof to - 1);
  std::memcpy(to, text.data(), size);
  to[size] = '\0';
}

void record(CheckPage& page, std::size_t step, StepResult result, const std::string& detail) {
  put(page.steps[step].detail, detail);
  page.steps[step].result.store(static_cast<std::uint32_t>(result), std::memory_order_release);
}

// The library is loaded as the first step, and again by every later child, where only the steps after it
// count.
Result<LoadedAdapter> load(CheckPage& page) {
  page.hook.store(static_cast<std::uint32_t>(Hook::load));
  page.calls.fetch_add(1);
  HR_TRY(note, plugins::read_adapter_note(plugins::check_adapter_fd, "adapter"));
  auto loaded = load_adapter(plugins::check_adapter_fd, note);
  page.hook.store(0);
  if (trap.count != 0) {
    return Error{ErrorClass::refused,
                 "adapter-load-failed",
                 "load adapter",
                 note.provider_id,
                 "a constructor made the forbidden system call " + confine::syscall_name(trap.first_syscall),
                 ""};
  }
  return loaded;
}

void run_step(CheckWalk& walk, CheckPage& page, std::size_t step) {
  try {
    walk.run(step);
    record(page, step, StepResult::passed, "");
  } catch (const StepEnd& end) {
    record(page, step, end.result, end.detail);
  }
}

void limit(int resource, rlim_t value) {
  const rlimit both{value, value};
  ::setrlimit(static_cast<__rlimit_resource_t>(resource), &both);
}

bool confine_child(CheckPage& page) {
  limit(RLIMIT_FSIZE, most_output);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  limit(RLIMIT_AS, most_memory);
#endif
  confine::Options options;
  options.keep_fds = {0, 1, 2, plugins::check_adapter_fd, plugins::check_page_fd};
  options.trap = &trap;
  const auto report = confine::confine(options);
  if (report.has_error()) {
    put(page.fault, report.error().code + ": " + report.error().object + ": " + report.error().detail);
    return false;
  }
  page.ready.store(1);
  return true;
}

// The outcome of the load belongs to one of the first two steps, by its code.
void record_load(CheckPage& page, const Result<LoadedAdapter>& loaded) {
  if (!loaded.has_error()) {
    record(page, plugins::step_load, StepResult::passed, "");
    record(page, plugins::step_table, StepResult::passed, "");
    return;
  }
  const Error& error = loaded.error();
  const bool table = error.code == "adapter-table-invalid" || error.code == "adapter-note-mismatch";
  record(page, plugins::step_load, table ? StepResult::passed : StepResult::failed,
         table ? "" : error.detail);
  record(page, plugins::step_table, table ? StepResult::failed : StepResult::skipped,
         table ? error.detail : "not reached: load failed");
}

}  // namespace

int check_main() {
  void* map =
      ::mmap(nullptr, sizeof(CheckPage), PROT_READ | PROT_WRITE, MAP_SHARED, plugins::check_page_fd, 0);
  if (map == MAP_FAILED) {
    return exit_fault;
  }
  CheckPage& page = *static_cast<CheckPage*>(map);
  if (page.magic != plugins::check_magic || page.request_size > sizeof page.request || !confine_child(page)) {
    return exit_fault;
  }
  const std::size_t first = page.first.load();
  page.step.store(static_cast<std::uint32_t>(first));
  const auto loaded = load(page);
  if (first == plugins::step_load) {
    record_load(page, loaded);
  }
  if (loaded.has_error()) {
    page.step.store(plugins::step_count);
    return 0;
  }
  CheckWalk walk(loaded->table(), page, trap, std::string(page.request, page.request_size));
  for (std::size_t step = std::max<std::size_t>(first, plugins::step_probe_begin); step < plugins::step_count;
       ++step) {
    page.step.store(static_cast<std::uint32_t>(step));
    run_step(walk, page, step);
    // What a hook did to this process must not be blamed on the next one: the parent goes on with a new
    // child.
    if (walk.fouled()) {
      ::_exit(0);
    }
  }
  page.step.store(plugins::step_count);
  // Destructors of the library are not part of the check.
  ::_exit(0);
}

}  // namespace hitchrail::runner
