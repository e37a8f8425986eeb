#include <sys/stat.h>

#include <set>

#include "core/canonical.hpp"
#include "journal_fixture.hpp"

using namespace hitchrail;
using namespace hitchrail::test;
using journal::Reader;
using journal::Writer;

TEST_CASE("an event has the members of run-event/v1 and jq-readable JSON on one line") {
  TempDir at;
  auto writer = new_journal(at);
  Event event("command.completed");
  event.record(1, 4096, 2)
      .with_raw(R"({"n":1.50,"z":1,"a":2})")
      .with_summary("ran")
      .with_text("out")
      .with_fields(R"( {"exitCode":0} )");
  event.item("item_7");
  event.draft.session_id = "thread_1";
  event.draft.provider_type = "item.completed";
  event.draft.provider_timestamp = "2026-01-02T03:04:05.123Z";
  add(writer, std::move(event));
  must(writer.commit());

  const auto events = read_events(at.fd());
  REQUIRE(events.size() == 1);
  const json::Value& e = events[0];
  CHECK(e.get("schemaVersion").as_string() == "run-event/v1");
  CHECK(e.get("sequence").as_int() == 1);
  CHECK(e.get("kind").as_string() == "command.completed");
  CHECK(e.get("eventId").as_string().size() == std::string("runevt_").size() + 18);
  CHECK(e.get("taskId").as_string() == "task_1");
  CHECK(e.get("runId").as_string() == "attempt_abc");
  CHECK(e.get("attemptId").as_string() == "attempt_abc");
  CHECK(e.get("sessionId").as_string() == "thread_1");
  CHECK(e.get("itemId").as_string() == "item_7");
  CHECK(e.get("providerTimestamp").as_string() == "2026-01-02T03:04:05.123Z");
  CHECK(e.get("receivedAt").as_string() == "2026-01-01T00:00:00.000Z");
  CHECK(json::write(e.get("source")) ==
        R"({"provider":"codex-cli","adapter":"codex-cli","agent":"codex","model":"gpt"})");
  CHECK(json::write(e.get("origin")) == R"({"stream":1,"offset":4096,"ordinal":2})");
  CHECK(e.get("dedupeKey").as_string() == "r1:4096:2");
  const std::string payload =
      R"({"providerType":"item.completed","summary":"ran","text":"out","exitCode":0,"raw":{"n":1.50,"z":1,"a":2}})";
  CHECK(json::write(e.get("payload")) == payload);
  CHECK(e.get("payloadHash").as_string() == sha256_hex(payload));
  CHECK(json::write(e.get("redaction")) == R"({"status":"none","fields":[],"originalBytes":)" +
                                               std::to_string(payload.size()) + R"(,"persistedBytes":)" +
                                               std::to_string(payload.size()) + "}");
}

TEST_CASE("each line ends in the hash of the line before and of itself up to there") {
  TempDir at;
  {
    auto writer = new_journal(at);
    add(writer, record_event(0, "1"));
    add(writer, record_event(2, "2"));
    must(writer.commit());
  }
  const std::string bytes = slurp(journal_path(at));
  std::string before = "sha256:" + std::string(64, '0');
  std::size_t begin = 0;
  int lines = 0;
  for (std::size_t end = bytes.find('\n'); end != std::string::npos; end = bytes.find('\n', begin)) {
    const std::string line = bytes.substr(begin, end - begin);
    const std::size_t mark = line.rfind(",\"line\":");
    const auto value = must(json::parse(line, json::Duplicates::refuse));
    CHECK(value.get("prev").as_string() == before);
    before = value.get("line").as_string();
    CHECK(before == sha256_prefixed(line.substr(0, mark)));
    CHECK(value.members().back().first == "line");
    begin = end + 1;
    ++lines;
  }
  CHECK(lines == 3);
  CHECK(must(journal::verify(at.fd())).last_line_hash == before);
}

TEST_CASE("the first line is a header with signature and version") {
  TempDir at;
  json::Value extra;
  extra.set("launchDigest", "sha256:1");
  must(Writer::create(at.fd(), some_identity(), extra));
  auto reader = must(Reader::open(at.fd()));
  const auto line = must(reader.next());
  REQUIRE(line);
  CHECK(line->sequence == 0);
  const auto header = must(json::parse(line->text, json::Duplicates::refuse));
  CHECK(header.get("signature").as_string() == "hitchrail-journal");
  CHECK(header.get("version").as_int() == 1);
  CHECK(header.get("header").get("launchDigest").as_string() == "sha256:1");
  CHECK(code_of(Writer::create(at.fd(), some_identity(), json::Value())) == "journal-exists");
  struct stat info {};
  REQUIRE(::stat(journal_path(at).c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0600);
}

TEST_CASE("raw records that are not one JSON value become a string or base64, and odd text is data") {
  TempDir at;
  auto writer = new_journal(at);
  const std::string deep = std::string(61, '[') + std::string(61, ']');
  const std::string deeper = std::string(62, '[') + std::string(62, ']');
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{\"a\":\"\xe2\x80\xa8\xe2\x80\xa9\xf0\x9f\x98\x80\"}",
       "{\"a\":\"\xe2\x80\xa8\xe2\x80\xa9\xf0\x9f\x98\x80\"}"},
      {"not json", "\"not json\""},
      {"", "\"\""},
      {"{\"a\":1} trailing", "\"{\\\"a\\\":1} trailing\""},
      {"\xff\xfe", "{\"base64\":\"//4=\"}"},
      {deep, deep},
      {deeper, "\"" + deeper + "\""},
      {"12345678901234567890.50", "12345678901234567890.50"},
      {"{\"k\":1,\"k\":2}", "{\"k\":1,\"k\":2}"},
  };
  std::uint64_t offset = 0;
  for (const auto& [raw, expected] : cases) {
    add(writer, record_event(offset++, raw));
  }
  must(writer.commit());
  auto reader = must(Reader::open(at.fd()));
  must(reader.next());
  for (const auto& [raw, expected] : cases) {
    const auto line = must(reader.next());
    REQUIRE(line);
    CHECK(std::string(line->payload) == "{\"raw\":" + expected + "}");
    CHECK(json::parse(line->text, json::Duplicates::first_wins).has_value());
  }
}

TEST_CASE("event ids differ and sequences count from one over all commits") {
  TempDir at;
  auto writer = new_journal(at);
  for (int i = 0; i < 300; ++i) {
    add(writer, record_event(static_cast<std::uint64_t>(i), "1"));
    if (i % 7 == 0) {
      must(writer.commit());
    }
  }
  CHECK(must(writer.commit()).sequence == 300);
  std::set<std::string> ids;
  std::int64_t sequence = 0;
  for (const auto& event : read_events(at.fd())) {
    ids.insert(event.get("eventId").as_string());
    CHECK(event.get("sequence").as_int() == ++sequence);
  }
  CHECK(ids.size() == 300);
}

TEST_CASE("an event that is not one is refused") {
  TempDir at;
  auto writer = new_journal(at);
  const auto refused = [&](Event event) { return code_of(writer.append(event.get(), noon)); };
  CHECK(refused(Event("Bad.Kind").host("a")) == "event-invalid");
  CHECK(refused(Event("plain").host("b")) == "event-invalid");
  CHECK(refused(Event("a..b").host("c")) == "event-invalid");
  CHECK(refused(Event("run.started").host("d").with_fields("[1]")) == "event-invalid");
  CHECK(refused(Event("run.started").host("e").with_fields("{\"a\":")) == "event-invalid");
  CHECK(refused(Event("run.started").host(std::string(300, 'k'))) == "event-invalid");
  CHECK(refused(Event("progress").host("f")) == "");
  CHECK(refused(Event("run.started").host("g").with_fields("{}")) == "");
  CHECK(must(writer.commit()).sequence == 2);
}

TEST_CASE("long ids become a hash, bad provider timestamps are dropped") {
  TempDir at;
  auto writer = new_journal(at);
  Event event = record_event(0, "1");
  event.item(std::string(161, 'i'));
  event.draft.provider_timestamp = "yesterday";
  add(writer, std::move(event));
  must(writer.commit());
  const auto events = read_events(at.fd());
  CHECK(events[0].get("itemId").as_string() == "sha256_" + sha256_hex(std::string(161, 'i')));
  CHECK(events[0].find("providerTimestamp") == nullptr);
}

TEST_CASE("an origin the journal has is not written again, also after a reopen") {
  TempDir at;
  std::uint64_t middle = 0;
  {
    auto writer = new_journal(at);
    add(writer, Event("run.started").host("run.started"));
    add(writer, record_event(0, "1"));
    middle = must(writer.commit()).size;
    add(writer, record_event(2, "2"));
    add(writer, record_event(2, "2"));
    CHECK(must(writer.commit()).sequence == 3);
  }
  auto writer = must(Writer::open(at.fd(), middle));
  add(writer, record_event(2, "2"));
  add(writer, Event("run.started").host("run.started"));
  add(writer, record_event(4, "3"));
  CHECK(must(writer.commit()).sequence == 4);
  CHECK(read_events(at.fd()).back().get("payload").get("raw").number_text() == "3");
}

TEST_CASE("a successor killed in the middle of a replay does not make the next one forget the rest") {
  TempDir at;
  std::uint64_t start = 0;
  {
    auto writer = new_journal(at);
    start = must(writer.commit()).origins_from;
    for (std::uint64_t i = 0; i < 4; ++i) {
      add(writer, record_event(i, std::to_string(i)));
    }
    must(writer.commit());
  }
  std::uint64_t published = 0;
  {
    auto writer = must(Writer::open(at.fd(), start));
    CHECK(writer.opened().position.origins_from == start);
    add(writer, record_event(0, "0"));
    add(writer, record_event(1, "1"));
    const auto position = must(writer.commit());
    CHECK(position.origins_from > start);
    CHECK(position.origins_from < position.size);
    published = position.origins_from;
  }
  auto writer = must(Writer::open(at.fd(), published));
  for (std::uint64_t i = 2; i < 5; ++i) {
    add(writer, record_event(i, std::to_string(i)));
  }
  const auto position = must(writer.commit());
  CHECK(position.sequence == 5);
  CHECK(position.origins_from == position.size);
}

TEST_CASE("another payload of a known origin is reported once and the first one stays") {
  TempDir at;
  {
    auto writer = new_journal(at);
    add(writer, record_event(0, "1"));
    must(writer.commit());
  }
  auto writer = must(Writer::open(at.fd()));
  add(writer, record_event(0, "99"));
  add(writer, record_event(0, "99"));
  must(writer.commit());
  const auto events = read_events(at.fd());
  REQUIRE(events.size() == 2);
  CHECK(events[0].get("payload").get("raw").number_text() == "1");
  CHECK(events[1].get("kind").as_string() == "adapter-nondeterministic");
  CHECK(events[1].get("payload").get("dedupeKey").as_string() == "r1:0:0");
  CHECK(events[1].get("source").get("provider").as_string() == "system");
}

TEST_CASE("the hard bound keeps room for host and terminal events") {
  TempDir at;
  journal::Limits limits;
  limits.max_bytes = 64 << 10;
  limits.reserved_bytes = 16 << 10;
  auto writer = new_journal(at, limits);
  std::string code;
  std::uint64_t offset = 0;
  while (code.empty()) {
    Event event = record_event(offset++, "\"" + std::string(500, 'x') + "\"");
    code = code_of(writer.append(event.get(), noon));
    if (offset % 5 == 0) {
      must(writer.commit());
    }
  }
  CHECK(code == "journal-full");
  add(writer, Event("run.failed").host("run.terminal").with_summary(std::string(2000, 's')));
  CHECK(must(writer.commit()).size <= limits.max_bytes);
  CHECK(must(journal::verify(at.fd())).terminal);

  TempDir other;
  limits = {};
  limits.max_events = 10;
  limits.reserved_events = 2;
  auto few = new_journal(other, limits);
  for (std::uint64_t i = 0; i < 8; ++i) {
    add(few, record_event(i, "1"));
  }
  Event ninth = record_event(8, "1");
  CHECK(code_of(few.append(ninth.get(), noon)) == "journal-full");
  add(few, Event("run.failed").host("run.terminal"));
  CHECK(must(few.commit()).sequence == 9);
}
