#include <sys/stat.h>

#include "core/canonical.hpp"
#include "journal_fixture.hpp"

using namespace hitchrail;
using namespace hitchrail::test;

namespace {

const std::string secret = "sk-live-0123456789\"quoted\\";

std::string everything_below(const TempDir& at) {
  std::string all = slurp(journal_path(at));
  for (const std::string& name :
       must(list_directory(must(open_at(at.fd(), "spill", O_RDONLY | O_DIRECTORY)).get()))) {
    all += name + slurp(at / ("spill/" + name));
  }
  return all;
}

}  // namespace

TEST_CASE("a known secret is nowhere in journal or spill, whatever member or form it comes in") {
  TempDir at;
  SecretRedactor redactor;
  redactor.add("KEY", secret);
  redactor.add("NUMBER", "7777777777");
  auto writer = new_journal(at);
  writer.set_redactor(&redactor);
  std::string quoted;
  json::append_quoted(quoted, secret);
  Event all("tool.completed");
  all.record(1, 0)
      .with_text("t " + secret)
      .with_summary(secret)
      .with_fields("{\"f\":" + quoted + "}")
      .with_raw("{\"r\":" + quoted + "}");
  all.item("i-" + secret);
  all.draft.provider_type = secret;
  add(writer, std::move(all));
  add(writer, record_event(1, "plain " + secret));
  add(writer, record_event(2, "\xff" + secret + "\xff"));
  add(writer, record_event(3, "{\"n\":7777777777}"));
  add(writer, record_event(4, "\"" + std::string(9000, 'x') + "\",\"" + secret));
  add(writer, record_event(5, "{\"x\":\"" + std::string(9000, 'x') + "\",\"s\":" + quoted + "}"));
  add(writer, Event("progress").record(1, 6).with_fields("{\"n\":7777777777}"));
  must(writer.commit());

  const std::string bytes = everything_below(at);
  CHECK(bytes.find(secret) == std::string::npos);
  CHECK(bytes.find(quoted.substr(1, quoted.size() - 2)) == std::string::npos);
  CHECK(bytes.find("7777777777") == std::string::npos);
  CHECK(bytes.find("[REDACTED:KEY]") != std::string::npos);
  const auto events = read_events(at.fd());
  REQUIRE(events.size() == 7);
  for (const auto& event : events) {
    CHECK(event.get("redaction").get("status").as_string() == "redacted");
    CHECK(!event.get("redaction").get("fields").items().empty());
  }
  CHECK(must(journal::verify(at.fd())).events == 7);
}

TEST_CASE("a secret that lies across two joined deltas is not put together again") {
  TempDir at;
  SecretRedactor redactor;
  redactor.add("KEY", secret);
  auto writer = new_journal(at);
  writer.set_redactor(&redactor);
  add(writer, delta(0, "before " + secret.substr(0, 9)));
  add(writer, delta(1, secret.substr(9) + " after"));
  must(writer.commit());
  const auto events = read_events(at.fd());
  REQUIRE(events.size() == 1);
  CHECK(events[0].get("payload").get("text").as_string() == "before [REDACTED:KEY] after");
  CHECK(events[0].get("redaction").get("status").as_string() == "redacted");
}

TEST_CASE("a payload over 8 KiB is spilled whole under a name made of its origin") {
  TempDir at;
  const std::string raw = "{\"big\":\"" + std::string(300'000, 'b') + "\"}";
  std::string name;
  {
    auto writer = new_journal(at);
    add(writer, record_event(0, raw).with_summary("a big one"));
    must(writer.commit());
    const auto payload = read_events(at.fd())[0].get("payload");
    CHECK(payload.get("spilled").as_bool());
    CHECK(payload.get("summary").as_string() == "a big one");
    CHECK(payload.get("preview").as_string().size() == 1024);
    name = payload.get("spill").get("name").as_string();
    struct stat info {};
    REQUIRE(::stat((at / ("spill/" + name)).c_str(), &info) == 0);
    CHECK((info.st_mode & 07777) == 0600);
    CHECK(payload.get("originalPayloadBytes").as_int() == info.st_size);
    const std::string whole = must(journal::whole_payload(at.fd(), json::write(payload)));
    CHECK(must(json::parse(whole, json::Duplicates::refuse)).get("raw").get("big").as_string().size() ==
          300'000);
    CHECK(payload.get("spill").get("sha256").as_string() == sha256_prefixed(whole));
  }
  // The same origin after a restart: dropped, and the file is untouched.
  {
    auto writer = must(journal::Writer::open(at.fd()));
    add(writer, record_event(0, raw).with_summary("a big one"));
    must(writer.commit());
    CHECK(read_events(at.fd()).size() == 1);
  }
  spit(at / ("spill/" + name), "changed");
  const auto payload = json::write(read_events(at.fd())[0].get("payload"));
  CHECK(code_of(journal::whole_payload(at.fd(), payload)) == "spill-damaged");
  ::unlink((at / ("spill/" + name)).c_str());
  CHECK(code_of(journal::whole_payload(at.fd(), payload)) == "spill-missing");
  CHECK(code_of(journal::whole_payload(at.fd(), R"({"spilled":true,"spill":{"name":"../journal.jsonl"}})")) ==
        "spill-missing");
}

TEST_CASE("a leftover spill of an event that was never journaled is overwritten, a planted link is refused") {
  TempDir at;
  const std::string raw = "\"" + std::string(9000, 'q') + "\"";
  std::string name;
  {
    TempDir scout;
    auto writer = new_journal(scout);
    add(writer, record_event(0, raw));
    must(writer.commit());
    name = read_events(scout.fd())[0].get("payload").get("spill").get("name").as_string();
  }
  auto writer = new_journal(at);
  spit(at / ("spill/" + name), std::string(50'000, 'o'));
  add(writer, record_event(0, raw));
  must(writer.commit());
  CHECK(slurp(at / ("spill/" + name)) == "{\"raw\":" + raw + "}");

  TempDir planted;
  auto other = new_journal(planted);
  spit(planted / "victim", "precious");
  REQUIRE(::symlink("../victim", (planted / ("spill/" + name)).c_str()) == 0);
  Event event = record_event(0, raw);
  CHECK(code_of(other.append(event.get(), noon)) == "eloop");
  CHECK(slurp(planted / "victim") == "precious");
}

TEST_CASE("spilled payloads have a bound of their own") {
  TempDir at;
  journal::Limits limits;
  limits.max_spill_bytes = 25'000;
  auto writer = new_journal(at, limits);
  add(writer, record_event(0, "\"" + std::string(9000, 'q') + "\""));
  add(writer, record_event(1, "\"" + std::string(9000, 'q') + "\""));
  Event third = record_event(2, "\"" + std::string(9000, 'q') + "\"");
  CHECK(code_of(writer.append(third.get(), noon)) == "journal-full");
  add(writer, Event("run.failed").host("run.terminal"));
  CHECK(must(writer.commit()).sequence == 3);
}
