// Files, locks and commits of the append side.

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "core/file.hpp"
#include "core/ids.hpp"
#include "journal/scan.hpp"
#include "journal/writer_state.hpp"

namespace hitchrail::journal {
namespace {

constexpr const char* new_name = ".journal.new";

Status set_range_lock(int fd, short type, std::int64_t start, std::int64_t length) {
  struct flock range {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = start;
  range.l_len = length;
  if (::fcntl(fd, F_OFD_SETLK, &range) != 0) {
    return errno_error("lock", file_name, errno);
  }
  return {};
}

Status take_file_lock(int fd) {
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      return journal_error(ErrorClass::failed, "journal-locked", "open journal", "another process writes it");
    }
    return errno_error("lock", file_name, errno);
  }
  return {};
}

// While this holds, readers take nothing as durable; then only what a commit in flight adds.
Status announce_writer(int fd) {
  HR_CHECK(set_range_lock(fd, F_WRLCK, 0, alive_byte));
  return set_range_lock(fd, F_WRLCK, alive_byte, 1);
}

Result<Identity> parse_identity(std::string_view header) {
  HR_TRY(value, json::parse(header, json::Duplicates::refuse, file_name));
  const json::Value& source = value.get("source");
  Identity identity;
  identity.attempt_id = value.get("attemptId").as_string();
  identity.task_id = value.get("taskId").as_string();
  identity.provider = source.get("provider").as_string();
  identity.adapter = source.get("adapter").as_string();
  identity.agent = source.get("agent").as_string();
  identity.model = source.get("model").as_string();
  return identity;
}

}  // namespace

// A page that could not be written may be dropped and called clean by the kernel: what is after the last
// durable byte is given up, and this writer with it.
Status Writer::State::fail(Error error) {
  dead = true;
  if (::ftruncate(file.get(), static_cast<off_t>(durable.size)) != 0) {
    error.detail += "; cutting the file back failed too";
  }
  return error;
}

Result<Position> Writer::State::commit() {
  if (dead) {
    return journal_error(ErrorClass::failed, "journal-writer-dead", "commit",
                         "an earlier write or sync failed", "open the journal again");
  }
  flush_merge();
  if (buffer.empty()) {
    durable.origins_from = origins_from();
    return durable;
  }
  int (*const sync)(int) = limits.sync != nullptr ? limits.sync : ::fdatasync;
  if (auto synced = spill.sync(sync); synced.has_error()) {
    return fail(std::move(synced).error()).error();
  }
  const auto start = static_cast<std::int64_t>(durable.size);
  HR_CHECK(set_range_lock(file.get(), F_WRLCK, start, alive_byte - start));
  if (auto written = pwrite_all(file.get(), buffer, start); written.has_error()) {
    return fail(std::move(written).error()).error();
  }
  if (sync(file.get()) != 0) {
    const int number = errno;
    Error error = errno_error("sync journal", file_name, number);
    error.code = "journal-sync-failed";
    error.remedy = "free space or replace the disk; the next writer goes on from what is durable";
    return fail(std::move(error)).error();
  }
  durable.size += buffer.size();
  durable.sequence += buffered_events;
  durable.origins_from = origins_from();
  buffer.clear();
  buffered_events = 0;
  recent[1] = std::move(recent[0]);
  recent[0].clear();
  HR_CHECK(set_range_lock(file.get(), F_UNLCK, 0, alive_byte));
  return durable;
}

Writer::Writer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Writer::Writer(Writer&&) noexcept = default;
Writer& Writer::operator=(Writer&&) noexcept = default;
Writer::~Writer() = default;

Result<Writer> Writer::create(int attempt_dirfd, const Identity& identity, const json::Value& header,
                              const Limits& limits) {
  auto state = std::make_unique<State>();
  state->limits = limits;
  state->identity = identity;
  HR_TRY(spill, Spill::open(attempt_dirfd));
  state->spill = std::move(spill);
  if (::unlinkat(attempt_dirfd, new_name, 0) != 0 && errno != ENOENT) {
    return errno_error("remove", new_name, errno);
  }
  HR_TRY(file, open_at(attempt_dirfd, new_name, O_RDWR | O_CREAT | O_EXCL, 0600));
  HR_CHECK(take_file_lock(file.get()));
  HR_CHECK(announce_writer(file.get()));
  std::string line(header_prefix);
  line += "\"schemaVersion\":\"run-journal/v1\"";
  append_member(line, "attemptId", identity.attempt_id);
  append_member(line, "taskId", identity.task_id);
  line += source_text(identity, identity.provider);
  append_member(line, "createdAt", iso8601(unix_millis_now()));
  if (!header.is_null()) {
    line += ",\"header\":" + json::write(header);
  }
  state->last = close_line(line, 0, Hash{}, state->hasher);
  if (line.size() > max_line / 2) {
    ::unlinkat(attempt_dirfd, new_name, 0);
    return journal_error(ErrorClass::internal, "event-invalid", "create journal", "the header is too large");
  }
  // Under another name until it is whole and durable: a journal that is there begins with its header.
  Status made = pwrite_all(file.get(), line, 0);
  if (made.has_value() && ::fsync(file.get()) != 0) {
    made = errno_error("sync journal", new_name, errno);
  }
  if (made.has_value() &&
      ::renameat2(attempt_dirfd, new_name, attempt_dirfd, file_name, RENAME_NOREPLACE) != 0) {
    made = errno == EEXIST ? Status(journal_error(ErrorClass::failed, "journal-exists", "create journal",
                                                  "the attempt has a journal already"))
                           : Status(errno_error("rename", file_name, errno));
  }
  if (made.has_error()) {
    ::unlinkat(attempt_dirfd, new_name, 0);
    return std::move(made).error();
  }
  if (::fsync(attempt_dirfd) != 0) {
    return errno_error("sync directory", file_name, errno);
  }
  HR_CHECK(set_range_lock(file.get(), F_UNLCK, 0, alive_byte));
  state->file = std::move(file);
  state->durable = {line.size(), 0, line.size()};
  state->opened.position = state->durable;
  state->prepare_constants();
  return Writer(std::move(state));
}

Result<Writer> Writer::open(int attempt_dirfd, std::uint64_t origins_from, const Limits& limits) {
  auto state = std::make_unique<State>();
  state->limits = limits;
  HR_TRY(file, open_journal(attempt_dirfd, O_RDWR));
  HR_CHECK(take_file_lock(file.get()));
  HR_CHECK(announce_writer(file.get()));
  std::vector<Known> origins;
  HR_TRY(end, scan(file.get(), state->hasher,
                   [&](const LineView& view, std::string_view text, std::uint64_t offset) -> Status {
                     if (view.sequence == 0) {
                       HR_TRY(identity, parse_identity(text));
                       state->identity = std::move(identity);
                       return {};
                     }
                     const bool host = view.origin.starts_with("{\"host\"");
                     if (offset < origins_from && !host) {
                       return {};
                     }
                     origins.clear();
                     if (!line_origins(view, origins)) {
                       return damaged(view.sequence, offset, "its origin cannot be read");
                     }
                     state->learn(origins, offset);
                     return {};
                   }));
  HR_TRY(spill, Spill::open(attempt_dirfd));
  state->spill = std::move(spill);
  if (end.torn_bytes > 0 && ::ftruncate(file.get(), static_cast<off_t>(end.size)) != 0) {
    return errno_error("cut torn tail", file_name, errno);
  }
  // Whole lines of a writer that died before its sync are kept, so they must become durable before anyone
  // relies on them.
  if (::fsync(file.get()) != 0) {
    Error error = errno_error("sync journal", file_name, errno);
    error.code = "journal-sync-failed";
    return error;
  }
  state->durable = {end.size, end.sequence, 0};
  state->durable.origins_from = state->origins_from();
  state->opened = {state->durable, end.torn_bytes > 0, end.torn_bytes};
  state->last = end.last_hash;
  HR_CHECK(set_range_lock(file.get(), F_UNLCK, 0, alive_byte));
  state->file = std::move(file);
  state->prepare_constants();
  return Writer(std::move(state));
}

const Opened& Writer::opened() const {
  return state_->opened;
}
const Identity& Writer::identity() const {
  return state_->identity;
}
void Writer::set_redactor(const SecretRedactor* redactor) {
  state_->redactor = redactor;
}
Status Writer::append(const Draft& draft, std::int64_t received_unix_ms) {
  return state_->append(draft, received_unix_ms, draft.origin.kind == Origin::Kind::host);
}
Result<Position> Writer::commit() {
  return state_->commit();
}
std::string Writer::last_line_hash() const {
  std::string out = "sha256:";
  append_hex(out, state_->last.data(), state_->last.size());
  return out;
}

}  // namespace hitchrail::journal
