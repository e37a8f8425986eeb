#include "journal/format.hpp"

#include <charconv>
#include <cstring>

#include "core/json.hpp"

namespace hitchrail::journal {
namespace {

constexpr std::string_view kind_mark = ",\"kind\":\"";
constexpr std::string_view id_mark = "\",\"eventId\":\"";
constexpr std::string_view origin_mark = "\",\"origin\":";
constexpr std::string_view key_mark = ",\"dedupeKey\":";

void append_number(std::string& out, std::uint64_t number) {
  char text[24];
  const auto end = std::to_chars(text, text + sizeof text, number);
  out.append(text, end.ptr);
}

// Takes `mark` off the front of `rest`.
bool take(std::string_view& rest, std::string_view mark) {
  if (!rest.starts_with(mark)) {
    return false;
  }
  rest.remove_prefix(mark.size());
  return true;
}

bool take_number(std::string_view& rest, std::uint64_t& number) {
  const auto result = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (result.ec != std::errc() || result.ptr == rest.data()) {
    return false;
  }
  rest.remove_prefix(static_cast<std::size_t>(result.ptr - rest.data()));
  return true;
}

// Up to, not including, `end`.
bool take_until(std::string_view& rest, std::string_view end, std::string_view& out) {
  const std::size_t at = rest.find(end);
  if (at == std::string_view::npos) {
    return false;
  }
  out = rest.substr(0, at);
  rest.remove_prefix(at);
  return true;
}

bool parse_event(std::string_view body, LineView& out) {
  std::string_view rest = body;
  if (!take(rest, event_prefix) || !take_number(rest, out.sequence) || !take(rest, kind_mark) ||
      !take_until(rest, id_mark, out.kind) || !take(rest, id_mark) ||
      !take_until(rest, origin_mark, out.event_id) || !take(rest, origin_mark) ||
      !take_until(rest, key_mark, out.origin)) {
    return false;
  }
  constexpr std::size_t hash_part = payload_hash_mark.size() + 65;
  const std::size_t at = rest.find(payload_mark);
  if (at == std::string_view::npos || rest.size() < at + payload_mark.size() + hash_part) {
    return false;
  }
  out.payload = rest.substr(at + payload_mark.size(), rest.size() - at - payload_mark.size() - hash_part);
  rest.remove_prefix(rest.size() - hash_part);
  if (!take(rest, payload_hash_mark) || rest.back() != '"') {
    return false;
  }
  out.payload_hash = rest.substr(0, 64);
  return true;
}

std::string key_text(const Origin& origin) {
  std::string key;
  append_dedupe_key(key, origin);
  return key;
}

bool origin_of(const json::Value& value, Origin& origin) {
  if (const json::Value* host = value.find("host")) {
    origin.kind = Origin::Kind::host;
    origin.key = host->as_string();
    return host->is_string();
  }
  const auto ordinal = value.get("ordinal").as_int();
  if (const json::Value* input = value.find("input")) {
    const auto id = input->as_int();
    if (!id || !ordinal) {
      return false;
    }
    origin.kind = Origin::Kind::input;
    origin.input = static_cast<std::uint64_t>(*id);
    origin.ordinal = static_cast<std::uint32_t>(*ordinal);
    return true;
  }
  const auto stream = value.get("stream").as_int();
  const auto offset = value.get("offset").as_int();
  if (!stream || !offset || !ordinal) {
    return false;
  }
  origin.kind = Origin::Kind::record;
  origin.stream = static_cast<std::uint32_t>(*stream);
  origin.offset = static_cast<std::uint64_t>(*offset);
  origin.ordinal = static_cast<std::uint32_t>(*ordinal);
  return true;
}

std::uint64_t read_short_hash(std::string_view hex) {
  unsigned char bytes[8] = {};
  parse_hex(hex.substr(0, 16), bytes, sizeof bytes);
  std::uint64_t value = 0;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

}  // namespace

Hash close_line(std::string& line, std::size_t start, const Hash& prev, Hasher& hasher) {
  line += prev_mark;
  append_hex(line, prev.data(), prev.size());
  line += '"';
  const Hash hash = hasher.of(std::string_view(line).substr(start));
  line += line_mark;
  append_hex(line, hash.data(), hash.size());
  line += "\"}\n";
  return hash;
}

std::string_view check_line(std::string_view text, bool first, const Hash& prev, std::uint64_t sequence,
                            Hasher& hasher, LineView& out) {
  if (text.size() > max_line) {
    return "it is longer than any line of a journal";
  }
  const std::string_view prefix = first ? header_prefix : event_prefix;
  if (text.size() < prefix.size() + chain_tail || !text.starts_with(prefix)) {
    return "it has not the shape of a journal line";
  }
  std::string_view tail = text.substr(text.size() - chain_tail);
  Hash stored_prev;
  Hash stored_line;
  if (!take(tail, prev_mark) || !parse_hex(tail.substr(0, 64), stored_prev.data(), 32) || tail[64] != '"' ||
      !tail.substr(65).starts_with(line_mark) ||
      !parse_hex(tail.substr(65 + line_mark.size(), 64), stored_line.data(), 32) || !tail.ends_with("\"}")) {
    return "its end has not the shape of a journal line";
  }
  const std::size_t hashed = text.size() - line_mark.size() - 66;
  out.hash = hasher.of(text.substr(0, hashed));
  if (out.hash != stored_line) {
    return "its bytes do not match its hash";
  }
  if (stored_prev != prev) {
    return "it does not follow the line before it";
  }
  if (first) {
    return {};
  }
  if (!parse_event(text.substr(0, text.size() - chain_tail), out)) {
    return "its members are not those of an event";
  }
  return out.sequence == sequence ? std::string_view() : std::string_view("its sequence is out of order");
}

bool tail_hides_line(std::string_view tail, bool first, const Hash& prev, std::uint64_t sequence,
                     Hasher& hasher) {
  // Only ends that look like a line's end are hashed: `"}` followed by something.
  LineView view;
  for (std::size_t at = tail.find("\"}"); at != std::string_view::npos && at + 2 < tail.size();
       at = tail.find("\"}", at + 2)) {
    const std::string_view candidate = tail.substr(0, at + 2);
    if (candidate.size() > chain_tail &&
        candidate.substr(candidate.size() - line_mark.size() - 66).starts_with(line_mark) &&
        check_line(candidate, first, prev, sequence, hasher, view).empty()) {
      return true;
    }
  }
  return false;
}

void append_dedupe_key(std::string& out, const Origin& origin) {
  switch (origin.kind) {
    case Origin::Kind::record:
      out += 'r';
      append_number(out, origin.stream);
      out += ':';
      append_number(out, origin.offset);
      out += ':';
      append_number(out, origin.ordinal);
      return;
    case Origin::Kind::input:
      out += 'i';
      append_number(out, origin.input);
      out += ':';
      append_number(out, origin.ordinal);
      return;
    case Origin::Kind::host:
      out += "h:";
      out += origin.key;
      return;
  }
}

void append_origin_members(std::string& out, const Origin& origin) {
  switch (origin.kind) {
    case Origin::Kind::record:
      out += "\"stream\":";
      append_number(out, origin.stream);
      out += ",\"offset\":";
      append_number(out, origin.offset);
      break;
    case Origin::Kind::input:
      out += "\"input\":";
      append_number(out, origin.input);
      break;
    case Origin::Kind::host:
      out += "\"host\":";
      json::append_quoted(out, origin.key);
      return;
  }
  out += ",\"ordinal\":";
  append_number(out, origin.ordinal);
}

bool line_origins(const LineView& line, std::vector<Known>& out) {
  auto parsed = json::parse(line.origin, json::Duplicates::refuse, "origin");
  if (parsed.has_error()) {
    return false;
  }
  const json::Value& value = parsed.value();
  Origin origin;
  const json::Value* parts = value.find("parts");
  if (parts == nullptr) {
    if (!origin_of(value, origin)) {
      return false;
    }
    out.push_back({key_text(origin), read_short_hash(line.payload_hash)});
    return true;
  }
  for (const json::Value& part : parts->items()) {
    if (!origin_of(part, origin)) {
      return false;
    }
    out.push_back({key_text(origin), read_short_hash(part.get("hash").as_string())});
  }
  return true;
}

std::uint64_t short_hash(const Hash& hash) {
  std::uint64_t value = 0;
  std::memcpy(&value, hash.data(), sizeof value);
  return value;
}

Error damaged(std::uint64_t sequence, std::uint64_t offset, std::string_view reason) {
  Error error;
  error.kind = ErrorClass::failed;
  error.code = "journal-damaged";
  error.operation = "read journal";
  error.object = file_name;
  error.detail = (sequence == 0 ? std::string("the header line") : "line " + std::to_string(sequence)) +
                 " at byte " + std::to_string(offset) + " is damaged: " + std::string(reason);
  error.remedy = "keep the file as evidence; nothing is appended to it any more";
  return error;
}

}  // namespace hitchrail::journal
