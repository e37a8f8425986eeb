#pragma once
// run-event/v1: the append side. One writer at a time, by flock on the journal file.
//
// A line's members, in this order: schemaVersion, sequence, kind, eventId, origin, dedupeKey, taskId, runId,
// attemptId, [sessionId, turnId, itemId, providerEventId, parentEventId, providerTimestamp], receivedAt,
// source, redaction, payload, payloadHash (over the payload's bytes), prev (hash of the line before), line
// (hash of this line up to `,"line"`). A payload: {providerType?, summary?, text?, members of fields_json...,
// raw?}; of merged drafts {providerType?, text, raws?}, with origin {"parts": [{stream, offset, ordinal,
// length, hash}...]}: length of the part's text, hash (8 bytes) of the payload the part would have had alone.
//
// A payload over 8 KiB becomes {providerType?, summary?, spilled:true, originalPayloadBytes, spill{name,
// sha256, bytes}, preview} and lies whole in spill/NAME (read_spill in reader.hpp).
//
// Promises: an event is durable (fdatasync) before commit() returns; each line proves itself and the chain
// (`prev`, `line`); an event whose origin the journal already has is not written again; known secrets are
// redacted before the append; payloads over 8 KiB go to spill/ with a deterministic name; the hard bound
// leaves room for terminal events. Refuses: a journal or directory that is a link, foreign, or damaged (whole
// line with a wrong hash: journal-damaged). A torn tail was never acknowledged: it is cut and reported once.
// After a failed sync the writer is dead (journal-sync-failed).

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/fd.hpp"
#include "core/json.hpp"
#include "core/redact.hpp"
#include "core/result.hpp"

namespace hitchrail::journal {

// Where an event comes from; the dedupe key. Host events use a fixed `key` ("run.started", "run.terminal").
struct Origin {
  enum class Kind { record, input, host } kind = Kind::host;
  std::uint32_t stream = 0;   // record
  std::uint64_t offset = 0;   // record: absolute offset of the record's first byte
  std::uint64_t input = 0;    // input id
  std::uint32_t ordinal = 0;  // n-th event of that record or input
  std::string key;            // host
  bool operator==(const Origin&) const = default;
};

struct Draft {
  std::string kind;  // run-event/v1 kind or namespaced
  Origin origin;
  std::string provider_type;
  std::string session_id, turn_id, item_id, provider_event_id, parent_event_id, provider_timestamp;
  std::string_view raw;  // the provider's record by reference; valid until append() returns
  bool has_raw = false;
  std::string_view summary, text;
  std::string_view fields_json;  // an object's text or empty; members follow text
  bool mergeable = false;  // adjacent drafts of one commit with equal kind, item, turn and session are joined
  bool system = false;  // the host's own statement, not the provider's: source.provider is "system" (always
                        // so for host origins)
};

struct Identity {  // constant members of every event
  std::string attempt_id, task_id, provider, adapter, agent, model;
};

struct Limits {
  std::uint64_t max_bytes = 128ull << 20;  // contracts §10.3
  std::uint64_t max_events = 50'000;
  std::uint64_t reserved_bytes = 256u << 10;  // kept for host and terminal events
  std::uint64_t reserved_events = 64;
  std::uint64_t max_spill_bytes = 1ull << 30;
  int (*sync)(int fd) = nullptr;  // instead of fdatasync: how a test drops or delays what was not synced
};

// origins_from is what a successor that goes on from the caller's present state passes to Writer::open. It
// lies before `size` as long as this writer has not been sent again everything the journal held beyond its
// own origins_from: a successor that is killed in the middle of a replay must not make the next one forget
// the rest.
struct Position {
  std::uint64_t size = 0;      // durable bytes of journal.jsonl
  std::uint64_t sequence = 0;  // of the last event; 0 = only the header
  std::uint64_t origins_from = 0;
};

struct Opened {
  Position position;
  bool torn_tail_cut = false;
  std::uint64_t torn_bytes = 0;
};

class Writer {
 public:
  // Makes journal.jsonl with its header line; error journal-exists.
  static Result<Writer> create(int attempt_dirfd, const Identity& identity, const json::Value& header,
                               const Limits& limits = {});
  // Opens and takes the lock (error journal-locked), verifies the whole chain, cuts a torn tail, remembers
  // the origins of events at or after byte `origins_from` (a successor passes the published slot's
  // journal_size; 0 = all).
  static Result<Writer> open(int attempt_dirfd, std::uint64_t origins_from = 0, const Limits& limits = {});
  Writer(Writer&&) noexcept;
  Writer& operator=(Writer&&) noexcept;
  ~Writer();

  [[nodiscard]] const Opened& opened() const;
  [[nodiscard]] const Identity& identity() const;
  void set_redactor(const SecretRedactor* redactor);  // not owned; may be null

  // Buffers an event. Errors: journal-full (only host origins still fit), event-invalid. A duplicate origin
  // is dropped; with another payload hash an `adapter-nondeterministic` event is buffered instead.
  Status append(const Draft& draft, std::int64_t received_unix_ms);
  // Writes and syncs all buffered events. On error nothing more may be appended through this writer.
  Result<Position> commit();
  // Hash of the last line ("sha256:…"); the terminal event's goes into the completion result.
  [[nodiscard]] std::string last_line_hash() const;

 private:
  struct State;
  explicit Writer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace hitchrail::journal
