#include "attempt/exit_slot.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "core/file.hpp"
#include "shim/slot.hpp"

namespace hitchrail::attempt {
namespace {

constexpr const char* exit_name = "exit";

Error slot_error(const char* code, std::string detail) {
  return Error{ErrorClass::failed, code, "read exit slot", exit_name, std::move(detail), ""};
}

}  // namespace

std::uint32_t exit_slot_crc(const wire::ExitSlot& slot) {
  return wire::crc32c(&slot, offsetof(wire::ExitSlot, crc));
}

Status prepare_exit_slot(int attempt_dirfd) {
  HR_TRY(file, open_at(attempt_dirfd, exit_name, O_WRONLY | O_CREAT | O_EXCL, 0600));
  if (const int number = ::posix_fallocate(file.get(), 0, sizeof(wire::ExitSlot)); number != 0) {
    return errno_error("reserve exit slot", exit_name, number);
  }
  wire::ExitSlot slot{};
  slot.state = wire::exit_prepared;
  wire::seal_exit_slot(slot);
  HR_CHECK(pwrite_all(file.get(), {reinterpret_cast<const char*>(&slot), sizeof slot}, 0));
  if (::fsync(file.get()) != 0) {
    return errno_error("sync exit slot", exit_name, errno);
  }
  return {};
}

namespace {

Result<wire::ExitSlot> read_once(int attempt_dirfd) {
  auto file = open_at(attempt_dirfd, exit_name, O_RDONLY | O_NONBLOCK);
  if (file.has_error()) {
    return file.error().code == "enoent" ? slot_error("exit-slot-absent", "there is none")
                                         : std::move(file).error();
  }
  wire::ExitSlot slot{};
  struct stat info {};
  if (::fstat(file.value().get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_size != sizeof slot ||
      ::pread(file.value().get(), &slot, sizeof slot, 0) != static_cast<ssize_t>(sizeof slot)) {
    return slot_error("exit-slot-damaged", "it is not a file of 512 bytes");
  }
  if (!wire::exit_slot_valid(slot)) {
    return slot_error("exit-slot-damaged", "magic, version or checksum do not fit");
  }
  return slot;
}

}  // namespace

// The supervisor may be writing it in this moment: half of the old and half of the new is no damage.
Result<wire::ExitSlot> read_exit_slot(int attempt_dirfd) {
  auto slot = read_once(attempt_dirfd);
  for (int again = 0; again < 4 && slot.has_error() && slot.error().code == "exit-slot-damaged"; ++again) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    slot = read_once(attempt_dirfd);
  }
  return slot;
}

Status write_exit_slot(int attempt_dirfd, wire::ExitSlot slot) {
  HR_TRY(file, open_at(attempt_dirfd, exit_name, O_WRONLY | O_CREAT | O_NONBLOCK, 0600));
  wire::seal_exit_slot(slot);
  HR_CHECK(pwrite_all(file.get(), {reinterpret_cast<const char*>(&slot), sizeof slot}, 0));
  if (::fdatasync(file.get()) != 0) {
    return errno_error("sync exit slot", exit_name, errno);
  }
  return {};
}

std::string exit_kind_name(std::uint32_t kind) {
  switch (kind) {
    case wire::kind_code:
      return "code";
    case wire::kind_signal:
      return "signal";
    case wire::kind_unknown:
      return "unknown";
    default:
      return "none";
  }
}

std::string exit_source_name(std::uint32_t source) {
  switch (source) {
    case wire::source_init:
      return "init";
    case wire::source_wait:
      return "wait";
    case wire::source_shim_lost:
      return "shim-lost";
    case wire::source_pidfd:
      return "pidfd";
    default:
      return "none";
  }
}

std::string slot_text(const char* bytes, std::size_t size) {
  return {bytes, ::strnlen(bytes, size)};
}

}  // namespace hitchrail::attempt
