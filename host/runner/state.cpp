#include "runner/state.hpp"

#include <cstring>
#include <utility>

namespace hitchrail::runner {

namespace {

constexpr std::uint64_t magic = 0x00000001'53535248;  // version 1, "HRSS"

Error damaged(std::string detail) {
  return {ErrorClass::internal, "slot-damaged", "read state area", "snapshot", std::move(detail), ""};
}

void put_u64(std::string& out, std::uint64_t value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}
void put_text(std::string& out, std::string_view text) {
  put_u64(out, text.size());
  out.append(text);
}

struct Reader {
  std::string_view in;
  bool good = true;

  std::uint64_t u64() {
    std::uint64_t value = 0;
    if (in.size() < sizeof(value)) {
      good = false;
      return 0;
    }
    std::memcpy(&value, in.data(), sizeof(value));
    in.remove_prefix(sizeof(value));
    return value;
  }
  std::string text() {
    const std::uint64_t size = u64();
    if (!good || size > in.size()) {
      good = false;
      return {};
    }
    std::string value(in.substr(0, static_cast<std::size_t>(size)));
    in.remove_prefix(static_cast<std::size_t>(size));
    return value;
  }
};

}  // namespace

std::string encode_state(const SessionState& state) {
  std::string body;
  put_text(body, state.conversation_id);
  put_text(body, state.turn_id);
  put_u64(body, state.last_call_id);
  put_u64(body, state.input_closed ? 1 : 0);
  put_u64(body, state.open_approvals.size());
  for (const auto& id : state.open_approvals) {
    put_text(body, id);
  }
  for (const std::uint64_t start : state.discard_start) {
    put_u64(body, start);
  }
  std::string out;
  put_u64(out, magic);
  put_text(out, body);
  return out;
}

Result<SessionState> decode_state(std::string_view& snapshot) {
  Reader outer{snapshot};
  const bool known = outer.u64() == magic;
  const std::uint64_t size = outer.u64();
  if (!outer.good || !known || size > outer.in.size()) {
    return damaged("no session state before the adapter's bytes");
  }
  Reader reader{outer.in.substr(0, static_cast<std::size_t>(size))};
  SessionState state;
  state.conversation_id = reader.text();
  state.turn_id = reader.text();
  state.last_call_id = reader.u64();
  state.input_closed = reader.u64() != 0;
  const std::uint64_t approvals = reader.u64();
  for (std::uint64_t i = 0; reader.good && i < approvals; ++i) {
    state.open_approvals.push_back(reader.text());
  }
  for (auto& start : state.discard_start) {
    start = reader.u64();
  }
  if (!reader.good || !reader.in.empty()) {
    return damaged("session state is not whole");
  }
  snapshot = outer.in.substr(static_cast<std::size_t>(size));
  return state;
}

}  // namespace hitchrail::runner
