#pragma once
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "core/json.hpp"
#include "journal/journal.hpp"
#include "journal/reader.hpp"
#include "support/results.hpp"
#include "support/scratch.hpp"

namespace hitchrail::test {

inline constexpr std::int64_t noon = 1'767'225'600'000;

inline journal::Identity some_identity() {
  return {"attempt_abc", "task_1", "codex-cli", "codex-cli", "codex", "gpt"};
}

// Owns the bytes its draft points to.
struct Event {
  std::string raw, summary, text, fields;
  journal::Draft draft;
  explicit Event(std::string kind) { draft.kind = std::move(kind); }
  Event& record(std::uint32_t stream, std::uint64_t offset, std::uint32_t ordinal = 0) {
    draft.origin = {journal::Origin::Kind::record, stream, offset, 0, ordinal, ""};
    return *this;
  }
  Event& input(std::uint64_t id, std::uint32_t ordinal = 0) {
    draft.origin = {journal::Origin::Kind::input, 0, 0, id, ordinal, ""};
    return *this;
  }
  Event& host(std::string key) {
    draft.origin = {};
    draft.origin.key = std::move(key);
    return *this;
  }
  Event& with_raw(std::string bytes) {
    raw = std::move(bytes);
    draft.has_raw = true;
    return *this;
  }
  Event& with_text(std::string bytes) {
    text = std::move(bytes);
    return *this;
  }
  Event& with_summary(std::string bytes) {
    summary = std::move(bytes);
    return *this;
  }
  Event& with_fields(std::string bytes) {
    fields = std::move(bytes);
    return *this;
  }
  Event& item(std::string id) {
    draft.item_id = std::move(id);
    return *this;
  }
  Event& mergeable() {
    draft.mergeable = true;
    return *this;
  }
  const journal::Draft& get() {
    draft.raw = raw;
    draft.summary = summary;
    draft.text = text;
    draft.fields_json = fields;
    return draft;
  }
};

inline Event record_event(std::uint64_t offset, std::string raw) {
  Event event("message.assistant");
  event.record(1, offset).with_raw(std::move(raw));
  return event;
}
inline Event delta(std::uint64_t offset, std::string text, std::string item = "item_1") {
  Event event("message.delta");
  event.record(1, offset).with_text(std::move(text)).item(std::move(item)).mergeable();
  return event;
}

inline journal::Writer new_journal(const TempDir& at, const journal::Limits& limits = {}) {
  return must(journal::Writer::create(at.fd(), some_identity(), json::Value(), limits));
}
inline void add(journal::Writer& writer, Event event) {
  must(writer.append(event.get(), noon));
}
inline std::vector<json::Value> read_events(int attempt_dirfd) {
  auto reader = must(journal::Reader::open(attempt_dirfd));
  std::vector<json::Value> events;
  for (;;) {
    const auto line = must(reader.next());
    if (!line) {
      return events;
    }
    if (line->sequence > 0) {
      events.push_back(must(json::parse(line->text, json::Duplicates::refuse)));
    }
  }
}
inline std::string journal_path(const TempDir& at) {
  return at / "journal.jsonl";
}

}  // namespace hitchrail::test
