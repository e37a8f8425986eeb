// Making an attempt directory: everything under a temporary name, synced, renamed last.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "attempt/attempt.hpp"
#include "attempt/exit_slot.hpp"
#include "attempt/names.hpp"
#include "core/canonical.hpp"
#include "core/file.hpp"
#include "core/ids.hpp"
#include "shim/wire.hpp"

namespace hitchrail::attempt {
namespace {

constexpr auto sweep_age = std::chrono::seconds(600);

json::Value header_document(const NewAttempt& attempt) {
  json::Value header = json::Value::object();
  header.set("schemaVersion", "attempt-header/v1");
  header.set("attemptId", attempt.identity.attempt_id);
  header.set("taskId", attempt.identity.task_id);
  header.set("provider", attempt.identity.provider);
  header.set("agent", attempt.identity.agent);
  header.set("model", attempt.identity.model);
  header.set("worktree", path_value(attempt.worktree));
  header.set("createdAt", iso8601(attempt.created_unix_ms));
  header.set("createdUnixMs", attempt.created_unix_ms);
  json::Value documents = json::Value::array();
  for (const auto& [name, bytes] : attempt.documents) {
    documents.push(json::Value::object({{"name", name}, {"sha256", sha256_prefixed(bytes)}}));
  }
  header.set("documents", std::move(documents));
  json::Value logins = json::Value::array();
  for (const std::string& path : attempt.login_files) {
    logins.push(path_value(path));
  }
  header.set("loginFiles", std::move(logins));
  for (const auto& [key, value] : attempt.header.members()) {
    header.set(key, value);
  }
  return header;
}

Status make_directory(int dirfd, const std::string& name) {
  if (::mkdirat(dirfd, name.c_str(), 0700) != 0) {
    return errno_error("make directory", name, errno);
  }
  return {};
}

Result<Fd> write_new(int dirfd, const std::string& name, std::string_view bytes) {
  HR_TRY(file, open_at(dirfd, name, O_WRONLY | O_CREAT | O_EXCL, 0600));
  HR_CHECK(write_all(file.get(), bytes));
  return file;
}

// All at once: one journal commit of the file system serves them together, one after the other would wait for
// one each.
Status sync_all(const std::vector<int>& files) {
  std::vector<int> errors(files.size(), 0);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < files.size(); ++i) {
    threads.emplace_back([&errors, &files, i] { errors[i] = ::fsync(files[i]) == 0 ? 0 : errno; });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const int number : errors) {
    if (number != 0) {
      return errno_error("sync attempt", "attempt directory", number);
    }
  }
  return {};
}

}  // namespace

// What launchers that were killed left behind. One that is being built holds its lock; one that has not come
// to its lock yet is young.
void sweep_unpublished(int attempts_dirfd, std::chrono::seconds age) {
  const auto names = list_directory(attempts_dirfd);
  if (names.has_error()) {
    return;
  }
  for (const std::string& name : names.value()) {
    struct stat info {};
    if (!name.starts_with(building_prefix) ||
        ::fstatat(attempts_dirfd, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(info.st_mode) ||
        unix_millis_now() / 1000 - info.st_ctim.tv_sec < age.count()) {
      continue;
    }
    const auto directory = open_at(attempts_dirfd, name, O_RDONLY | O_DIRECTORY);
    if (directory.has_value() && !lock_is_held(directory.value().get())) {
      (void)remove_tree_at(attempts_dirfd, name);
    }
  }
}

struct Builder::State {
  Fd attempts, directory;
  std::string id, building;
  json::Value header;
  Lock lock;
  std::vector<Fd> unsynced;
  bool published = false;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (!published && attempts.valid() && !building.empty()) {
      (void)remove_tree_at(attempts.get(), building);
    }
  }

  Status fill(const NewAttempt& attempt);
};

Status Builder::State::fill(const NewAttempt& attempt) {
  const int at = directory.get();
  HR_TRY(locked, take_lock(at, 0));
  lock = Lock(std::move(locked));
  for (const char* name : {"manifests", "spill", "home", "temp", "git"}) {
    HR_CHECK(make_directory(at, name));
  }
  header = header_document(attempt);
  HR_TRY(header_file, write_new(at, header_name, json::write(header, 2) + "\n"));
  unsynced.push_back(std::move(header_file));
  HR_TRY(manifests, open_at(at, "manifests", O_RDONLY | O_DIRECTORY));
  for (const auto& [name, bytes] : attempt.documents) {
    HR_TRY(document, write_new(manifests.get(), name, bytes));
    unsynced.push_back(std::move(document));
  }
  unsynced.push_back(std::move(manifests));
  char token[wire::token_size];
  random_bytes(token, sizeof token);
  HR_TRY(token_file, write_new(at, token_name, {token, sizeof token}));
  unsynced.push_back(std::move(token_file));
  HR_CHECK(prepare_exit_slot(at));
  HR_TRY(reserve, open_at(at, reserve_name, O_WRONLY | O_CREAT | O_EXCL, 0600));
  if (const int number = ::posix_fallocate(reserve.get(), 0, reserve_bytes); number != 0) {
    return errno_error("reserve room", reserve_name, number);
  }
  unsynced.push_back(std::move(reserve));
  return {};
}

Builder::Builder(std::unique_ptr<State> state) : state_(std::move(state)) {}
Builder::Builder(Builder&&) noexcept = default;
Builder& Builder::operator=(Builder&&) noexcept = default;
Builder::~Builder() = default;

Result<Builder> Builder::begin(int state_dirfd, const NewAttempt& attempt) {
  auto state = std::make_unique<State>();
  if (::mkdirat(state_dirfd, attempts_folder, 0700) != 0 && errno != EEXIST) {
    return errno_error("make directory", attempts_folder, errno);
  }
  HR_TRY(attempts, open_at(state_dirfd, attempts_folder, O_RDONLY | O_DIRECTORY));
  sweep_unpublished(attempts.get(), sweep_age);
  state->attempts = std::move(attempts);
  state->id = attempt.identity.attempt_id;
  const std::string building = building_prefix + state->id;
  HR_CHECK(make_directory(state->attempts.get(), building));
  state->building = building;
  HR_TRY(directory, open_at(state->attempts.get(), building, O_RDONLY | O_DIRECTORY));
  state->directory = std::move(directory);
  HR_CHECK(state->fill(attempt));
  return Builder(std::move(state));
}

int Builder::fd() const {
  return state_->directory.get();
}

Result<Builder::Published> Builder::publish() {
  State& s = *state_;
  std::vector<int> files;
  for (const Fd& file : s.unsynced) {
    files.push_back(file.get());
  }
  files.push_back(s.directory.get());
  HR_CHECK(sync_all(files));
  s.unsynced.clear();
  if (::renameat2(s.attempts.get(), s.building.c_str(), s.attempts.get(), s.id.c_str(), RENAME_NOREPLACE) !=
      0) {
    return errno_error("publish attempt", s.id, errno);
  }
  s.published = true;
  if (::fsync(s.attempts.get()) != 0) {
    return errno_error("sync attempts", s.id, errno);
  }
  return Published{Directory(std::move(s.directory), s.id, std::move(s.header)), std::move(s.lock)};
}

}  // namespace hitchrail::attempt
