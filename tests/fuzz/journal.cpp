// The reader of journals on any bytes: it never crashes, never shows a line outside the chain, and agrees
// with the writer's open and with verify about what is sound. Input: first byte 'S': the rest are lines
// without their chain, which is put on them here, so that what lies behind the hashes is reached too; any
// other first byte: the rest are a journal file's bytes.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "core/file.hpp"
#include "journal/format.hpp"
#include "journal/journal.hpp"
#include "journal/reader.hpp"

using namespace hitchrail;

namespace {

int work_directory() {
  static const int fd = [] {
    // In memory where that is possible: each input costs several syncs.
    char memory[] = "/dev/shm/hitchrail-fuzz-XXXXXX";
    char disk[] = "/tmp/hitchrail-fuzz-XXXXXX";
    const char* path = ::mkdtemp(memory) != nullptr ? memory : ::mkdtemp(disk);
    if (path == nullptr) {
      std::abort();
    }
    return ::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  }();
  return fd;
}

void require(bool truth, const char* what) {
  if (!truth) {
    std::fprintf(stderr, "%s\n", what);
    std::abort();
  }
}

std::string sealed(std::string_view bodies) {
  std::string out;
  journal::Hasher hasher;
  journal::Hash last{};
  while (!bodies.empty()) {
    const std::size_t end = bodies.find('\n');
    const std::size_t start = out.size();
    out += bodies.substr(0, end);
    last = journal::close_line(out, start, last, hasher);
    bodies.remove_prefix(end == std::string_view::npos ? bodies.size() : end + 1);
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const int dir = work_directory();
  {
    const Fd file(::openat(dir, "journal.jsonl", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    const std::string bytes =
        input.starts_with('S') ? sealed(input.substr(1)) : std::string(input.substr(size > 0 ? 1 : 0));
    require(write_all(file.get(), bytes).has_value(), "write input");
  }
  std::uint64_t lines = 0;
  bool damaged = false;
  auto reader = journal::Reader::open(dir);
  require(reader.has_value(), "open reader");
  for (;;) {
    auto line = reader.value().next();
    if (line.has_error() || !line.value()) {
      damaged = line.has_error();
      break;
    }
    require(line.value()->sequence == lines, "sequence");
    (void)journal::whole_payload(dir, line.value()->payload);
    ++lines;
  }
  (void)journal::read_tail(dir);
  const auto verified = journal::verify(dir);
  require(!damaged || verified.has_error(), "verify accepts what the reader refuses");
  require(verified.has_error() || verified.value().events + 1 == lines, "verify counts other lines");
  auto writer = journal::Writer::open(dir);
  if (writer.has_value()) {
    require(writer.value().opened().position.sequence + 1 == lines, "the writer goes on elsewhere");
    journal::Draft draft;
    draft.kind = "run.failed";
    draft.origin.key = "fuzz.appended";
    require(writer.value().append(draft, 0).has_value() && writer.value().commit().has_value(), "append");
  }
  if (writer.has_value()) {
    writer = Error{};
    require(journal::verify(dir).has_value() || verified.has_error(), "the appended journal is not sound");
  }
  return 0;
}
