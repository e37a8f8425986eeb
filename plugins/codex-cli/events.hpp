#pragma once
// What one record of `codex exec --json` (codex-cli 0.145.0) means: pure functions of the record's bytes.
//
// Promises: every record becomes exactly one event; a member this file does not know, a repeated one, an
// unknown type or a line that is not JSON is kept by referring to the raw record; nothing is copied that the
// host can copy from the record; the values of nested members stay the provider's text. Refuses nothing.
//
// clang-format off
//   record                           kind                          payload besides providerType
//   thread.started                   conversation.started/resumed  conversationId
//   turn.started                     progress                      -
//   turn.completed                   progress                      raw
//   turn.failed                      run.error                     text, terminal true
//   error                            run.error                     text, terminal false, retry {attempt, of}
//   item agent_message completed     message.assistant             text
//   item reasoning completed         reasoning.delta               text
//   item command_execution           command.started, .completed   command, output, exitCode, status
//   item file_change completed       file.changed                  changes, status (started: progress)
//   item mcp_tool_call               tool.started, .completed      server, tool, arguments, result, error, status
//   item web_search                  tool.started, .completed      tool, searchId, query, action
//   item collab_tool_call            tool.started, .completed      tool, prompt, senderThreadId, receiverThreadIds,
//                                                                  agentsStates, status
//   item todo_list                   progress                      items
//   item error                       run.error                     text, terminal false, severity warning
//   item of another type             codex-cli.item.TYPE           raw
//   another type                     codex-cli.TYPE                raw
//   an object without a type         provider.unknown              raw
//   any other line                   stream.stdout                 raw
// clang-format on

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "hitchrail/adapter.h"
#include "json_view.hpp"

namespace hitchrail::codex_cli {

enum class RecordType {
  thread_started,
  turn_started,
  turn_completed,
  turn_failed,
  error,
  item,
  other,     // an object of another type, or without one
  not_json,  // not one JSON object
};

enum class ItemType {
  agent_message,
  reasoning,
  command,
  file_change,
  mcp_tool,
  web_search,
  collab,
  todo,
  error,
  other
};
enum class Phase { started, updated, completed, other };

// The members of turn.completed's usage; counted over the whole thread, earlier processes included.
struct Usage {
  std::uint64_t input = 0;
  std::uint64_t cached_input = 0;
  std::uint64_t cache_write_input = 0;
  std::uint64_t output = 0;
  std::uint64_t reasoning_output = 0;
  bool operator==(const Usage&) const = default;
};

// nullopt unless input and output tokens are there; the others default to 0.
std::optional<Usage> read_usage(const json::View& usage);
// {"inputTokens":...,"totalTokens":...}
void append_usage(std::string& out, const Usage& usage);

// The views point into the record or into the Mapper that made this, and end with either.
struct Mapped {
  RecordType record = RecordType::not_json;
  ItemType item = ItemType::other;
  Phase phase = Phase::other;

  hr_event_kind kind = HR_EVENT_STREAM_STDOUT;
  std::string kind_name;  // HR_EVENT_NAMED only
  std::string provider_type;
  std::string_view item_id;
  std::string_view text;
  std::string summary;
  std::string fields;  // a JSON object, or empty
  bool raw = false;

  std::string_view thread_id;  // thread.started
  std::optional<Usage> usage;  // turn.completed
  bool failed_status = false;  // an item whose status is "failed"
  bool not_started = false;    // a command that the program's own sandbox failed to start
};

class Mapper {
 public:
  // `resumed` chooses between conversation.started and conversation.resumed.
  const Mapped& map(std::string_view record, bool resumed);

 private:
  struct Members;  // the known members of a record's object
  void map_object(bool resumed);
  void map_simple(const Members& members, bool resumed);
  void map_error(const Members& members);
  void map_item(const Members& members, std::string_view phase_name);
  [[nodiscard]] json::View item_member(const Members& members, std::string_view name) const;
  void item_kind(const json::View& type);
  void item_fields(const Members& members);
  bool take_item_id(const json::Index::Member& member, unsigned& seen);

  json::Index index_;
  Mapped out_;
  std::string id_scratch_;
  std::string text_scratch_;
  std::string thread_scratch_;
};

// "codex-cli." + the type as a run-event kind allows it: lower case, every other character a "-", at most 120
// bytes.
std::string named_kind(std::string_view prefix, std::string_view type);
// At most `limit` bytes of valid UTF-8 text, cut between characters and then ending in an ellipsis.
std::string cut(std::string_view text, std::size_t limit);

}  // namespace hitchrail::codex_cli
