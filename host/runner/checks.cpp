#include "runner/checks.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/canonical.hpp"
#include "core/json.hpp"

namespace hitchrail::runner {

namespace {

bool lower_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}
bool digit(char c) {
  return c >= '0' && c <= '9';
}

// ^[a-z][a-z0-9]*([SEPARATORS][a-z0-9]+)*$
bool segments(std::string_view text, std::string_view separators) {
  if (text.empty() || !(text[0] >= 'a' && text[0] <= 'z') || !lower_or_digit(text.back())) {
    return false;
  }
  for (std::size_t i = 1; i < text.size(); ++i) {
    const bool separator = separators.find(text[i]) != std::string_view::npos;
    if (!lower_or_digit(text[i]) && (!separator || !lower_or_digit(text[i - 1]))) {
      return false;
    }
  }
  return true;
}

constexpr std::array<const char*, HR_EVENT_KIND_COUNT> kind_names = {
    nullptr,
    "message.operator",
    "message.assistant",
    "message.delta",
    "reasoning.delta",
    "progress",
    "stream.stdout",
    "stream.stderr",
    "command.started",
    "command.detached",
    "command.completed",
    "file.changed",
    "tool.started",
    "tool.completed",
    "artifact.created",
    "usage.updated",
    "run.error",
    "provider.unknown",
    "conversation.started",
    "conversation.resumed",
    "conversation.followed-up",
    "conversation.forked",
    "conversation.steered",
    "conversation.interrupted",
    "conversation.compacted",
    "conversation.archived",
    "conversation.closed",
};

constexpr std::size_t max_reason = 4096;

void refuse_log(void*, std::uint32_t, hr_str) {}
void refuse_fail(void*, hr_str, hr_str) {}
std::int64_t refuse_now(void*) {
  return 0;
}
void refuse_random(void*, void* out, std::size_t size) {
  if (out != nullptr) {
    std::memset(out, 0, size);
  }
}
const void* refuse_extension(void*, hr_str) {
  return nullptr;
}
template <class... Args>
hr_result refuse(void*, Args...) {
  return HR_E_STATE;
}

}  // namespace

bool take(hr_str in, std::string_view& out) {
  if (in.data == nullptr) {
    out = {};
    return in.size == 0;
  }
  out = {in.data, in.size};
  return true;
}

bool is_kebab(std::string_view code) {
  return code.size() <= 80 && segments(code, "-");
}

bool is_kind_name(std::string_view name) {
  return name.size() >= 3 && name.size() <= 120 && segments(name, "._-") &&
         name.find_first_of("._-") != std::string_view::npos;
}

bool is_host_kind(std::string_view name) {
  static constexpr std::array<std::string_view, 19> owned = {
      "run",     "conversation", "message",  "reasoning", "progress", "stream", "command",
      "file",    "workspace",    "tool",     "approval",  "artifact", "usage",  "provider",
      "control", "adapter",      "recovery", "hitchrail", "sandbox"};
  const std::string_view first = name.substr(0, name.find('.'));
  return std::find(owned.begin(), owned.end(), first) != owned.end();
}

bool is_rfc3339(std::string_view text) {
  constexpr std::string_view shape = "dddd-dd-ddTdd:dd:dd";
  if (text.size() < shape.size() + 1 || text.size() > 40) {
    return false;
  }
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const bool good = shape[i] == 'd'
                          ? digit(text[i])
                          : text[i] == shape[i] || (shape[i] == 'T' && (text[i] == 't' || text[i] == ' '));
    if (!good) {
      return false;
    }
  }
  std::string_view rest = text.substr(shape.size());
  if (rest.front() == '.') {
    rest.remove_prefix(1);
    const std::size_t end = rest.find_first_not_of("0123456789");
    if (end == 0 || end == std::string_view::npos) {
      return false;
    }
    rest.remove_prefix(end);
  }
  if (rest == "Z" || rest == "z") {
    return true;
  }
  return rest.size() == 6 && (rest[0] == '+' || rest[0] == '-') && digit(rest[1]) && digit(rest[2]) &&
         rest[3] == ':' && digit(rest[4]) && digit(rest[5]);
}

bool is_json_object(std::string_view text) {
  return !text.empty() && text.front() == '{' && json::is_valid_line(text);
}

std::string bounded_id(std::string_view id) {
  return id.size() <= 160 ? std::string(id) : "sha256_" + sha256_hex(id);
}

std::string cut_utf8(std::string_view text, std::size_t max) {
  if (text.size() <= max) {
    return std::string(text);
  }
  std::size_t end = max;
  while (end > 0 && max - end < 4 && (static_cast<unsigned char>(text[end]) & 0xC0u) == 0x80u) {
    --end;
  }
  return std::string(text.substr(0, end));
}

const char* event_kind_name(std::uint32_t kind) {
  return kind < kind_names.size() ? kind_names[kind] : nullptr;
}

const char* result_name(hr_result result) {
  switch (result) {
    case HR_OK:
      return "HR_OK";
    case HR_E_STATE:
      return "HR_E_STATE";
    case HR_E_ARGUMENT:
      return "HR_E_ARGUMENT";
    case HR_E_UNSUPPORTED:
      return "HR_E_UNSUPPORTED";
    case HR_E_PROTOCOL:
      return "HR_E_PROTOCOL";
    case HR_E_LIMIT:
      return "HR_E_LIMIT";
    case HR_E_INTERNAL:
      return "HR_E_INTERNAL";
    default:
      return "an unknown result";
  }
}

hr_host refusing_host(void* ctx) {
  hr_host host{};
  host.struct_size = sizeof(host);
  host.abi_minor = HR_ABI_MINOR;
  host.ctx = ctx;
  host.log = refuse_log;
  host.fail = refuse_fail;
  host.now_ms = refuse_now;
  host.random = refuse_random;
  host.extension = refuse_extension;
  host.probe_step = refuse<const hr_probe_step*>;
  host.probe_result = refuse<hr_str>;
  host.rendered = refuse<hr_str>;
  host.plan = refuse<const hr_plan*>;
  host.emit = refuse<const hr_event*>;
  host.send = refuse<const hr_part*, std::size_t>;
  host.close_input = refuse<>;
  host.signal_leader = refuse<std::int32_t>;
  host.request_approval = refuse<const hr_approval*>;
  host.withdraw_approval = refuse<hr_str>;
  host.control_result = refuse<std::uint64_t, std::uint32_t, hr_str>;
  host.set_conversation = refuse<hr_str>;
  host.set_turn = refuse<hr_str>;
  host.call_service = refuse<hr_str, hr_str, hr_str, std::uint64_t*>;
  host.set_timer = refuse<std::uint32_t, std::uint32_t>;
  host.cancel_timer = refuse<std::uint32_t>;
  host.finish = refuse<const hr_verdict*>;
  host.snapshot_bytes = refuse<hr_str>;
  host.end_run = refuse<>;
  return host;
}

void Reason::set(hr_str in_code, hr_str in_text) {
  std::string_view code_view;
  std::string_view text_view;
  if (!code.empty() || !text.empty() || !take(in_code, code_view) || !take(in_text, text_view)) {
    return;
  }
  code = cut_utf8(code_view, 80);
  text = cut_utf8(text_view, max_reason);
}

Error hook_error(const char* hook, hr_result result, const Reason& reason, bool refusal) {
  const bool refused =
      refusal && (result == HR_E_ARGUMENT || result == HR_E_UNSUPPORTED) && is_kebab(reason.code);
  Error error{refused ? ErrorClass::refused : ErrorClass::failed,
              refused ? reason.code : "adapter-hook-failed",
              hook,
              hook,
              "",
              ""};
  error.detail = result_name(result);
  if (!reason.code.empty() && !refused) {
    error.detail += ", " + reason.code;
  }
  if (!reason.text.empty()) {
    error.detail += ": " + reason.text;
  }
  return error;
}

}  // namespace hitchrail::runner
