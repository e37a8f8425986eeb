#include "store/cache.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "core/canonical.hpp"
#include "core/file.hpp"
#include "core/ids.hpp"
#include "store/state_home.hpp"

namespace hitchrail::store {
namespace {

constexpr std::size_t max_bytes = 4u << 20;  // of one entry
constexpr const char* schema = "hitchrail-cache/v1";
constexpr const char* generation_file = "generation";
constexpr std::int64_t busy_ms = 200;          // a lookup or a kept entry is never worth more
constexpr std::int64_t clear_busy_ms = 5'000;  // the operator waits for this one

std::string hashed(const std::string& kind, const std::string& name) {
  return kind + "-" + sha256_hex(name).substr(0, 40);
}
std::string entry_name(const CacheKey& key) {
  return hashed(key.kind, key.scope) + ".json";
}
std::string flight_name(const CacheKey& key) {
  return ".flight-" + hashed(key.kind, key.key);
}

// flock() that gives up. Only for moments: whoever holds the folder's lock does no more than a rename.
bool lock_within(int fd, int how, std::int64_t wait_ms) {
  const std::int64_t end = monotonic_nanos() + wait_ms * 1'000'000;
  for (int pause = 1;; pause = std::min(pause * 2, 20)) {
    if (::flock(fd, how | LOCK_NB) == 0) {
      return true;
    }
    if ((errno != EWOULDBLOCK && errno != EINTR) || monotonic_nanos() >= end) {
      return false;
    }
    (void)::poll(nullptr, 0, pause);
  }
}

// The lock of the whole folder, by a descriptor of its own, so that threads exclude each other too.
class FolderLock {
 public:
  FolderLock(int directory, int how, std::int64_t wait_ms)
      : fd_(::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    held_ = fd_ && lock_within(fd_.get(), how, wait_ms);
  }
  [[nodiscard]] bool held() const { return held_; }

 private:
  Fd fd_;
  bool held_ = false;
};

Error busy() {
  return Error{ErrorClass::environment,    "cache-busy", "lock the probe cache", "cache",
               "another process holds it", "try again"};
}

// A file of ours that nobody else can have changed, or nothing.
std::optional<std::string> read_ours(int directory, const std::string& name) {
  auto file = open_at(directory, name, O_RDONLY | O_NONBLOCK);
  struct stat info {};
  if (file.has_error() || ::fstat(file.value().get(), &info) != 0 || !S_ISREG(info.st_mode) ||
      info.st_uid != ::geteuid() || (info.st_mode & 07777) != 0600 || info.st_nlink != 1) {
    return std::nullopt;
  }
  auto text = read_all(file.value().get(), max_bytes);
  return text.has_value() ? std::optional(std::move(text).value()) : std::nullopt;
}

// Whole or not at all; not synced, for the digest shows what a crash tore.
Status write_ours(int directory, const std::string& name, std::string_view text) {
  const std::string aside = random_id(".new-", 12);
  Status written;
  {
    HR_TRY(file, open_at(directory, aside, O_WRONLY | O_CREAT | O_EXCL, 0600));
    // A strange umask must not make it unreadable, or readable by others.
    written = ::fchmod(file.get(), 0600) == 0 ? write_all(file.get(), text)
                                              : Status(errno_error("chmod", aside, errno));
  }
  if (!written.has_error() && ::renameat(directory, aside.c_str(), directory, name.c_str()) != 0) {
    written = errno_error("rename", name, errno);
  }
  if (written.has_error()) {
    ::unlinkat(directory, aside.c_str(), 0);
  }
  return written;
}

std::uint64_t read_generation(int directory) {
  const auto text = read_ours(directory, generation_file);
  if (!text || text->empty() || text->size() > 20 ||
      text->find_first_not_of("0123456789") != std::string::npos) {
    return 0;
  }
  return std::strtoull(text->c_str(), nullptr, 10);
}

Result<std::string> entry_text(const CacheKey& key, std::uint64_t generation, const json::Value* value) {
  json::Value document = json::Value::object();
  document.set("schemaVersion", schema);
  document.set("kind", key.kind);
  document.set("scope", path_value(key.scope));
  document.set("key", path_value(key.key));
  document.set("generation", std::to_string(generation));
  if (value != nullptr) {
    document.set("value", *value);
  }
  HR_TRY(digest, seal_document(document));
  (void)digest;
  return json::write(document);
}

// nullopt: torn, edited, of another kind, or of another version of this format.
std::optional<json::Value> parse_entry(const std::string& text) {
  auto document = json::parse(text, json::Duplicates::refuse, "cache entry");
  if (document.has_error() || document.value().get("schemaVersion").as_string() != schema ||
      verify_document(document.value()).has_error()) {
    return std::nullopt;
  }
  return std::move(document).value();
}

bool says(const json::Value& document, const char* member, const std::string& text) {
  const auto found = path_text(document.get(member));
  return found.has_value() && found.value() == text;
}

Error renamed(Error error, const std::string& path) {
  constexpr std::string_view prefix = "state-directory-";
  if (error.code.rfind(prefix, 0) == 0) {
    error.code = "cache-" + error.code.substr(prefix.size());
  }
  error.operation = "open the probe cache";
  error.remedy = "Nothing is kept between launches until " + path + " is a directory of yours with mode 700.";
  return error;
}

}  // namespace

Result<std::string> Cache::path() {
  const auto absolute = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value != nullptr && value[0] == '/' ? value : "";
  };
  if (const std::string own = absolute("HITCHRAIL_HOME"); !own.empty()) {
    return own + "/cache";
  }
  if (const std::string xdg = absolute("XDG_CACHE_HOME"); !xdg.empty()) {
    return xdg + "/hitchrail";
  }
  if (const std::string home = absolute("HOME"); !home.empty()) {
    return home + "/.cache/hitchrail";
  }
  return Error{ErrorClass::environment,
               "cache-unset",
               "open the probe cache",
               "HITCHRAIL_HOME",
               "neither HITCHRAIL_HOME, XDG_CACHE_HOME nor HOME is an absolute path",
               "Set HITCHRAIL_HOME; until then nothing is kept between launches."};
}

Result<Cache> Cache::from(const std::string& path, bool make) {
  auto folder = StateHome::open_path(path, Access::read);
  if (folder.has_error() && folder.error().code == "state-directory-absent" && make) {
    folder = StateHome::open_path(path, Access::write);
  }
  if (folder.has_error()) {
    return renamed(std::move(folder).error(), path);
  }
  Fd fd(::fcntl(folder.value().fd(), F_DUPFD_CLOEXEC, 3));
  if (!fd) {
    return errno_error("open the probe cache", path, errno);
  }
  const std::uint64_t generation = read_generation(fd.get());
  return Cache(std::move(fd), generation);
}

Result<Cache> Cache::open() {
  HR_TRY(where, path());
  return from(where, true);
}

Result<Cache> Cache::open_path(const std::string& path) {
  return from(path, true);
}

Result<Cache> Cache::open_existing() {
  HR_TRY(where, path());
  return from(where, false);
}

std::uint64_t Cache::generation() const {
  return generation_;
}

std::optional<json::Value> Cache::recall(const std::string& kind, const std::string& key) const {
  return recall(CacheKey{kind, key, key});
}

Status Cache::remember(const std::string& kind, const std::string& key, json::Value value) const {
  return remember(CacheKey{kind, key, key}, std::move(value));
}

std::optional<json::Value> Cache::recall(const CacheKey& key) const {
  if (!fd_) {
    return std::nullopt;
  }
  const auto text = read_ours(fd_.get(), entry_name(key));
  auto document = text ? parse_entry(*text) : std::nullopt;
  // The whole key is compared: a cut hash never decides what ran.
  if (!document || !says(*document, "kind", key.kind) || !says(*document, "key", key.key) ||
      document->find("value") == nullptr) {
    return std::nullopt;
  }
  return document->get("value");
}

Status Cache::remember(const CacheKey& key, json::Value value) const {
  if (!fd_) {
    return {};
  }
  HR_TRY(text, entry_text(key, generation_, &value));
  const FolderLock lock(fd_.get(), LOCK_EX, busy_ms);
  if (!lock.held()) {
    return busy();
  }
  if (read_generation(fd_.get()) != generation_) {
    return Error{ErrorClass::refused,
                 "cache-cleared",
                 "keep a finding",
                 key.kind,
                 "the cache was cleared after this was begun",
                 ""};
  }
  const auto there = key.scope == key.key ? std::nullopt : read_ours(fd_.get(), entry_name(key));
  if (there) {
    const auto document = parse_entry(*there);
    if (document && !says(*document, "key", key.key)) {
      return Error{ErrorClass::refused,
                   "cache-superseded",
                   "keep a finding",
                   key.kind,
                   "something newer of the same place was asked for since",
                   ""};
    }
  }
  return write_ours(fd_.get(), entry_name(key), text);
}

Status Cache::claim(const CacheKey& key) const {
  if (!fd_) {
    return {};
  }
  HR_TRY(text, entry_text(key, generation_, nullptr));
  const FolderLock lock(fd_.get(), LOCK_EX, busy_ms);
  if (!lock.held()) {
    return busy();
  }
  const auto there = read_ours(fd_.get(), entry_name(key));
  const auto document = there ? parse_entry(*there) : std::nullopt;
  if (document && says(*document, "key", key.key)) {
    return {};
  }
  return write_ours(fd_.get(), entry_name(key), text);
}

// ---- flights
// -------------------------------------------------------------------------------------------------
// A flight is a file: locked while somebody finds out, then filled with what came of it and unlinked, then
// unlocked. Whoever opened it before that reads the outcome from the file that has no name any more; whoever
// comes later makes a new one. The kernel drops the lock of a process that was killed.
Flight Cache::join(const CacheKey& key, std::int64_t max_wait_ms) const {
  Flight flight;
  flight.key_ = key;
  flight.generation_ = generation_;
  flight.directory_ = fd_.get();
  flight.name_ = flight_name(key);
  const std::int64_t end = monotonic_nanos() + max_wait_ms * 1'000'000;
  while (fd_) {
    auto file = open_at(fd_.get(), flight.name_, O_RDWR | O_CREAT | O_NONBLOCK, 0600);
    struct stat info {};
    if (file.has_error() || ::fstat(file.value().get(), &info) != 0 || !S_ISREG(info.st_mode) ||
        info.st_uid != ::geteuid() || (info.st_mode & 077) != 0 || info.st_nlink > 1) {
      break;
    }
    const bool waited = ::flock(file.value().get(), LOCK_EX | LOCK_NB) != 0;
    if (waited) {
      const std::int64_t left_ms = (end - monotonic_nanos()) / 1'000'000;
      if (left_ms <= 0 || !lock_within(file.value().get(), LOCK_EX, left_ms)) {
        break;  // who flies hangs: everybody for himself
      }
    }
    if (::fstat(file.value().get(), &info) != 0) {
      break;
    }
    auto text = read_all(file.value().get(), max_bytes);
    const auto document = text.has_value() ? parse_entry(text.value()) : std::nullopt;
    const bool over = info.st_nlink == 0;
    if ((waited || over) && document && says(*document, "kind", key.kind) &&
        says(*document, "key", key.key) && says(*document, "generation", std::to_string(generation_))) {
      flight.landed_ = document->get("value");
      return flight;
    }
    if (over) {
      continue;  // ended without an outcome
    }
    if (::ftruncate(file.value().get(), 0) != 0) {
      break;
    }
    flight.fd_ = std::move(file).value();
    break;
  }
  if (key.scope != key.key) {
    (void)claim(key);
  }
  return flight;
}

void Flight::land(const json::Value& outcome) {
  if (!fd_) {
    return;
  }
  const auto text = entry_text(key_, generation_, &outcome);
  struct stat ours {};
  struct stat named {};
  if (text.has_value() && !pwrite_all(fd_.get(), text.value(), 0).has_error() &&
      ::fstat(fd_.get(), &ours) == 0 &&
      ::fstatat(directory_, name_.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 && ours.st_dev == named.st_dev &&
      ours.st_ino == named.st_ino) {
    ::unlinkat(directory_, name_.c_str(), 0);
  }
  fd_.reset();
}

// ---- for operators
// -------------------------------------------------------------------------------------------
Result<std::vector<Cache::Entry>> Cache::entries() const {
  std::vector<Entry> out;
  if (!fd_) {
    return out;
  }
  HR_TRY(names, list_directory(fd_.get()));
  for (const std::string& name : names) {
    struct stat info {};
    if (name == generation_file || ::fstatat(fd_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
      continue;
    }
    Entry entry;
    entry.name = name;
    entry.bytes = static_cast<std::uint64_t>(info.st_size);
    entry.modified_unix_ms = std::int64_t{info.st_mtim.tv_sec} * 1000 + info.st_mtim.tv_nsec / 1'000'000;
    const auto text = read_ours(fd_.get(), name);
    if (name.rfind(".flight-", 0) == 0) {
      entry.state = "in-flight";
      entry.kind = name.substr(8, name.rfind('-') - 8);
    } else if (const auto document = text ? parse_entry(*text) : std::nullopt) {
      entry.kind = document->get("kind").as_string();
      entry.state = document->find("value") != nullptr ? "kept" : "claimed";
    } else if (text && name.rfind("proof-", 0) == 0) {
      entry.kind = "boundary-proof";
      entry.state = "kept";
    } else {
      entry.state = "damaged";
    }
    out.push_back(std::move(entry));
  }
  return out;
}

Result<Cache::Cleared> Cache::clear() {
  Cleared cleared;
  if (!fd_) {
    return cleared;
  }
  const FolderLock lock(fd_.get(), LOCK_EX, clear_busy_ms);
  if (!lock.held()) {
    return busy();
  }
  // The generation first: what is killed here leaves entries that may stay, and none that may come back.
  const std::uint64_t next =
      std::max(read_generation(fd_.get()) + 1, static_cast<std::uint64_t>(unix_millis_now()));
  Status raised = write_ours(fd_.get(), generation_file, std::to_string(next));
  HR_TRY(names, list_directory(fd_.get()));
  for (const std::string& name : names) {
    struct stat info {};
    if (name == generation_file || ::fstatat(fd_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
      continue;
    }
    const bool gone = S_ISDIR(info.st_mode) ? !remove_tree_at(fd_.get(), name).has_error()
                                            : ::unlinkat(fd_.get(), name.c_str(), 0) == 0;
    if (gone) {
      ++cleared.entries;
      cleared.bytes += static_cast<std::uint64_t>(info.st_size);
    }
  }
  if (raised.has_error()) {  // a full disk: there is room now
    HR_CHECK(write_ours(fd_.get(), generation_file, std::to_string(next)));
  }
  generation_ = next;
  cleared.generation = next;
  return cleared;
}

}  // namespace hitchrail::store
