#include "journal/payload.hpp"

#include <algorithm>
#include <array>

#include "core/json.hpp"
#include "core/text.hpp"
#include "journal/format.hpp"

namespace hitchrail::journal {
namespace {

constexpr std::size_t max_id = 160;
constexpr std::size_t max_provider_type = 240;
constexpr std::size_t max_kept_summary = 512;
constexpr std::size_t max_preview = 1024;
// The raw member lies at depth 3 of a line at most (line, payload, raws), whose whole depth may be 64.
constexpr int max_raw_depth = 61;

Error invalid(std::string detail) {
  return Error{ErrorClass::internal, "event-invalid", "append event", file_name, std::move(detail), ""};
}

// The longest prefix of at most `limit` bytes that ends between two characters.
std::string_view cut_utf8(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) {
    return text;
  }
  std::size_t end = limit;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {
    --end;
  }
  return text.substr(0, end);
}

void append_raw(std::string& out, std::string_view raw) {
  if (json::is_valid_line(raw, max_raw_depth)) {
    out += raw;
  } else if (is_valid_utf8(raw)) {
    json::append_quoted(out, raw);
  } else {
    out += "{\"base64\":\"";
    out += base64_encode(raw);
    out += "\"}";
  }
}

// The members of an object's text, without its braces and the space around them.
std::string_view object_members(std::string_view text) {
  const auto space = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
  while (!text.empty() && space(text.front())) {
    text.remove_prefix(1);
  }
  while (!text.empty() && space(text.back())) {
    text.remove_suffix(1);
  }
  text = text.substr(1, text.size() - 2);
  while (!text.empty() && space(text.front())) {
    text.remove_prefix(1);
  }
  return text;
}

bool is_object(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  return first != std::string_view::npos && text[first] == '{' && json::is_valid_line(text, max_raw_depth);
}

struct Pieces {
  std::string_view provider_type, summary, text, fields, raw;
  bool has_raw = false;
};

// `raw_at` is where the raw member's value begins, npos without one.
void assemble(const Pieces& pieces, std::string& out, std::size_t& raw_at) {
  out = "{";
  raw_at = std::string::npos;
  const auto name = [&out](std::string_view key) {
    if (out.size() > 1) {
      out += ',';
    }
    out += '"';
    out += key;
    out += "\":";
  };
  if (!pieces.provider_type.empty()) {
    name("providerType");
    json::append_quoted(out, pieces.provider_type);
  }
  if (!pieces.summary.empty()) {
    name("summary");
    json::append_quoted(out, pieces.summary);
  }
  if (!pieces.text.empty()) {
    name("text");
    json::append_quoted(out, pieces.text);
  }
  if (!pieces.fields.empty()) {
    const std::string_view members = object_members(pieces.fields);
    if (!members.empty()) {
      if (out.size() > 1) {
        out += ',';
      }
      out += members;
    }
  }
  if (pieces.has_raw) {
    name("raw");
    raw_at = out.size();
    append_raw(out, pieces.raw);
  }
  out += '}';
}

// Redacts one piece when it holds a secret; `kept` owns the clean text.
void redact_piece(const SecretRedactor& redactor, std::string_view& piece, std::string& kept,
                  const char* field, std::vector<std::string>& fields) {
  if (!piece.empty() && redactor.redact(piece, kept)) {
    piece = kept;
    fields.emplace_back(field);
  }
}

// The last resort for what a piecewise redaction cannot see (a secret that lies across two members).
bool redact_whole(const SecretRedactor& redactor, std::string& bytes, std::vector<std::string>& fields) {
  std::string clean;
  if (!redactor.redact(bytes, clean)) {
    return false;
  }
  fields.emplace_back("payload");
  bytes = is_object(clean) ? std::move(clean) : std::string(R"({"redacted":true})");
  return true;
}

std::string bounded_id(std::string_view id) {
  if (id.size() <= max_id) {
    return std::string(id);
  }
  Hasher hasher;
  const Hash hash = hasher.of(id);
  std::string out = "sha256_";
  append_hex(out, hash.data(), hash.size());
  return out;
}

void build_ids(const Draft& draft, const SecretRedactor* redactor, Payload& out) {
  const std::array<std::pair<const std::string*, std::string*>, 5> ids = {{
      {&draft.session_id, &out.ids.session},
      {&draft.turn_id, &out.ids.turn},
      {&draft.item_id, &out.ids.item},
      {&draft.provider_event_id, &out.ids.provider_event},
      {&draft.parent_event_id, &out.ids.parent},
  }};
  for (const auto& [from, to] : ids) {
    std::string clean;
    if (redactor != nullptr && !redactor->empty() && !from->empty() && redactor->redact(*from, clean)) {
      *to = bounded_id(clean);
      out.redacted.emplace_back("ids");
    } else if (from->size() <= max_id) {
      *to = *from;
    } else {
      *to = bounded_id(*from);
    }
  }
}

bool digits(std::string_view text, std::size_t at, std::size_t count) {
  return text.size() >= at + count && std::all_of(text.begin() + static_cast<std::ptrdiff_t>(at),
                                                  text.begin() + static_cast<std::ptrdiff_t>(at + count),
                                                  [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

bool valid_kind(std::string_view kind) {
  if (kind == "progress") {
    return true;
  }
  if (kind.size() < 3 || kind.size() > 120 || kind[0] < 'a' || kind[0] > 'z') {
    return false;
  }
  bool separated = false;
  bool fresh = false;  // right after a separator
  for (const char c : kind.substr(1)) {
    if (c == '.' || c == '_' || c == '-') {
      if (fresh) {
        return false;
      }
      separated = fresh = true;
    } else if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
      fresh = false;
    } else {
      return false;
    }
  }
  return separated && !fresh;
}

bool valid_timestamp(std::string_view text) {
  if (text.size() < 20 || text.size() > 40 || !digits(text, 0, 4) || text[4] != '-' || !digits(text, 5, 2) ||
      text[7] != '-' || !digits(text, 8, 2) || (text[10] != 'T' && text[10] != 't') || !digits(text, 11, 2) ||
      text[13] != ':' || !digits(text, 14, 2) || text[16] != ':' || !digits(text, 17, 2)) {
    return false;
  }
  std::size_t at = 19;
  if (text[at] == '.') {
    ++at;
    const std::size_t fraction = at;
    while (at < text.size() && digits(text, at, 1)) {
      ++at;
    }
    if (at == fraction) {
      return false;
    }
  }
  const std::string_view zone = text.substr(at);
  return zone == "Z" || zone == "z" ||
         (zone.size() == 6 && (zone[0] == '+' || zone[0] == '-') && digits(zone, 1, 2) && zone[3] == ':' &&
          digits(zone, 4, 2));
}

Status build_payload(const Draft& draft, const SecretRedactor* redactor, Payload& out) {
  if (!valid_kind(draft.kind)) {
    return invalid("the kind is not one of run-event/v1 and not a namespaced name");
  }
  if (!draft.fields_json.empty() && !is_object(draft.fields_json)) {
    return invalid("fields_json is not one JSON object on one line");
  }
  Pieces pieces{cut_utf8(draft.provider_type, max_provider_type),
                draft.summary,
                draft.text,
                draft.fields_json,
                draft.raw,
                draft.has_raw};
  out.redacted.clear();
  std::size_t raw_at = 0;
  assemble(pieces, out.bytes, raw_at);
  out.original_bytes = out.bytes.size();
  out.text = draft.text;
  build_ids(draft, redactor, out);
  if (redactor != nullptr && !redactor->empty()) {
    std::string clean;
    if (redactor->redact(out.bytes, clean) || (draft.has_raw && redactor->redact(draft.raw, clean))) {
      std::array<std::string, 4> kept;
      out.storage.clear();
      redact_piece(*redactor, pieces.provider_type, kept[0], "payload.providerType", out.redacted);
      redact_piece(*redactor, pieces.summary, kept[1], "payload.summary", out.redacted);
      redact_piece(*redactor, pieces.text, out.storage, "payload.text", out.redacted);
      redact_piece(*redactor, pieces.fields, kept[2], "payload.fields", out.redacted);
      if (!pieces.fields.empty() && !is_object(pieces.fields)) {
        pieces.fields =
            R"({"redactedFields":true})";  // a secret outside a string: a number, or a key's punctuation
      }
      redact_piece(*redactor, pieces.raw, kept[3], "payload.raw", out.redacted);
      out.text = pieces.text;
      assemble(pieces, out.bytes, raw_at);
      if (redact_whole(*redactor, out.bytes, out.redacted)) {
        raw_at = std::string::npos;
      }
    }
  }
  if (out.bytes.size() > max_payload) {
    return invalid("the payload is larger than any record can be");
  }
  out.raw = draft.has_raw && raw_at < out.bytes.size()
                ? std::string_view(out.bytes).substr(raw_at, out.bytes.size() - raw_at - 1)
                : std::string_view();
  return {};
}

void build_merged_payload(std::string_view provider_type, std::string_view text, std::string_view raws,
                          const SecretRedactor* redactor, Payload& out) {
  const auto assemble_merged = [&](std::string_view joined) {
    std::size_t unused = 0;
    assemble({cut_utf8(provider_type, max_provider_type), {}, joined, {}, {}, false}, out.bytes, unused);
    if (!raws.empty()) {
      out.bytes.back() = ',';
      out.bytes += "\"raws\":[";
      out.bytes += raws;
      out.bytes += "]}";
    }
  };
  assemble_merged(text);
  std::string clean;
  if (redactor != nullptr && !redactor->empty() && redactor->redact(out.bytes, clean)) {
    std::string joined;
    if (redactor->redact(text, joined)) {
      out.redacted.emplace_back("payload.text");
      assemble_merged(joined);
    }
    redact_whole(*redactor, out.bytes, out.redacted);
  }
}

std::string spill_name(std::string_view attempt_id, std::string_view kind, std::string_view dedupe_key,
                       Hasher& hasher) {
  std::string identity(attempt_id);
  identity += ':';
  identity += kind;
  identity += ':';
  identity += dedupe_key;
  const Hash hash = hasher.of(identity);
  std::string name = "spill_";
  append_hex(name, hash.data(), 12);
  return name + ".json";
}

std::string spilled_payload(const Draft& draft, const SecretRedactor* redactor, std::string_view whole,
                            const std::string& name, const Hash& hash) {
  std::string provider_type(cut_utf8(draft.provider_type, max_provider_type));
  std::string summary(draft.summary);
  if (redactor != nullptr && !redactor->empty()) {
    std::string clean;
    if (redactor->redact(provider_type, clean)) {
      provider_type = clean;
    }
    if (redactor->redact(summary, clean)) {
      summary = clean;
    }
  }
  std::string out = "{";
  if (!provider_type.empty()) {
    out += "\"providerType\":";
    json::append_quoted(out, provider_type);
    out += ',';
  }
  if (!summary.empty()) {
    out += "\"summary\":";
    json::append_quoted(out, cut_utf8(summary, max_kept_summary));
    out += ',';
  }
  out += "\"spilled\":true,\"originalPayloadBytes\":" + std::to_string(whole.size());
  out += ",\"spill\":{\"name\":";
  json::append_quoted(out, name);
  out += ",\"sha256\":\"sha256:";
  append_hex(out, hash.data(), hash.size());
  out += "\",\"bytes\":" + std::to_string(whole.size()) + "},\"preview\":";
  json::append_quoted(out, cut_utf8(whole, max_preview));
  out += '}';
  return out;
}

}  // namespace hitchrail::journal
