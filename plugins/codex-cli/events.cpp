#include "events.hpp"

#include <array>
#include <bit>
#include <span>

namespace hitchrail::codex_cli {
namespace {

constexpr std::size_t summary_limit = 300;

enum class Use { field, text, status };

// One member of an item: its name there, its name in our payload, and what it is used for.
struct Member {
  std::string_view key;
  std::string_view name;
  Use use = Use::field;
};

constexpr std::array text_members{Member{"text", "text", Use::text}};
constexpr std::array error_members{Member{"message", "text", Use::text}};
constexpr std::array command_members{Member{"command", "command"}, Member{"aggregated_output", "output"},
                                     Member{"exit_code", "exitCode"},
                                     Member{"status", "status", Use::status}};
constexpr std::array change_members{Member{"changes", "changes"}, Member{"status", "status", Use::status}};
constexpr std::array mcp_members{Member{"server", "server"},       Member{"tool", "tool"},
                                 Member{"arguments", "arguments"}, Member{"result", "result"},
                                 Member{"error", "error"},         Member{"status", "status", Use::status}};
constexpr std::array search_members{Member{"query", "query"}, Member{"action", "action"}};
constexpr std::array todo_members{Member{"items", "items"}};
constexpr std::array collab_members{Member{"tool", "tool"},
                                    Member{"prompt", "prompt"},
                                    Member{"sender_thread_id", "senderThreadId"},
                                    Member{"receiver_thread_ids", "receiverThreadIds"},
                                    Member{"agents_states", "agentsStates"},
                                    Member{"status", "status", Use::status}};

struct ItemRule {
  std::string_view name;
  ItemType type;
  hr_event_kind started;
  hr_event_kind completed;
  std::span<const Member> members;
};

constexpr std::array rules{
    ItemRule{"command_execution", ItemType::command, HR_EVENT_COMMAND_STARTED, HR_EVENT_COMMAND_COMPLETED,
             command_members},
    ItemRule{"agent_message", ItemType::agent_message, HR_EVENT_PROGRESS, HR_EVENT_MESSAGE_ASSISTANT,
             text_members},
    ItemRule{"reasoning", ItemType::reasoning, HR_EVENT_PROGRESS, HR_EVENT_REASONING_DELTA, text_members},
    ItemRule{"file_change", ItemType::file_change, HR_EVENT_PROGRESS, HR_EVENT_FILE_CHANGED, change_members},
    ItemRule{"mcp_tool_call", ItemType::mcp_tool, HR_EVENT_TOOL_STARTED, HR_EVENT_TOOL_COMPLETED,
             mcp_members},
    ItemRule{"web_search", ItemType::web_search, HR_EVENT_TOOL_STARTED, HR_EVENT_TOOL_COMPLETED,
             search_members},
    ItemRule{"todo_list", ItemType::todo, HR_EVENT_PROGRESS, HR_EVENT_PROGRESS, todo_members},
    ItemRule{"error", ItemType::error, HR_EVENT_RUN_ERROR, HR_EVENT_RUN_ERROR, error_members},
    ItemRule{"collab_tool_call", ItemType::collab, HR_EVENT_TOOL_STARTED, HR_EVENT_TOOL_COMPLETED,
             collab_members},
};

const ItemRule* rule_of(ItemType type) {
  for (const ItemRule& rule : rules) {
    if (rule.type == type) {
      return &rule;
    }
  }
  return nullptr;
}

void append_field(std::string& fields, std::string_view name, std::string_view json_value) {
  fields += fields.empty() ? "{" : ",";
  fields.push_back('"');
  fields += name;
  fields += "\":";
  fields += json_value;
}

void close_fields(std::string& fields) {
  if (!fields.empty()) {
    fields.push_back('}');
  }
}

// "Reconnecting... 2/5 (cause)": the attempt's number and how many there will be.
struct Retry {
  unsigned attempt = 0;
  unsigned of = 0;
};

std::optional<Retry> read_retry(std::string_view message) {
  constexpr std::string_view lead = "Reconnecting... ";
  if (!message.starts_with(lead)) {
    return std::nullopt;
  }
  std::array<unsigned, 2> numbers{};
  std::size_t at = lead.size();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::size_t begin = at;
    while (at < message.size() && at - begin < 4 && message[at] >= '0' && message[at] <= '9') {
      numbers[i] = numbers[i] * 10 + static_cast<unsigned>(message[at] - '0');
      ++at;
    }
    const char expected = i == 0 ? '/' : ' ';
    if (at == begin || at >= message.size() || message[at] != expected) {
      return std::nullopt;
    }
    ++at;
  }
  return Retry{numbers[0], numbers[1]};
}

std::string change_summary(const json::View& changes) {
  std::string out;
  int listed = 0;
  for (json::View::Walker walker(changes); walker.next() && out.size() < summary_limit;) {
    if (listed++ > 0) {
      out += ", ";
    }
    out += walker.value().get("kind").string() + " " + walker.value().get("path").string();
  }
  return cut(out, summary_limit);
}

constexpr std::size_t max_members = 6;
using Values = std::array<json::View, max_members>;  // of an item's members, in the order of its rule

std::string item_summary(ItemType type, const Values& values) {
  std::string scratch;
  switch (type) {
    case ItemType::command:
      return cut(values[0].string(scratch), summary_limit);
    case ItemType::file_change:
      return change_summary(values[0]);
    case ItemType::mcp_tool:
      return cut(values[0].string() + "." + values[1].string(), summary_limit);
    case ItemType::collab:
      return cut(values[0].string() + ": " + values[1].string(), summary_limit);
    case ItemType::web_search:
      return cut("web search: " + values[0].string(), summary_limit);
    default:
      return {};
  }
}

}  // namespace

std::string cut(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) {
    return std::string(text);
  }
  constexpr std::string_view ellipsis = "\xe2\x80\xa6";
  std::size_t end = limit > ellipsis.size() ? limit - ellipsis.size() : 0;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) {
    --end;
  }
  return std::string(text.substr(0, end)).append(ellipsis);
}

std::string named_kind(std::string_view prefix, std::string_view type) {
  constexpr std::size_t kind_limit = 120;
  std::string kind(prefix);
  bool separated = true;  // a separator stands before the next character
  for (const char c : type) {
    if (kind.size() == kind_limit) {
      break;
    }
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
    if ((lower >= 'a' && lower <= 'z') || (lower >= '0' && lower <= '9')) {
      kind.push_back(lower);
      separated = false;
    } else if (!separated) {
      kind.push_back(c == '.' || c == '_' ? c : '-');
      separated = true;
    }
  }
  while (kind.back() == '.' || kind.back() == '_' || kind.back() == '-') {
    kind.pop_back();
  }
  return kind == prefix.substr(0, prefix.size() - 1) ? kind + ".unnamed" : kind;
}

std::optional<Usage> read_usage(const json::View& usage) {
  const auto input = usage.get("input_tokens").count();
  const auto output = usage.get("output_tokens").count();
  if (!input || !output) {
    return std::nullopt;
  }
  Usage out;
  out.input = *input;
  out.output = *output;
  out.cached_input = usage.get("cached_input_tokens").count().value_or(0);
  out.cache_write_input = usage.get("cache_write_input_tokens").count().value_or(0);
  out.reasoning_output = usage.get("reasoning_output_tokens").count().value_or(0);
  return out;
}

void append_usage(std::string& out, const Usage& usage) {
  out += "{\"inputTokens\":" + std::to_string(usage.input);
  out += ",\"cachedInputTokens\":" + std::to_string(usage.cached_input);
  out += ",\"cacheWriteInputTokens\":" + std::to_string(usage.cache_write_input);
  out += ",\"outputTokens\":" + std::to_string(usage.output);
  out += ",\"reasoningOutputTokens\":" + std::to_string(usage.reasoning_output);
  out += ",\"totalTokens\":" + std::to_string(usage.input + usage.output) + "}";
}

const Mapped& Mapper::map(std::string_view record, bool resumed) {
  out_.record = RecordType::not_json;
  out_.item = ItemType::other;
  out_.phase = Phase::other;
  out_.kind = HR_EVENT_STREAM_STDOUT;
  out_.kind_name.clear();
  out_.provider_type.clear();
  out_.item_id = out_.text = out_.thread_id = {};
  out_.summary.clear();
  out_.fields.clear();
  out_.raw = true;
  out_.usage.reset();
  out_.failed_status = false;
  out_.not_started = false;
  if (json::valid(record, index_) && json::View(record).is_object()) {
    map_object(resumed);
  }
  return out_;
}

// The first of each known name among a record's own members, and whether anything else is there.
struct Mapper::Members {
  enum : unsigned { type = 1, item = 2, thread_id = 4, usage = 8, error = 16, message = 32 };
  static constexpr std::array<std::string_view, 6> names{"type",  "item",  "thread_id",
                                                         "usage", "error", "message"};

  explicit Members(const json::Index& index) : more(!index.complete()) {
    for (const json::Index::Member& member : index) {
      if (member.parent >= 0) {
        continue;
      }
      std::size_t known = 0;
      while (known < names.size() && !member.key_is(names[known])) {
        ++known;
      }
      if (known == names.size() || (present & (1u << known)) != 0) {
        more = true;
        continue;
      }
      present |= 1u << known;
      values[known] = member.value;
      if (known == 1) {
        item_index = static_cast<int>(&member - index.begin());
      }
    }
  }
  [[nodiscard]] const json::View& operator[](unsigned name) const {
    return values[static_cast<std::size_t>(std::countr_zero(name))];
  }
  // Exactly the type and these.
  [[nodiscard]] bool are_only(unsigned wanted) const { return !more && present == (wanted | type); }

  std::array<json::View, names.size()> values;
  unsigned present = 0;
  int item_index = -1;
  bool more = false;
};

void Mapper::map_object(bool resumed) {
  out_.record = RecordType::other;
  const Members members(index_);
  const json::View& type = members[Members::type];
  if (!type.is_string()) {
    out_.kind = HR_EVENT_PROVIDER_UNKNOWN;
    return;
  }
  out_.provider_type = cut(type.string(text_scratch_), 160);
  const std::string_view name = out_.provider_type;
  if (name.starts_with("item.") && members[Members::item].is_object()) {
    map_item(members, name.substr(5));
  } else {
    map_simple(members, resumed);
  }
}

void Mapper::map_simple(const Members& members, bool resumed) {
  const std::string_view name = out_.provider_type;
  if (name == "thread.started") {
    out_.record = RecordType::thread_started;
    const json::View& id = members[Members::thread_id];
    out_.thread_id = id.string(thread_scratch_);
    out_.kind = resumed ? HR_EVENT_CONVERSATION_RESUMED : HR_EVENT_CONVERSATION_STARTED;
    append_field(out_.fields, "conversationId", id.present() ? id.raw() : "null");
    close_fields(out_.fields);
    out_.raw = !members.are_only(Members::thread_id);
  } else if (name == "turn.started") {
    out_.record = RecordType::turn_started;
    out_.kind = HR_EVENT_PROGRESS;
    out_.raw = !members.are_only(0);
  } else if (name == "turn.completed") {
    out_.record = RecordType::turn_completed;
    out_.kind = HR_EVENT_PROGRESS;
    out_.usage = read_usage(members[Members::usage]);
  } else if (name == "turn.failed" || name == "error") {
    map_error(members);
  } else {
    out_.kind = HR_EVENT_NAMED;
    out_.kind_name = named_kind("codex-cli.", name);
  }
}

void Mapper::map_error(const Members& members) {
  const bool terminal = out_.provider_type == "turn.failed";
  out_.record = terminal ? RecordType::turn_failed : RecordType::error;
  out_.kind = HR_EVENT_RUN_ERROR;
  const json::View& error = members[Members::error];
  const json::View message = terminal ? error.get("message") : members[Members::message];
  out_.text = message.string(text_scratch_);
  append_field(out_.fields, "terminal", terminal ? "true" : "false");
  if (const auto retry = read_retry(out_.text); retry && !terminal) {
    append_field(
        out_.fields, "retry",
        "{\"attempt\":" + std::to_string(retry->attempt) + ",\"of\":" + std::to_string(retry->of) + "}");
  }
  close_fields(out_.fields);
  bool known = message.is_string() && members.are_only(terminal ? Members::error : Members::message);
  int inside = 0;
  for (json::View::Walker walker(error); terminal && walker.next();) {
    known = known && walker.key_is("message") && ++inside == 1;
  }
  out_.raw = !known;
}

void Mapper::map_item(const Members& members, std::string_view phase_name) {
  out_.record = RecordType::item;
  if (phase_name == "started") {
    out_.phase = Phase::started;
  } else if (phase_name == "updated") {
    out_.phase = Phase::updated;
  } else if (phase_name == "completed") {
    out_.phase = Phase::completed;
  }
  item_kind(item_member(members, "type"));
  if (out_.kind == HR_EVENT_NAMED) {
    out_.item_id = item_member(members, "id").string(id_scratch_);
    return;
  }
  out_.raw = !members.are_only(Members::item);
  item_fields(members);
}

// Of a record with more members than the index holds the first ones count.
json::View Mapper::item_member(const Members& members, std::string_view name) const {
  for (const json::Index::Member& member : index_) {
    if (member.parent == members.item_index && member.key_is(name)) {
      return member.value;
    }
  }
  return {};
}

// Sets item, kind and provider_type from the item's type and the phase.
void Mapper::item_kind(const json::View& type) {
  const std::string name = cut(type.string(text_scratch_), 100);
  const ItemRule* rule = nullptr;
  for (const ItemRule& candidate : rules) {
    if (candidate.name == name) {
      rule = &candidate;
      break;
    }
  }
  if (rule != nullptr) {
    out_.item = rule->type;
    if (out_.phase != Phase::other) {
      out_.kind = out_.phase == Phase::started     ? rule->started
                  : out_.phase == Phase::completed ? rule->completed
                                                   : HR_EVENT_PROGRESS;
      out_.provider_type += "." + name;
      return;
    }
  }
  out_.kind = HR_EVENT_NAMED;
  // A known phase says little, an unknown one is the news.
  out_.kind_name = out_.phase == Phase::other ? named_kind("codex-cli.", out_.provider_type + "." + name)
                                              : named_kind("codex-cli.item.", name);
  out_.provider_type += "." + name;
}

namespace {
constexpr unsigned id_bit = 1u << 30;  // beside a bit for each member of the rule
constexpr unsigned type_bit = 1u << 31;
constexpr unsigned search_bit = 1u << 29;
}  // namespace

// Whether the member names or types the item; those are told apart from its content.
bool Mapper::take_item_id(const json::Index::Member& member, unsigned& seen) {
  if (member.key_is("type") && (seen & type_bit) == 0) {
    seen |= type_bit;
    return true;
  }
  if (!member.key_is("id")) {
    return false;
  }
  if ((seen & id_bit) == 0) {
    seen |= id_bit;
    out_.item_id = member.value.string(id_scratch_);
    return true;
  }
  // The program writes the search's own id as a second "id"; the item's is the first.
  if (out_.item == ItemType::web_search && (seen & search_bit) == 0) {
    seen |= search_bit;
    append_field(out_.fields, "searchId", member.value.raw());
    return true;
  }
  return false;
}

void Mapper::item_fields(const Members& members) {
  const ItemRule& rule = *rule_of(out_.item);
  Values values;
  unsigned seen = 0;
  if (out_.item == ItemType::web_search) {
    append_field(out_.fields, "tool", "\"web_search\"");
  } else if (out_.item == ItemType::error) {
    append_field(out_.fields, "terminal", "false");
    append_field(out_.fields, "severity", "\"warning\"");
  }
  for (const json::Index::Member& found : index_) {
    if (found.parent != members.item_index || take_item_id(found, seen)) {
      continue;
    }
    unsigned number = 0;
    while (number < rule.members.size() && !found.key_is(rule.members[number].key)) {
      ++number;
    }
    if (number == rule.members.size() || (seen & (1u << number)) != 0) {
      out_.raw = true;  // unknown or repeated
      continue;
    }
    seen |= 1u << number;
    values[number] = found.value;
    const Member& member = rule.members[number];
    if (member.use == Use::text) {
      out_.text = found.value.string(text_scratch_);
      out_.raw = out_.raw || !found.value.is_string();
    } else {
      append_field(out_.fields, member.name, found.value.raw());
      out_.failed_status = out_.failed_status || (member.use == Use::status && found.value.equals("failed"));
    }
  }
  close_fields(out_.fields);
  out_.raw = out_.raw || (seen & id_bit) == 0;
  out_.summary = item_summary(out_.item, values);
  if (out_.item == ItemType::command && out_.failed_status) {
    // The program's own sandbox speaks for itself. A command that names it may have run it.
    out_.not_started = values[1].raw().substr(0, 8) == "\"bwrap: " &&
                       values[0].raw().find("bwrap") == std::string_view::npos;
  }
}

}  // namespace hitchrail::codex_cli
