#pragma once
#include <fstream>

#include "../attempt/attempt_fixture.hpp"
#include "core/canonical.hpp"
#include "finish/finish.hpp"
#include "journal/journal.hpp"
#include "journal/reader.hpp"
#include "store/store.hpp"

namespace hitchrail::test {

// An attempt as the supervisor leaves it: journal with a verdict, exit slot `ended`, lease taken.
struct Ended {
  TempDir state;
  std::string id;
  attempt::Directory directory;

  explicit Ended(const SlotSpec& slot = {}, const std::string& verdict = R"({"status":"success"})",
                 const std::string& name = "attempt_ended1")
      : id(name), directory(publish(state.fd(), name)) {
    {
      auto store = must(store::Store::open(state.fd()));
      must(store.begin_attempt({id, "/srv/tree", {1, 2}, {1, 3}, 1}, row()));
    }
    write_journal(verdict);
    must(attempt::write_exit_slot(directory.fd(), slot_of(slot)));
  }
  [[nodiscard]] store::AttemptRow row() const {
    return {id, "task_1", "codex-cli", "codex", "/srv/tree", "starting", "", 5, 0};
  }
  void write_journal(const std::string& verdict) const {
    auto writer = must(journal::Writer::create(
        directory.fd(), {id, "task_1", "codex-cli", "codex-cli", "codex", "gpt"}, json::Value()));
    journal::Draft draft;
    draft.kind = "run.started";
    draft.origin.key = "run.started";
    must(writer.append(draft, 1'767'225'600'000));
    if (!verdict.empty()) {
      draft = {};
      draft.kind = "run.verdict";
      draft.origin = {journal::Origin::Kind::input, 0, 0, 9, 0, ""};
      draft.summary = "the final answer";
      draft.fields_json = verdict;
      must(writer.append(draft, 1'767'225'600'500));
    }
    must(writer.commit());
  }
  [[nodiscard]] std::string path(const std::string& below) const {
    return state / ("attempts/" + id + "/" + below);
  }
  [[nodiscard]] json::Value completion() const { return must(attempt::completion(directory)); }
};

struct Event {
  std::string kind, id, line;
  json::Value payload;
};
inline std::vector<Event> events_of(int attempt_dirfd) {
  std::vector<Event> events;
  auto reader = must(journal::Reader::open(attempt_dirfd));
  for (auto line = must(reader.next()); line; line = must(reader.next())) {
    if (line->sequence > 0) {
      const auto value = must(json::parse(line->text, json::Duplicates::refuse));
      events.push_back({std::string(line->kind), value.get("eventId").as_string(), std::string(line->hash),
                        must(json::parse(must(journal::whole_payload(attempt_dirfd, line->payload)),
                                         json::Duplicates::refuse))});
    }
  }
  return events;
}

// Everything below the attempt but its own times, ids and the hashes over them.
inline std::string shape(const Ended& ended) {
  std::string out;
  for (const std::string& name : must(list_directory(ended.directory.fd()))) {
    out += name + "\n";
  }
  json::Value done = ended.completion();
  for (const char* key : {"completedAt", "digest", "terminal"}) {
    CHECK(done.erase(key));
  }
  out += json::write(done, 1) + "\n";
  for (const Event& event : events_of(ended.directory.fd())) {
    json::Value payload = event.payload;
    payload.erase("completion");
    out += event.kind + " " + json::write(payload) + "\n";
  }
  auto store = must(store::Store::open(ended.state.fd()));
  out += "leases " + std::to_string(must(store.leases()).size()) + "\n";
  for (const auto& row : must(store.attempts())) {
    out += row.attempt_id + " " + row.state + " " + row.code + "\n";
  }
  return out + state_of(ended.directory);
}

}  // namespace hitchrail::test
