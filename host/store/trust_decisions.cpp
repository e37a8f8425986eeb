#include "store/state.hpp"

namespace hitchrail::store {
namespace {

constexpr const char* select_trust =
    "SELECT id, identity, inventory, mode, agent, uid, user, reason, at_unix_ms, expires_unix_ms, "
    "supersedes, "
    "workspace FROM trust_decisions WHERE identity = ?";

TrustRecord record_of(SQLite::Statement& row) {
  TrustRecord record;
  record.id = row.getColumn(0).getString();
  record.identity = row.getColumn(1).getString();
  record.inventory = row.getColumn(2).getString();
  record.mode = row.getColumn(3).getString();
  record.agent = row.getColumn(4).getString();
  record.uid = static_cast<std::uint32_t>(row.getColumn(5).getInt64());
  record.user = row.getColumn(6).getString();
  record.reason = row.getColumn(7).getString();
  record.at_unix_ms = row.getColumn(8).getInt64();
  record.expires_unix_ms = row.getColumn(9).getInt64();
  record.supersedes = row.getColumn(10).getString();
  record.workspace = row.getColumn(11).getString();
  return record;
}

}  // namespace

Result<TrustRecord> Store::add_trust_decision(TrustRecord record) {
  return guarded([&]() -> Result<TrustRecord> {
    SQLite::Transaction transaction(*state_->db, SQLite::TransactionBehavior::IMMEDIATE);
    const auto count =
        static_cast<std::size_t>(state_->db->execAndGet("SELECT count(*) FROM trust_decisions").getInt64());
    const bool narrows = record.mode == "denied" || record.mode == "revoked";
    if (count >= max_trust_decisions - (narrows ? 0 : kept_trust_decisions)) {
      return Error{
          ErrorClass::refused,
          "trust-decision-limit",
          "record a decision on trust",
          record.workspace,
          "The state directory holds " + std::to_string(count) + " decisions, and none is ever removed.",
          "Use another state directory (HITCHRAIL_HOME)."};
    }
    SQLite::Statement before(*state_->db,
                             std::string(select_trust) + " AND agent = ? ORDER BY number DESC LIMIT 1");
    before.bind(1, record.identity);
    before.bind(2, record.agent);
    record.supersedes = before.executeStep() ? record_of(before).id : "";
    before.reset();
    SQLite::Statement insert(
        *state_->db,
        "INSERT INTO trust_decisions(id, identity, inventory, mode, agent, uid, user, reason, at_unix_ms, "
        "expires_unix_ms, supersedes, workspace, policy) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1)");
    insert.bind(1, record.id);
    insert.bind(2, record.identity);
    insert.bind(3, record.inventory);
    insert.bind(4, record.mode);
    insert.bind(5, record.agent);
    insert.bind(6, record.uid);
    insert.bind(7, record.user);
    insert.bind(8, record.reason);
    insert.bind(9, record.at_unix_ms);
    insert.bind(10, record.expires_unix_ms);
    insert.bind(11, record.supersedes);
    insert.bind(12, record.workspace.data(), static_cast<int>(record.workspace.size()));
    insert.exec();
    transaction.commit();
    return record;
  });
}

Result<std::vector<TrustRecord>> Store::trust_decisions(const std::string& identity) {
  return guarded([&]() -> Result<std::vector<TrustRecord>> {
    std::vector<TrustRecord> records;
    SQLite::Statement all(*state_->db, std::string(select_trust) + " ORDER BY number DESC");
    all.bind(1, identity);
    while (all.executeStep()) {
      records.push_back(record_of(all));
    }
    return records;
  });
}

}  // namespace hitchrail::store
