#include "store/state.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "core/file.hpp"

namespace hitchrail::store {
namespace {

constexpr int busy_ms = 5000;

// One entry a version, never changed once released; user_version counts those applied.
constexpr std::array migrations = {
    R"(CREATE TABLE plugin_pins(
         provider_id TEXT PRIMARY KEY, path TEXT NOT NULL, digest TEXT NOT NULL, enabled INTEGER NOT NULL,
         changed_unix_ms INTEGER NOT NULL) WITHOUT ROWID;
       CREATE TABLE worktree_leases(
         attempt_id TEXT PRIMARY KEY, canonical_path TEXT NOT NULL, root_device INTEGER NOT NULL, root_inode INTEGER NOT NULL,
         git_device INTEGER NOT NULL, git_inode INTEGER NOT NULL, acquired_unix_ms INTEGER NOT NULL) WITHOUT ROWID;
       CREATE UNIQUE INDEX lease_root ON worktree_leases(root_device, root_inode);
       CREATE UNIQUE INDEX lease_git ON worktree_leases(git_device, git_inode);
       CREATE TABLE attempts(
         attempt_id TEXT PRIMARY KEY, task_id TEXT NOT NULL, provider TEXT NOT NULL, agent TEXT NOT NULL, worktree TEXT NOT NULL,
         state TEXT NOT NULL, code TEXT NOT NULL, created_unix_ms INTEGER NOT NULL, finished_unix_ms INTEGER NOT NULL)
         WITHOUT ROWID;
       CREATE INDEX attempts_created ON attempts(created_unix_ms);)",
    R"(CREATE TABLE sandbox_presets(
         id TEXT PRIMARY KEY, path TEXT NOT NULL, digest TEXT NOT NULL, enforcement TEXT NOT NULL, enabled INTEGER NOT NULL,
         changed_unix_ms INTEGER NOT NULL) WITHOUT ROWID;
       CREATE TABLE sandbox_decisions(
         number INTEGER PRIMARY KEY AUTOINCREMENT, preset_id TEXT NOT NULL, digest TEXT NOT NULL, enforcement TEXT NOT NULL,
         action TEXT NOT NULL, uid INTEGER NOT NULL, user TEXT NOT NULL, at_unix_ms INTEGER NOT NULL, run TEXT NOT NULL);
       CREATE INDEX sandbox_decisions_of ON sandbox_decisions(preset_id, number);)",
    R"(CREATE TABLE worktree_manifests(
         id TEXT PRIMARY KEY, revision INTEGER NOT NULL, path TEXT NOT NULL, branch TEXT NOT NULL, repository TEXT NOT NULL,
         owner_attempt TEXT NOT NULL, creation TEXT NOT NULL, cleanup TEXT NOT NULL, digest TEXT NOT NULL) WITHOUT ROWID;
       CREATE INDEX worktree_manifests_at ON worktree_manifests(path);)",
    R"(CREATE TABLE trust_decisions(
         number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, identity TEXT NOT NULL, inventory TEXT NOT NULL,
         mode TEXT NOT NULL, agent TEXT NOT NULL, uid INTEGER NOT NULL, user TEXT NOT NULL, reason TEXT NOT NULL,
         at_unix_ms INTEGER NOT NULL, expires_unix_ms INTEGER NOT NULL, supersedes TEXT NOT NULL, workspace BLOB NOT NULL,
         policy INTEGER NOT NULL);
       CREATE INDEX trust_decisions_of ON trust_decisions(identity, number);)",
};

Status check_file(int state_dirfd, bool make, bool& exists) {
  const int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  // Made here, so that it is 0600 (SQLite's side files take its mode) and never through a link.
  int fd = ::openat(state_dirfd, database_name, make ? flags | O_CREAT : flags, 0600);
  if (fd < 0) {
    exists = false;
    switch (errno) {
      case ENOENT:
        return {};
      case ELOOP:
        return store_error(ErrorClass::refused, "store-unsafe", "it is a link", "remove the link");
      case ENOSPC:
      case EDQUOT:
        return store_error(ErrorClass::environment, "store-full", "the disk is full",
                           "free space and try again");
      default:
        return errno_error("open database", database_name, errno);
    }
  }
  const Fd file(fd);
  struct stat info {};
  if (::fstat(fd, &info) != 0) {
    return errno_error("stat", database_name, errno);
  }
  if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid() || info.st_nlink != 1 ||
      (info.st_mode & 0022) != 0) {
    return store_error(ErrorClass::refused, "store-unsafe", "it is not a file of ours alone", "move it away");
  }
  exists = true;
  return {};
}

int version_of(SQLite::Database& db) {
  return db.execAndGet("PRAGMA user_version").getInt();
}

Status migrate(SQLite::Database& db) {
  if (version_of(db) > static_cast<int>(migrations.size())) {
    return store_error(ErrorClass::environment, "store-newer", "it was written by a newer build",
                       "use the newer build");
  }
  if (version_of(db) == static_cast<int>(migrations.size())) {
    return {};
  }
  SQLite::Transaction transaction(db, SQLite::TransactionBehavior::IMMEDIATE);
  for (auto at = static_cast<std::size_t>(version_of(db)); at < migrations.size();
       ++at) {  // again, now under the lock
    db.exec(migrations[at]);
    db.exec("PRAGMA user_version = " + std::to_string(at + 1));
  }
  transaction.commit();
  return {};
}

std::int64_t as_stored(std::uint64_t number) {
  return static_cast<std::int64_t>(number);
}

bool inside(const std::string& path, const std::string& root) {
  return path.size() > root.size() && path.starts_with(root) &&
         (root.back() == '/' || path[root.size()] == '/');
}

WorktreeLease lease_of(SQLite::Statement& row) {
  WorktreeLease lease;
  lease.attempt_id = row.getColumn(0).getString();
  lease.canonical_path = row.getColumn(1).getString();
  lease.root = {static_cast<std::uint64_t>(row.getColumn(2).getInt64()),
                static_cast<std::uint64_t>(row.getColumn(3).getInt64())};
  lease.git_dir = {static_cast<std::uint64_t>(row.getColumn(4).getInt64()),
                   static_cast<std::uint64_t>(row.getColumn(5).getInt64())};
  lease.acquired_unix_ms = row.getColumn(6).getInt64();
  return lease;
}

constexpr const char* select_leases =
    "SELECT attempt_id, canonical_path, root_device, root_inode, git_device, git_inode, acquired_unix_ms "
    "FROM worktree_leases ORDER BY acquired_unix_ms, attempt_id";

Error held(const char* code, const WorktreeLease& holder, std::string detail) {
  return Error{ErrorClass::refused, code,
               "claim worktree",    holder.attempt_id,
               std::move(detail),   "wait for it, or end it: hitchrail runs stop " + holder.attempt_id};
}

// Within an immediate transaction.
Status claim(SQLite::Database& db, const WorktreeLease& lease) {
  SQLite::Statement all(db, select_leases);
  while (all.executeStep()) {
    const WorktreeLease other = lease_of(all);
    if (other.root == lease.root || other.canonical_path == lease.canonical_path) {
      return held("worktree-busy", other, "another run is live in this worktree");
    }
    if (other.git_dir == lease.git_dir) {
      return held("worktree-git-dir-busy", other, "another run is live on the same git directory");
    }
    if (inside(lease.canonical_path, other.canonical_path) ||
        inside(other.canonical_path, lease.canonical_path)) {
      return held("worktree-overlap", other, "another run is live in " + other.canonical_path);
    }
  }
  SQLite::Statement insert(db, "INSERT INTO worktree_leases VALUES(?, ?, ?, ?, ?, ?, ?)");
  insert.bind(1, lease.attempt_id);
  insert.bind(2, lease.canonical_path);
  insert.bind(3, as_stored(lease.root.device));
  insert.bind(4, as_stored(lease.root.inode));
  insert.bind(5, as_stored(lease.git_dir.device));
  insert.bind(6, as_stored(lease.git_dir.inode));
  insert.bind(7, lease.acquired_unix_ms);
  insert.exec();
  return {};
}

void write_row(SQLite::Database& db, const AttemptRow& row) {
  SQLite::Statement insert(db, "INSERT OR REPLACE INTO attempts VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)");
  insert.bind(1, row.attempt_id);
  insert.bind(2, row.task_id);
  insert.bind(3, row.provider);
  insert.bind(4, row.agent);
  insert.bind(5, row.worktree);
  insert.bind(6, row.state);
  insert.bind(7, row.code);
  insert.bind(8, row.created_unix_ms);
  insert.bind(9, row.finished_unix_ms);
  insert.exec();
}

void delete_by_attempt(SQLite::Database& db, const char* statement, const std::string& attempt_id) {
  SQLite::Statement remove(db, statement);
  remove.bind(1, attempt_id);
  remove.exec();
}

constexpr const char* delete_lease = "DELETE FROM worktree_leases WHERE attempt_id = ?";

PluginPin pin_of(SQLite::Statement& row) {
  return {row.getColumn(0).getString(), row.getColumn(1).getString(), row.getColumn(2).getString(),
          row.getColumn(3).getInt() != 0, row.getColumn(4).getInt64()};
}
constexpr const char* select_pins =
    "SELECT provider_id, path, digest, enabled, changed_unix_ms FROM plugin_pins";

PresetRecord preset_of(SQLite::Statement& row) {
  return {row.getColumn(0).getString(), row.getColumn(1).getString(),   row.getColumn(2).getString(),
          row.getColumn(3).getString(), row.getColumn(4).getInt() != 0, row.getColumn(5).getInt64()};
}
constexpr const char* select_presets =
    "SELECT id, path, digest, enforcement, enabled, changed_unix_ms FROM sandbox_presets";

void insert_decision(SQLite::Database& db, const PresetDecision& decision) {
  SQLite::Statement insert(db,
                           "INSERT INTO sandbox_decisions(preset_id, digest, enforcement, action, uid, user, "
                           "at_unix_ms, run) VALUES(?, ?, ?, ?, ?, ?, ?, ?)");
  insert.bind(1, decision.preset_id);
  insert.bind(2, decision.digest);
  insert.bind(3, decision.enforcement);
  insert.bind(4, decision.action);
  insert.bind(5, decision.uid);
  insert.bind(6, decision.user);
  insert.bind(7, decision.at_unix_ms);
  insert.bind(8, decision.run);
  insert.exec();
}

}  // namespace

Store::Store(std::unique_ptr<State> state) : state_(std::move(state)) {}
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;
Store::~Store() = default;

Result<Store> Store::open(int state_dirfd, Access access) {
  bool exists = false;
  HR_CHECK(check_file(state_dirfd, access == Access::write, exists));
  auto state = std::make_unique<State>();
  state->directory.reset(::fcntl(state_dirfd, F_DUPFD_CLOEXEC, 3));
  const std::string path = "/proc/self/fd/" + std::to_string(state->directory.get()) + "/" + database_name;
  const Status opened = guarded([&]() -> Status {
    if (exists) {
      state->db = std::make_unique<SQLite::Database>(path, SQLite::OPEN_READWRITE, busy_ms);
      if (access == Access::read && version_of(*state->db) == 0) {
        exists = false;  // being made by somebody else right now
      }
    }
    if (!exists) {
      state->db = std::make_unique<SQLite::Database>(":memory:", SQLite::OPEN_READWRITE);
    } else if (access == Access::write) {
      state->db->exec("PRAGMA journal_mode = WAL");
      state->db->exec("PRAGMA synchronous = FULL");
    }
    return migrate(*state->db);
  });
  HR_CHECK(opened);
  return Store(std::move(state));
}

Result<std::vector<PluginPin>> Store::plugin_pins() {
  return guarded([&]() -> Result<std::vector<PluginPin>> {
    std::vector<PluginPin> pins;
    SQLite::Statement all(*state_->db, std::string(select_pins) + " ORDER BY provider_id");
    while (all.executeStep()) {
      pins.push_back(pin_of(all));
    }
    return pins;
  });
}

Result<std::optional<PluginPin>> Store::plugin_pin(const std::string& provider_id) {
  return guarded([&]() -> Result<std::optional<PluginPin>> {
    SQLite::Statement one(*state_->db, std::string(select_pins) + " WHERE provider_id = ?");
    one.bind(1, provider_id);
    return one.executeStep() ? std::optional<PluginPin>(pin_of(one)) : std::nullopt;
  });
}

Status Store::set_plugin_pin(const PluginPin& pin, const std::optional<std::string>& expected_digest) {
  return guarded([&]() -> Status {
    SQLite::Transaction transaction(*state_->db, SQLite::TransactionBehavior::IMMEDIATE);
    SQLite::Statement one(*state_->db, std::string(select_pins) + " WHERE provider_id = ?");
    one.bind(1, pin.provider_id);
    const auto stored = one.executeStep() ? std::optional<std::string>(pin_of(one).digest) : std::nullopt;
    if (stored != expected_digest) {
      return Error{ErrorClass::failed,
                   "store-conflict",
                   "enable plugin",
                   pin.provider_id,
                   "another process changed it meanwhile",
                   "look at it again and repeat"};
    }
    one.reset();
    SQLite::Statement insert(*state_->db, "INSERT OR REPLACE INTO plugin_pins VALUES(?, ?, ?, ?, ?)");
    insert.bind(1, pin.provider_id);
    insert.bind(2, pin.path);
    insert.bind(3, pin.digest);
    insert.bind(4, pin.enabled ? 1 : 0);
    insert.bind(5, pin.changed_unix_ms);
    insert.exec();
    transaction.commit();
    return {};
  });
}

Status Store::remove_plugin_pin(const std::string& provider_id) {
  return guarded([&]() -> Status {
    delete_by_attempt(*state_->db, "DELETE FROM plugin_pins WHERE provider_id = ?", provider_id);
    return {};
  });
}

Result<std::vector<PresetRecord>> Store::presets() {
  return guarded([&]() -> Result<std::vector<PresetRecord>> {
    std::vector<PresetRecord> records;
    SQLite::Statement all(*state_->db, std::string(select_presets) + " ORDER BY id");
    while (all.executeStep()) {
      records.push_back(preset_of(all));
    }
    return records;
  });
}

Result<std::optional<PresetRecord>> Store::preset(const std::string& id) {
  return guarded([&]() -> Result<std::optional<PresetRecord>> {
    SQLite::Statement one(*state_->db, std::string(select_presets) + " WHERE id = ?");
    one.bind(1, id);
    return one.executeStep() ? std::optional<PresetRecord>(preset_of(one)) : std::nullopt;
  });
}

Status Store::set_preset(const PresetRecord& record, const std::optional<PresetRecord>& seen,
                         const PresetDecision& decision) {
  return guarded([&]() -> Status {
    SQLite::Transaction transaction(*state_->db, SQLite::TransactionBehavior::IMMEDIATE);
    SQLite::Statement one(*state_->db, std::string(select_presets) + " WHERE id = ?");
    one.bind(1, record.id);
    const auto stored = one.executeStep() ? std::optional<PresetRecord>(preset_of(one)) : std::nullopt;
    if (stored != seen) {
      return Error{ErrorClass::failed,
                   "store-conflict",
                   "record preset",
                   record.id,
                   "another process changed it meanwhile",
                   "look at it again and repeat"};
    }
    one.reset();
    SQLite::Statement insert(*state_->db, "INSERT OR REPLACE INTO sandbox_presets VALUES(?, ?, ?, ?, ?, ?)");
    insert.bind(1, record.id);
    insert.bind(2, record.path);
    insert.bind(3, record.digest);
    insert.bind(4, record.enforcement);
    insert.bind(5, record.enabled ? 1 : 0);
    insert.bind(6, record.changed_unix_ms);
    insert.exec();
    insert_decision(*state_->db, decision);
    transaction.commit();
    return {};
  });
}

Status Store::add_preset_decision(const PresetDecision& decision) {
  return guarded([&]() -> Status {
    insert_decision(*state_->db, decision);
    return {};
  });
}

Result<std::vector<PresetDecision>> Store::preset_decisions(const std::string& id) {
  return guarded([&]() -> Result<std::vector<PresetDecision>> {
    std::vector<PresetDecision> decisions;
    SQLite::Statement all(*state_->db,
                          "SELECT preset_id, digest, enforcement, action, uid, user, at_unix_ms, run FROM "
                          "sandbox_decisions WHERE preset_id = ? ORDER BY number");
    all.bind(1, id);
    while (all.executeStep()) {
      decisions.push_back(
          {all.getColumn(0).getString(), all.getColumn(1).getString(), all.getColumn(2).getString(),
           all.getColumn(3).getString(), static_cast<std::uint32_t>(all.getColumn(4).getInt64()),
           all.getColumn(5).getString(), all.getColumn(6).getInt64(), all.getColumn(7).getString()});
    }
    return decisions;
  });
}

Status Store::begin_attempt(const WorktreeLease& lease, const AttemptRow& row) {
  return guarded([&]() -> Status {
    SQLite::Transaction transaction(*state_->db, SQLite::TransactionBehavior::IMMEDIATE);
    HR_CHECK(claim(*state_->db, lease));
    write_row(*state_->db, row);
    transaction.commit();
    return {};
  });
}

Status Store::claim_worktree(const WorktreeLease& lease) {
  return guarded([&]() -> Status {
    SQLite::Transaction transaction(*state_->db, SQLite::TransactionBehavior::IMMEDIATE);
    HR_CHECK(claim(*state_->db, lease));
    transaction.commit();
    return {};
  });
}

Result<std::vector<WorktreeLease>> Store::leases() {
  return guarded([&]() -> Result<std::vector<WorktreeLease>> {
    std::vector<WorktreeLease> leases;
    SQLite::Statement all(*state_->db, select_leases);
    while (all.executeStep()) {
      leases.push_back(lease_of(all));
    }
    return leases;
  });
}

Status Store::release_worktree(const std::string& attempt_id) {
  return guarded([&]() -> Status {
    delete_by_attempt(*state_->db, delete_lease, attempt_id);
    return {};
  });
}

Status Store::finish_attempt(const AttemptRow& row) {
  return guarded([&]() -> Status {
    SQLite::Transaction transaction(*state_->db, SQLite::TransactionBehavior::IMMEDIATE);
    write_row(*state_->db, row);
    delete_by_attempt(*state_->db, delete_lease, row.attempt_id);
    transaction.commit();
    return {};
  });
}

Status Store::remove_attempt(const std::string& attempt_id) {
  return guarded([&]() -> Status {
    SQLite::Transaction transaction(*state_->db, SQLite::TransactionBehavior::IMMEDIATE);
    delete_by_attempt(*state_->db, delete_lease, attempt_id);
    delete_by_attempt(*state_->db, "DELETE FROM attempts WHERE attempt_id = ?", attempt_id);
    transaction.commit();
    return {};
  });
}

Result<std::vector<AttemptRow>> Store::attempts() {
  return guarded([&]() -> Result<std::vector<AttemptRow>> {
    std::vector<AttemptRow> rows;
    SQLite::Statement all(*state_->db, "SELECT * FROM attempts ORDER BY created_unix_ms DESC, attempt_id");
    while (all.executeStep()) {
      rows.push_back(
          {all.getColumn(0).getString(), all.getColumn(1).getString(), all.getColumn(2).getString(),
           all.getColumn(3).getString(), all.getColumn(4).getString(), all.getColumn(5).getString(),
           all.getColumn(6).getString(), all.getColumn(7).getInt64(), all.getColumn(8).getInt64()});
    }
    return rows;
  });
}

}  // namespace hitchrail::store
