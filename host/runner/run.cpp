#include "runner/run.hpp"

#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "core/file.hpp"
#include "core/redact.hpp"
#include "journal/secret_list.hpp"
#include "plugins/elf.hpp"
#include "runner/confine.hpp"
#include "runner/load.hpp"
#include "runner/loop.hpp"
#include "shim/slot.hpp"

namespace hitchrail::runner {

namespace {

constexpr std::size_t max_config = 1u << 20;
constexpr int lock_tries = 200;  // of 25 ms: a predecessor that was killed frees the lock when it is gone
constexpr long lock_pause_ns = 25'000'000;

// Error codes of the journal that mean "the storage", which may recover; the shim then waits and starts
// another runner.
bool is_storage(const Error& error) {
  for (const char* code : {"journal-sync-failed", "journal-write-failed", "journal-locked", "enospc", "eio",
                           "edquot", "erofs"}) {
    if (error.code == code) {
      return true;
    }
  }
  return false;
}

wire::RunnerFailure failure_of(const Error& error, bool loaded) {
  if (error.code == "journal-full") {
    return wire::runner_journal_full;
  }
  if (error.code == "record-too-long") {
    return wire::runner_record_too_long;
  }
  if (is_storage(error)) {
    return wire::runner_journal_failed;
  }
  if (!loaded) {
    return wire::runner_load_failed;
  }
  return error.code == "adapter-hook-failed" || error.code == "framing-invalid" ? wire::runner_hook_failed
                                                                                : wire::runner_internal;
}

Error bad_area(std::string detail) {
  return {ErrorClass::internal, "state-area-invalid", "map state area", "runner", std::move(detail), ""};
}

Result<wire::SharedState*> map_area() {
  struct stat info {};
  if (::fstat(wire::runner_state, &info) != 0) {
    return errno_error("stat", "state area", errno);
  }
  if (static_cast<std::size_t>(info.st_size) < wire::state_size) {
    return bad_area("it is too small");
  }
  void* map = ::mmap(nullptr, wire::state_size, PROT_READ | PROT_WRITE, MAP_SHARED, wire::runner_state, 0);
  if (map == MAP_FAILED) {
    return errno_error("map", "state area", errno);
  }
  auto* area = static_cast<wire::SharedState*>(map);
  if (area->magic != wire::state_magic || area->version != wire::state_version ||
      area->stream_count > wire::max_streams) {
    return bad_area("unknown magic, version or stream count");
  }
  return area;
}

// The values go to the redactor and nowhere else.
Status read_secrets(SecretRedactor& redactor) {
  const Status read = journal::read_secret_list(wire::runner_secrets, redactor);
  ::close(wire::runner_secrets);
  return read.has_error() ? Status(bad_area(read.error().detail)) : Status{};
}

Status confine_self(std::size_t ring_count) {
  confine::Options options;
  options.keep_fds = {wire::runner_socket, wire::runner_state, wire::runner_attempt, wire::runner_adapter};
  for (std::size_t i = 0; i < ring_count; ++i) {
    options.keep_fds.push_back(wire::runner_rings + static_cast<int>(i));
  }
  options.grants = {{wire::runner_attempt, true}};
  const auto report = confine::confine(options);
  return report.has_error() ? Status(report.error()) : Status();
}

Result<journal::Writer> open_journal(std::uint64_t origins_from, const journal::Limits& limits) {
  for (int attempt = 1;; ++attempt) {
    auto writer = journal::Writer::open(wire::runner_attempt, origins_from, limits);
    if (writer.has_value() || writer.error().code != "journal-locked" || attempt == lock_tries) {
      return writer;
    }
    const timespec pause{0, lock_pause_ns};
    ::nanosleep(&pause, nullptr);
  }
}

// Between "it runs" and "it is over"; `loaded` says which kind of failure an error is.
Status live(Frames& frames, const SecretRedactor& redactor, const RunnerConfig& config,
            wire::SharedState& area, bool& loaded) {
  wire::Slot slot;
  if (!wire::read_slot(&area, area.published.load(std::memory_order_acquire), slot)) {
    return bad_area("the published slot does not verify");
  }
  HR_TRY(note, plugins::read_adapter_note(wire::runner_adapter, "adapter"));
  HR_CHECK(confine_self(area.stream_count));
  HR_TRY(writer, open_journal(slot.journal_size, config.journal));
  writer.set_redactor(&redactor);

  std::vector<Fd> rings;
  for (std::uint32_t i = 0; i < area.stream_count; ++i) {
    rings.emplace_back(wire::runner_rings + static_cast<int>(i));
  }
  // Before the library runs: what the predecessor was doing is read by the Loop's constructor, which the load
  // must not overwrite.
  const wire::Hook before = static_cast<wire::Hook>(area.current.busy.load(std::memory_order_acquire));
  area.current.busy.store(wire::hook_load, std::memory_order_release);
  auto adapter = load_adapter(wire::runner_adapter, note);
  area.current.busy.store(before, std::memory_order_release);
  HR_CHECK(adapter);
  ::close(wire::runner_adapter);
  Loop loop(area, config, adapter.value().table(), writer, frames, std::move(rings));
  HR_CHECK(loop.reattach());
  loaded = true;
  ::malloc_trim(0);
  HR_CHECK(frames.send(wire::frame_ready, 0));
  HR_CHECK(loop.run());
  return frames.send(wire::frame_done, 0);
}

Status prepare(Frames& frames, SecretRedactor& redactor, bool& loaded) {
  // The shim hands every runner the same open file: the one before has read it to its end.
  if (::lseek(wire::runner_config, 0, SEEK_SET) != 0) {
    return errno_error("rewind", "runner configuration", errno);
  }
  HR_TRY(text, read_all(wire::runner_config, max_config));
  ::close(wire::runner_config);
  HR_TRY(config, parse_config(text));
  HR_CHECK(read_secrets(redactor));
  HR_TRY(area, map_area());
  return live(frames, redactor, config, *area, loaded);
}

}  // namespace

int run_main() {
  Frames frames(wire::runner_socket);
  SecretRedactor redactor;
  bool loaded = false;
  Status status;
  try {
    status = prepare(frames, redactor, loaded);
  } catch (const std::exception& error) {
    status = Error{ErrorClass::internal, "runner-exception", "run", "runner", error.what(), ""};
  }
  if (status.has_value()) {
    return 0;
  }
  if (status.error().code == "shim-gone") {
    return 1;
  }
  const Error& error = status.error();
  std::string detail = error.operation + ": " + error.detail;
  std::string clean;
  if (redactor.redact(detail, clean)) {
    detail = clean;
  }
  detail = cut_utf8(detail, 4096);
  (void)frames.send(wire::frame_failed, failure_of(error, loaded),
                    error.code + std::string(1, '\0') + detail);
  return 1;
}

}  // namespace hitchrail::runner
