// What a run sends to its gate: the head of a request, and the host in it. First byte: which of the two.
#include <cstdint>
#include <string>
#include <string_view>

#include "gate/decide.hpp"

namespace {

using namespace hitchrail::gate;

const Document& document() {
  static const Compiled compiled = compile({{"api.example.com", "*.example.org", "8.8.8.8"}, {}}).value();
  static const Document read = *read_document(compiled.document);
  return read;
}

void host(std::string_view text) {
  const Host parsed = parse_host(text);
  if (parsed.kind == Host::Kind::literal) {
    // What we print is what we read, and it stays in its class.
    const bool v4 = is_ipv4(parsed.address);
    const Host again = parse_host(v4 ? parsed.name : "[" + parsed.name + "]");
    if (again.kind != Host::Kind::literal || again.address != parsed.address) {
      __builtin_trap();
    }
  } else if (parsed.kind == Host::Kind::name) {
    if (parse_host(parsed.name).kind != Host::Kind::name || parse_host(parsed.name).name != parsed.name) {
      __builtin_trap();
    }
  }
  (void)parse_relay(text);
  (void)host_of_url(text);
  (void)compile({{std::string(text)}, {}});
}

void head(std::string_view text) {
  std::size_t at_once = 0;
  const Head whole = parse_head(text, at_once);
  // A head in two pieces is the same head.
  std::size_t scanned = 0;
  const Head first = parse_head(text.substr(0, text.size() / 2), scanned);
  const Head second = first.state == Head::State::more ? parse_head(text, scanned) : first;
  if (second.state != whole.state || second.size != whole.size || second.port != whole.port) {
    __builtin_trap();
  }
  const Verdict verdict = judge_head(document(), whole);
  if (verdict.next == Verdict::Next::dial && verdict.addresses.front() != *parse_ipv4("8.8.8.8")) {
    __builtin_trap();  // the only literal that is allowed
  }
  if (verdict.next == Verdict::Next::resolve && match(document(), verdict.name, whole.port) == 0) {
    __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  data[0] % 2 == 0 ? host(text) : head(text);
  return 0;
}
