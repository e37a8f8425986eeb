// The spawn document, the secrets and the token.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "shim/shim.hpp"

namespace hitchrail::shim {

namespace {

constexpr std::uint64_t max_document = 64u << 20;
constexpr std::uint64_t max_secrets = 512u << 10;

// Walks an OutboxPart list; false when it does not end exactly at `size`.
bool parts_valid(const unsigned char* parts, std::uint32_t size) {
  std::uint32_t at = 0;
  while (at < size) {
    OutboxPart part{};
    if (size - at < sizeof part) {
      return false;
    }
    memcpy(&part, parts + at, sizeof part);
    at += static_cast<std::uint32_t>(sizeof part);
    if ((part.kind != part_bytes && part.kind != part_secret) || part.size > size - at) {
      return false;
    }
    at += part.size;
  }
  return true;
}

bool take_stream(std::uint32_t id, const unsigned char* pattern, std::uint32_t pattern_size,
                 std::uint64_t max_bytes) {
  for (std::uint32_t i = 0; i < g.stream_count; ++i) {
    if (g.streams[i].id == id) {
      return pattern == nullptr;  // standard streams may be listed; a file stream needs an id of its own
    }
  }
  if (pattern == nullptr || g.stream_count == max_streams) {
    return false;
  }
  Stream& stream = g.streams[g.stream_count++];
  stream.id = id;
  stream.pattern = reinterpret_cast<const char*>(pattern);
  stream.pattern_size = pattern_size;
  stream.max_bytes = max_bytes == 0 ? 64u << 20 : max_bytes;
  return true;
}

bool take_stop_step(const unsigned char* data, std::uint32_t size) {
  StopPlanStep& step = g.stop_steps[g.stop_count];
  if (g.stop_count == sizeof g.stop_steps / sizeof g.stop_steps[0] || size < sizeof step.step) {
    return false;
  }
  memcpy(&step.step, data, sizeof step.step);
  step.parts = data + sizeof step.step;
  const StopStep& s = step.step;
  if (s.parts_size != size - sizeof s || !parts_valid(step.parts, s.parts_size) || s.kind < stop_send ||
      s.kind > stop_signal || (s.kind == stop_signal && (s.signal < 1 || s.signal > 64))) {
    return false;
  }
  ++g.stop_count;
  return true;
}

bool take_field(std::uint16_t tag, const unsigned char* data, std::uint32_t size) {
  switch (tag) {
    case tag_attempt_id:
      return size <= 200;
    case tag_initial_outbox:
      g.initial_outbox = data;
      g.initial_outbox_size = size;
      return size <= max_outbox && parts_valid(data, size);
    case tag_stop_step:
      return take_stop_step(data, size);
    case tag_stream: {
      StreamSpec spec{};
      if (size < sizeof spec) {
        return false;
      }
      memcpy(&spec, data, sizeof spec);
      return take_stream(spec.stream, nullptr, 0, 0);
    }
    case tag_file_stream: {
      FileStreamSpec spec{};
      if (size <= sizeof spec) {
        return false;
      }
      memcpy(&spec, data, sizeof spec);
      return take_stream(spec.stream, data + sizeof spec, static_cast<std::uint32_t>(size - sizeof spec),
                         spec.max_bytes);
    }
    case tag_snapshot:
      g.snapshot = data;
      g.snapshot_size = size;
      return size <= max_snapshot;
    case tag_limits:
      if (size < sizeof g.limits) {
        return false;
      }
      memcpy(&g.limits, data, sizeof g.limits);
      return true;
    case tag_flags:
      if (size != sizeof g.flags) {
        return false;
      }
      memcpy(&g.flags, data, sizeof g.flags);
      return (g.flags & ~(flag_close_input | flag_pipes | flag_no_pid_namespace)) == 0;
    default:
      return false;  // a host newer than this shim started another shim; one build makes both
  }
}

bool load_document() {
  struct stat info {};
  if (fstat(shim_spawn, &info) != 0) {
    fail_start("spawn-document", errno, "the spawn document is not open");
    return false;
  }
  SpawnHeader header{};
  if (info.st_size < static_cast<off_t>(sizeof header) ||
      static_cast<std::uint64_t>(info.st_size) > max_document) {
    fail_start("spawn-document", EINVAL, "size");
    return false;
  }
  // The host may be dead a moment from now, the mapping stays. It is sealed, so nobody can cut it below our
  // feet.
  const int seals = fcntl(shim_spawn, F_GET_SEALS);
  if (seals < 0 || (seals & (F_SEAL_WRITE | F_SEAL_SHRINK)) != (F_SEAL_WRITE | F_SEAL_SHRINK)) {
    fail_start("spawn-document", EPERM, "not sealed");
    return false;
  }
  void* map = mmap(nullptr, static_cast<std::size_t>(info.st_size), PROT_READ, MAP_PRIVATE, shim_spawn, 0);
  if (map == MAP_FAILED) {
    fail_start("spawn-document", errno, "mmap");
    return false;
  }
  close(shim_spawn);
  g.document = static_cast<const unsigned char*>(map);
  memcpy(&header, g.document, sizeof header);
  if (header.magic != spawn_magic || header.version != spawn_version || header.total_size != info.st_size) {
    fail_start("spawn-document", EINVAL, "magic, version or size");
    return false;
  }
  std::uint64_t at = sizeof header;
  for (std::uint32_t i = 0; i < header.field_count; ++i) {
    SpawnField field{};
    if (header.total_size - at < sizeof field) {
      fail_start("spawn-document", EINVAL, "cut field");
      return false;
    }
    memcpy(&field, g.document + at, sizeof field);
    at += sizeof field;
    const std::uint64_t padded = (static_cast<std::uint64_t>(field.size) + 7) & ~7ull;
    if (padded > header.total_size - at || !take_field(field.tag, g.document + at, field.size)) {
      char detail[32] = "field ";
      format_number(detail + 6, field.tag);
      fail_start("spawn-document", EINVAL, detail);
      return false;
    }
    at += padded;
  }
  return true;
}

bool secrets_valid(const unsigned char* data, std::size_t size, std::size_t& longest) {
  std::size_t at = 0;
  longest = 0;
  while (at < size) {
    SecretRecord record{};
    if (size - at < sizeof record) {
      return false;
    }
    memcpy(&record, data + at, sizeof record);
    at += sizeof record;
    if (record.name_size > size - at || record.value_size > size - at - record.name_size) {
      return false;
    }
    at += record.name_size + record.value_size;
    longest = record.value_size > longest ? record.value_size : longest;
  }
  return true;
}

bool load_secrets() {
  struct stat info {};
  if (!g.secrets_given) {
    return true;
  }
  if (fstat(shim_secrets, &info) != 0 || info.st_size < 0 ||
      static_cast<std::uint64_t>(info.st_size) > max_secrets) {
    fail_start("secrets", E2BIG, "more than 512 KiB");
    return false;
  }
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) {
    close(shim_secrets);
    return true;
  }
  auto* first = static_cast<unsigned char*>(mmap(nullptr, size, PROT_READ, MAP_PRIVATE, shim_secrets, 0));
  std::size_t longest = 0;
  if (first == MAP_FAILED || !secrets_valid(first, size, longest)) {
    fail_start("secrets", EINVAL, "record list");
    return false;
  }
  // Encoded as a JSON string one byte may become six.
  const std::size_t scratch = longest * 6 + 16;
  void* area = mmap(nullptr, size + scratch, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (area == MAP_FAILED) {
    fail_start("secrets", errno, "mmap");
    return false;
  }
  // RLIMIT_MEMLOCK may be small; then the kernel may swap the page, which is all that is lost.
  const int locked = mlock(area, size + scratch);
  (void)locked;
  madvise(area, size + scratch, MADV_DONTDUMP);
  g.secrets = static_cast<unsigned char*>(area);
  memcpy(g.secrets, first, size);
  g.secrets_size = size;
  g.secrets_scratch = scratch;
  munmap(first, size);
  close(shim_secrets);
  return true;
}

bool load_token() {
  const int fd = openat(shim_attempt, "token", O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    fail_start("token", errno, "open");
    return false;
  }
  struct stat info {};
  const bool fits = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && (info.st_mode & 077) == 0 &&
                    read_to_end(fd, g.token, sizeof g.token) == static_cast<ssize_t>(sizeof g.token);
  close(fd);
  if (!fits) {
    fail_start("token", EINVAL, "not a 0600 file of 32 bytes");
  }
  return fits;
}

}  // namespace

bool load_spawn() {
  g.streams[stream_stdout].id = 1;
  g.streams[stream_stderr].id = 2;
  g.stream_count = 2;
  return load_document() && load_secrets() && load_token();
}

bool find_secret(const unsigned char* name, std::uint32_t size, const unsigned char*& value,
                 std::uint32_t& value_size) {
  std::size_t at = 0;
  while (at < g.secrets_size) {
    SecretRecord record{};
    memcpy(&record, g.secrets + at, sizeof record);
    at += sizeof record;
    if (record.name_size == size && memcmp(g.secrets + at, name, size) == 0) {
      value = g.secrets + at + record.name_size;
      value_size = record.value_size;
      return true;
    }
    at += record.name_size + record.value_size;
  }
  return false;
}

int secrets_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
    return -1;
  }
  // The whole list must fit, because its reader may be slow or dead and the shim waits for nobody.
  bool written = true;
  if (g.secrets_size > 4096) {
    written =
        fcntl(ends[1], F_SETPIPE_SZ, static_cast<int>(g.secrets_size + 4096)) >= 0 || g.secrets_size <= 65536;
  }
  written = written && (g.secrets_size == 0 || write_all(ends[1], g.secrets, g.secrets_size));
  close(ends[1]);
  if (!written || fcntl(ends[0], F_SETFL, 0) != 0) {
    close(ends[0]);
    return -1;
  }
  return ends[0];
}

}  // namespace hitchrail::shim
