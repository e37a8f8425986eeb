// The adapter of Codex CLI as the host drives it. The first byte of each line of the input chooses what the
// rest is: a record of stdout, of stderr, of the session file, the last message. Every hook succeeds, every
// event is lawful, and a session thrown away and taken up from its snapshot after every record says the same.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "codex-cli/driver.hpp"
#include "json_view.hpp"

using namespace hitchrail::codex_cli;
using test::Event;
using test::Run;

namespace {

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

void feed(Run& run, std::string_view line) {
  const char kind = line.empty() ? 'o' : line.front();
  const std::string_view rest = line.substr(line.empty() ? 0 : 1);
  switch (kind) {
    case 'e':
      require(run.record(HR_STREAM_STDERR, rest) == HR_OK);
      break;
    case 't':
      require(run.record(HR_STREAM_STDOUT, rest, HR_RECORD_TRUNCATED) == HR_OK);
      break;
    case 's':
      require(run.record(HR_STREAM_FILE_FIRST, rest) == HR_OK);
      break;
    case 'm':
      require(run.record(HR_STREAM_FILE_FIRST + 1, rest) == HR_OK);
      break;
    default:
      require(run.record(HR_STREAM_STDOUT, rest) == HR_OK);
      break;
  }
}

void play(Run& run, std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    feed(run, text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  require(run.exit(HR_EXIT_CODE, 0) == HR_OK);
  require(run.end() == HR_OK);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Run whole(test::default_launch());
  play(whole, text);
  for (const Event& event : whole.heard.events) {
    require(event.fields.empty() || (json::valid(event.fields) && event.fields.front() == '{'));
    require(json::valid_utf8(event.text) && json::valid_utf8(event.summary));
    require(event.kind != HR_EVENT_NAMED || !event.kind_name.empty());
  }
  require(json::valid(whole.heard.verdict->details));
  require(whole.snapshot().size() < 64 * 1024);
  Run torn(test::default_launch(), HR_LAUNCH_NEW, true);
  play(torn, text);
  require(torn.heard.events == whole.heard.events && *torn.heard.verdict == *whole.heard.verdict);
  return 0;
}
