#include "store/state.hpp"

namespace hitchrail::store {
namespace {

ManagedWorktree managed_of(SQLite::Statement& row) {
  return {row.getColumn(0).getString(), row.getColumn(1).getInt64(),  row.getColumn(2).getString(),
          row.getColumn(3).getString(), row.getColumn(4).getString(), row.getColumn(5).getString(),
          row.getColumn(6).getString(), row.getColumn(7).getString(), row.getColumn(8).getString()};
}

}  // namespace

Status Store::project_worktree(const ManagedWorktree& row) {
  return guarded([&]() -> Status {
    SQLite::Statement upsert(
        *state_->db,
        "INSERT INTO worktree_manifests VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT(id) DO UPDATE SET revision = excluded.revision, path = excluded.path, "
        "branch = excluded.branch, repository = excluded.repository, owner_attempt = "
        "excluded.owner_attempt, creation = excluded.creation, cleanup = excluded.cleanup, "
        "digest = excluded.digest WHERE excluded.revision > revision");
    upsert.bind(1, row.id);
    upsert.bind(2, row.revision);
    upsert.bind(3, row.path);
    upsert.bind(4, row.branch);
    upsert.bind(5, row.repository);
    upsert.bind(6, row.owner_attempt);
    upsert.bind(7, row.creation);
    upsert.bind(8, row.cleanup);
    upsert.bind(9, row.digest);
    upsert.exec();
    return {};
  });
}

Result<std::vector<ManagedWorktree>> Store::managed_worktrees() {
  return guarded([&]() -> Result<std::vector<ManagedWorktree>> {
    std::vector<ManagedWorktree> rows;
    SQLite::Statement all(*state_->db, "SELECT * FROM worktree_manifests ORDER BY id");
    while (all.executeStep()) {
      rows.push_back(managed_of(all));
    }
    return rows;
  });
}

}  // namespace hitchrail::store
