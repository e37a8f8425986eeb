// From a draft to a line: payload, dedupe, merge of adjacent deltas, bounds.

#include <algorithm>
#include <charconv>

#include "core/ids.hpp"
#include "core/json.hpp"
#include "journal/writer_state.hpp"

namespace hitchrail::journal {
namespace {

constexpr std::size_t line_overhead = 2048;  // bound of a line without payload and parts
constexpr std::size_t part_overhead = 128;

}  // namespace

Error journal_error(ErrorClass kind, const char* code, const char* operation, std::string detail,
                    std::string remedy) {
  return Error{kind, code, operation, file_name, std::move(detail), std::move(remedy)};
}

void append_member(std::string& out, std::string_view name, std::string_view value) {
  if (!value.empty()) {
    out += ",\"";
    out += name;
    out += "\":";
    json::append_quoted(out, value);
  }
}

std::string source_text(const Identity& identity, std::string_view provider) {
  std::string out = ",\"source\":{\"provider\":";
  json::append_quoted(out, provider);
  append_member(out, "adapter", identity.adapter);
  append_member(out, "agent", identity.agent);
  append_member(out, "model", identity.model);
  return out + "}";
}

void Writer::State::prepare_constants() {
  append_member(same_text, "taskId", identity.task_id);
  append_member(same_text, "runId", identity.attempt_id);
  append_member(same_text, "attemptId", identity.attempt_id);
  source_own = source_text(identity, identity.provider);
  source_system = source_text(identity, "system");
  id_prefix = random_id("runevt_", 10);
}

const std::uint64_t* Writer::State::find_known() {
  if (const auto found = known.find(key); found != known.end()) {
    KnownOrigin& origin = found->second;
    if (origin.line != no_line) {
      --replayed[origin.line].missing;
      origin.line = no_line;
      while (first_missing < replayed.size() && replayed[first_missing].missing == 0) {
        ++first_missing;
      }
    }
    return &origin.hash;
  }
  for (const auto& map : recent) {
    if (const auto found = map.find(key); found != map.end()) {
      return &found->second;
    }
  }
  return nullptr;
}

void Writer::State::learn(std::vector<Known>& origins, std::uint64_t offset) {
  for (Known& origin : origins) {
    if (origin.key.starts_with("h:")) {  // not tied to a place in a stream: never waited for
      known.emplace(std::move(origin.key), KnownOrigin{origin.hash, no_line});
      continue;
    }
    if (replayed.empty() || replayed.back().offset != offset) {
      replayed.push_back({offset, 0});
    }
    if (known.emplace(std::move(origin.key), KnownOrigin{origin.hash, replayed.size() - 1}).second) {
      ++replayed.back().missing;
    }
  }
}

std::uint64_t Writer::State::origins_from() const {
  return first_missing < replayed.size() ? replayed[first_missing].offset : durable.size;
}

void Writer::State::remember(const Origin& origin, std::uint64_t hash) {
  if (origin.kind == Origin::Kind::host) {
    known.emplace(key, KnownOrigin{hash, no_line});
  } else {
    recent[0].emplace(key, hash);
  }
}

void Writer::State::append_times(std::string& line, std::int64_t received,
                                 const std::string& provider_timestamp) {
  if (valid_timestamp(provider_timestamp)) {
    append_member(line, "providerTimestamp", provider_timestamp);
  }
  if (received != time_ms) {
    time_ms = received;
    time_text = ",\"receivedAt\":\"" + iso8601(received) + '"';
  }
  line += time_text;
}

void Writer::State::write_line(const Draft& draft, const Ids& ids, std::string_view origin_members,
                               std::string_view dedupe_key, std::int64_t received,
                               const std::vector<std::string>& redacted, std::uint64_t original_bytes,
                               std::string_view payload_bytes, const Hash& payload_hash) {
  std::string& line = buffer;
  const std::size_t start = line.size();
  char number[24];
  const auto decimal = [&number](std::uint64_t value) {
    return std::string_view(
        number, static_cast<std::size_t>(std::to_chars(number, number + sizeof number, value).ptr - number));
  };
  line += event_prefix;
  line += decimal(durable.sequence + ++buffered_events);
  line += ",\"kind\":\"";
  line += draft.kind;
  line += "\",\"eventId\":\"";
  line += id_prefix;
  // Eight characters of a counter after ten random ones: unique without asking the kernel for each event.
  static constexpr char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
  std::uint64_t counter = id_counter++;
  char suffix[8];
  for (int i = 7; i >= 0; --i, counter >>= 6) {
    suffix[i] = letters[counter & 63];
  }
  line.append(suffix, sizeof suffix);
  line += "\",\"origin\":{";
  line += origin_members;
  line += "},\"dedupeKey\":";
  json::append_quoted(line, dedupe_key);
  line += same_text;
  append_member(line, "sessionId", ids.session);
  append_member(line, "turnId", ids.turn);
  append_member(line, "itemId", ids.item);
  append_member(line, "providerEventId", ids.provider_event);
  append_member(line, "parentEventId", ids.parent);
  append_times(line, received, draft.provider_timestamp);
  line += draft.system || draft.origin.kind == Origin::Kind::host ? source_system : source_own;
  line += redacted.empty() ? ",\"redaction\":{\"status\":\"none\",\"fields\":["
                           : ",\"redaction\":{\"status\":\"redacted\",\"fields\":[";
  for (std::size_t i = 0; i < redacted.size(); ++i) {
    line += i == 0 ? "\"" : ",\"";
    line += redacted[i];
    line += '"';
  }
  line += "],\"originalBytes\":";
  line += decimal(original_bytes);
  line += ",\"persistedBytes\":";
  line += decimal(payload_bytes.size());
  line += '}';
  line += payload_mark;
  line += payload_bytes;
  line += payload_hash_mark;
  append_hex(line, payload_hash.data(), payload_hash.size());
  line += '"';
  last = close_line(line, start, last, hasher);
}

void Writer::State::write_single(const Draft& draft, const Ids& ids, std::int64_t received,
                                 const std::vector<std::string>& redacted, std::uint64_t original_bytes,
                                 std::string_view bytes, const Hash& hash) {
  std::string origin;
  append_origin_members(origin, draft.origin);
  std::string dedupe;
  append_dedupe_key(dedupe, draft.origin);
  write_line(draft, ids, origin, dedupe, received, redacted, original_bytes, bytes, hash);
}

std::uint64_t Writer::State::pending_bytes() const {
  if (!merge) {
    return 0;
  }
  return line_overhead + merge->text.size() * 6 + merge->raws.size() + merge->parts.size() * part_overhead;
}

// Estimates are upper bounds, so that a line accepted here always fits.
Status Writer::State::check_room(bool reserve, std::size_t payload_bytes) const {
  const std::uint64_t bytes =
      durable.size + buffer.size() + pending_bytes() + line_overhead + part_overhead + payload_bytes;
  const std::uint64_t events = durable.sequence + buffered_events + (merge ? 1 : 0) + 1;
  const std::uint64_t max_bytes = limits.max_bytes - (reserve ? 0 : limits.reserved_bytes);
  const std::uint64_t max_events = limits.max_events - (reserve ? 0 : limits.reserved_events);
  if (bytes > max_bytes || events > max_events) {
    return journal_error(ErrorClass::failed, "journal-full", "append event",
                         "the journal has reached its bound of " + std::to_string(limits.max_events) +
                             " events or " + std::to_string(limits.max_bytes) + " bytes");
  }
  return {};
}

Status Writer::State::append(const Draft& draft, std::int64_t received, bool reserve) {
  if (dead) {
    return journal_error(ErrorClass::failed, "journal-writer-dead", "append event",
                         "an earlier write or sync failed", "open the journal again");
  }
  HR_CHECK(build_payload(draft, redactor, payload));
  key.clear();
  append_dedupe_key(key, draft.origin);
  if (key.size() > 240) {
    return journal_error(ErrorClass::internal, "event-invalid", "append event",
                         "the origin's key is over 240 bytes");
  }
  const bool spilled = payload.bytes.size() > spill_threshold;
  std::string kept;
  std::string name;
  if (spilled) {
    name = spill_name(identity.attempt_id, draft.kind, key, hasher);
    kept = spilled_payload(draft, redactor, payload.bytes, name, hasher.of(payload.bytes));
  }
  const std::string_view persisted = spilled ? std::string_view(kept) : std::string_view(payload.bytes);
  payload.hash = hasher.of(persisted);
  if (const std::uint64_t* before = find_known()) {
    return *before == short_hash(payload.hash)
               ? Status{}
               : append_nondeterministic(draft, *before, payload.hash, received);
  }
  const bool merging = !spilled && can_merge(draft);
  if (!merging) {
    flush_merge();
  }
  HR_CHECK(check_room(reserve, persisted.size()));
  if (spilled) {
    if (!reserve && spill.bytes() + payload.bytes.size() > limits.max_spill_bytes) {
      return journal_error(ErrorClass::failed, "journal-full", "append event",
                           "the spilled payloads have reached their bound of " +
                               std::to_string(limits.max_spill_bytes) + " bytes");
    }
    if (auto written = spill.write(name, payload.bytes); written.has_error()) {
      return fail(std::move(written).error());
    }
  }
  remember(draft.origin, short_hash(payload.hash));
  if (merging) {
    add_to_merge(draft, received);
  } else {
    write_single(draft, payload.ids, received, payload.redacted, payload.original_bytes, persisted,
                 payload.hash);
  }
  return {};
}

Status Writer::State::append_nondeterministic(const Draft& draft, std::uint64_t before, const Hash& now,
                                              std::int64_t received) {
  std::string fields = "{\"dedupeKey\":";
  json::append_quoted(fields, key);
  fields += ",\"kind\":\"" + draft.kind + "\",\"journaledHashPrefix\":\"";
  append_hex(fields, reinterpret_cast<const unsigned char*>(&before), sizeof before);
  fields += "\",\"repeatedHashPrefix\":\"";
  append_hex(fields, now.data(), sizeof before);
  fields += "\"}";
  Draft report;
  report.kind = "adapter-nondeterministic";
  report.origin.key = "adapter-nondeterministic:" + key;
  report.summary = "after a restart the adapter made another event of the same input; the first one stays";
  report.fields_json = fields;
  return append(report, received, false);
}

bool Writer::State::can_merge(const Draft& draft) const {
  return draft.mergeable && draft.origin.kind != Origin::Kind::host && !draft.text.empty() &&
         draft.summary.empty() && draft.fields_json.empty() && !payload.text.empty() &&
         (!draft.has_raw || !payload.raw.empty());
}

void Writer::State::add_to_merge(const Draft& draft, std::int64_t received) {
  const auto same = [&] {
    const Merge& m = *merge;
    return m.draft.kind == draft.kind && m.draft.item_id == draft.item_id &&
           m.draft.turn_id == draft.turn_id && m.draft.session_id == draft.session_id &&
           m.draft.parent_event_id == draft.parent_event_id && m.draft.provider_type == draft.provider_type &&
           m.draft.system == draft.system && m.draft.has_raw == draft.has_raw && m.parts.size() < max_parts &&
           m.text.size() + payload.text.size() + m.raws.size() + payload.raw.size() + 512 <=
               spill_threshold / 2;
  };
  if (merge && !same()) {
    flush_merge();
  }
  const bool first = !merge.has_value();
  if (first) {
    merge.emplace();
    merge->draft = draft;
    merge->draft.text = merge->draft.raw = merge->draft.summary = merge->draft.fields_json = {};
    merge->received = received;
    merge->ids = payload.ids;
    merge->single = payload.bytes;
    merge->hash = payload.hash;
  } else {
    if (merge->ids.provider_event != payload.ids.provider_event) {
      merge->ids.provider_event.clear();
    }
    merge->raws += payload.raw.empty() ? "" : ",";
  }
  merge->raws += payload.raw;
  merge->text += payload.text;
  merge->parts.push_back({draft.origin, payload.text.size(), short_hash(payload.hash), payload.hash});
  merge->original_bytes += payload.original_bytes;
  for (std::string& field : payload.redacted) {
    if (std::find(merge->redacted.begin(), merge->redacted.end(), field) == merge->redacted.end()) {
      merge->redacted.push_back(std::move(field));
    }
  }
}

void Writer::State::flush_merge() {
  if (!merge) {
    return;
  }
  Merge joined = std::move(*merge);
  merge.reset();
  if (joined.parts.size() == 1) {
    write_single(joined.draft, joined.ids, joined.received, joined.redacted, joined.original_bytes,
                 joined.single, joined.hash);
    return;
  }
  Payload built;
  build_merged_payload(joined.draft.provider_type, joined.text, joined.raws, redactor, built);
  joined.redacted.insert(joined.redacted.end(), built.redacted.begin(), built.redacted.end());
  std::string origin = "\"parts\":[";
  for (const MergedPart& part : joined.parts) {
    origin += origin.back() == '[' ? "{" : ",{";
    append_origin_members(origin, part.origin);
    origin += ",\"length\":" + std::to_string(part.text_bytes) + ",\"hash\":\"";
    append_hex(origin, part.hash.data(), 8);
    origin += "\"}";
  }
  origin += ']';
  std::string dedupe;
  append_dedupe_key(dedupe, joined.parts.front().origin);
  write_line(joined.draft, joined.ids, origin, dedupe, joined.received, joined.redacted,
             joined.original_bytes, built.bytes, hasher.of(built.bytes));
}

}  // namespace hitchrail::journal
