#include "state.hpp"

#include <cstring>
#include <type_traits>

namespace hitchrail::codex_cli {
namespace {

constexpr std::string_view magic = "codex-cli/1\n";

std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
  return hash ^ (hash >> 29);
}

class Writer {
 public:
  void operator()(bool value) { bytes_.push_back(value ? '\1' : '\0'); }
  void operator()(std::uint64_t value) {
    for (int i = 0; i < 8; ++i) {
      bytes_.push_back(static_cast<char>(value >> (8 * i)));
    }
  }
  void operator()(const std::string& text) {
    (*this)(static_cast<std::uint64_t>(text.size()));
    bytes_ += text;
  }
  void operator()(const std::vector<OpenItem>& items) {
    (*this)(static_cast<std::uint64_t>(items.size()));
    for (const OpenItem& item : items) {
      (*this)(item.id);
      (*this)(static_cast<std::uint64_t>(item.type));
    }
  }
  template <class T>
  requires std::is_enum_v<T>
  void operator()(T value) { (*this)(static_cast<std::uint64_t>(value)); }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_{magic};
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {
    ok_ = bytes_.starts_with(magic);
    bytes_.remove_prefix(ok_ ? magic.size() : 0);
  }
  void operator()(bool& value) {
    const std::string_view byte = take(1);
    ok_ = ok_ && static_cast<unsigned char>(byte.empty() ? 2 : byte[0]) <= 1;
    value = ok_ && byte[0] == '\1';
  }
  void operator()(std::uint64_t& value) {
    const std::string_view eight = take(8);
    value = 0;
    for (std::size_t i = 0; i < eight.size(); ++i) {
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(eight[i])) << (8 * i);
    }
  }
  void operator()(std::string& text) {
    std::uint64_t size = 0;
    (*this)(size);
    text = std::string(take(size));
  }
  void operator()(std::vector<OpenItem>& items) {
    std::uint64_t count = 0;
    (*this)(count);
    ok_ = ok_ && count <= kept_open_items;
    for (std::uint64_t i = 0; ok_ && i < count; ++i) {
      OpenItem item;
      (*this)(item.id);
      (*this)(item.type, static_cast<std::uint64_t>(ItemType::other));
      items.push_back(std::move(item));
    }
  }
  void operator()(Terminal& value) { (*this)(value, static_cast<std::uint64_t>(Terminal::failed)); }
  void operator()(Owner& value) { (*this)(value, static_cast<std::uint64_t>(Owner::other)); }
  template <class T>
  requires std::is_enum_v<T>
  void operator()(T& value, std::uint64_t greatest) {
    std::uint64_t number = 0;
    (*this)(number);
    ok_ = ok_ && number <= greatest;
    value = ok_ ? static_cast<T>(number) : T{};
  }
  [[nodiscard]] bool complete() const { return ok_ && bytes_.empty(); }

 private:
  std::string_view take(std::uint64_t size) {
    if (!ok_ || size > bytes_.size()) {
      ok_ = false;
      return {};
    }
    const std::string_view out = bytes_.substr(0, static_cast<std::size_t>(size));
    bytes_.remove_prefix(out.size());
    return out;
  }

  std::string_view bytes_;
  bool ok_ = true;
};

template <class Archive, class U>
void visit_usage(Archive& archive, U& usage) {
  archive(usage.input);
  archive(usage.cached_input);
  archive(usage.cache_write_input);
  archive(usage.output);
  archive(usage.reasoning_output);
}

template <class Archive, class F>
void visit_fingerprint(Archive& archive, F& print) {
  archive(print.present);
  archive(print.size);
  archive(print.hash);
}

// One list for both directions. The exit's two numbers are 32 bits wide and go through `exit_bits`.
template <class Archive, class S>
void visit(Archive& archive, S& state, std::uint64_t& exit_bits) {
  archive(state.resume);
  archive(state.wanted_thread);
  archive(state.thread);
  archive(state.foreign_thread);
  archive(state.usage_base_known);
  visit_usage(archive, state.usage_base);
  archive(state.usage_seen);
  visit_usage(archive, state.usage);
  archive(state.terminal);
  archive(state.failure);
  archive(state.last_error);
  visit_fingerprint(archive, state.answer);
  archive(state.answer_text);
  archive(state.work_items);
  archive(state.failed_items);
  archive(state.not_started);
  archive(state.truncated);
  archive(state.open);
  archive(state.open_unlisted);
  archive(state.interrupt_asked);
  archive(state.stderr_tail);
  archive(exit_bits);
  archive(state.stop_requested);
  archive(state.session_file.read);
  archive(state.session_file.owner);
  archive(state.session_file.commands_asked);
  archive(state.session_file.tasks);
  archive(state.session_file.usage_known);
  visit_usage(archive, state.session_file.usage_base);
  visit_usage(archive, state.session_file.usage);
  visit_fingerprint(archive, state.session_file.answer);
  archive(state.last_message_read);
  visit_fingerprint(archive, state.last_message);
}

}  // namespace

Fingerprint fingerprint(std::string_view text) {
  Fingerprint out{true, text.size(), 0};
  std::uint64_t hash = mix(0x51ed270b35ae7d1full, text.size());
  while (text.size() >= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data(), 8);
    hash = mix(hash, word);
    text.remove_prefix(8);
  }
  std::uint64_t rest = 0;
  if (!text.empty()) {
    std::memcpy(&rest, text.data(), text.size());
  }
  out.hash = mix(hash, rest);
  return out;
}

std::string encode(const State& state) {
  Writer writer;
  std::uint64_t exit_bits =
      (static_cast<std::uint64_t>(state.exit_kind) << 32) | static_cast<std::uint32_t>(state.exit_value);
  visit(writer, state, exit_bits);
  return writer.take();
}

std::optional<State> decode(std::string_view bytes) {
  Reader reader(bytes);
  State state;
  std::uint64_t exit_bits = 0;
  visit(reader, state, exit_bits);
  if (!reader.complete()) {
    return std::nullopt;
  }
  state.exit_kind = static_cast<std::uint32_t>(exit_bits >> 32);
  state.exit_value = static_cast<std::int32_t>(static_cast<std::uint32_t>(exit_bits));
  return state;
}

}  // namespace hitchrail::codex_cli
