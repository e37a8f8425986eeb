#pragma once
// Bounds of a task and its envelope (contract of task-envelope/v1), one place for readers, builders and
// checks. Characters are code points.

#include <string>
#include <string_view>
#include <vector>

namespace hitchrail::manifest::bounds {

inline constexpr std::size_t id = 120;                // of gates, outputs, requirements
inline constexpr std::size_t short_characters = 500;  // titles
inline constexpr std::size_t chunk = 4000;            // characters of one entry of a list of texts
inline constexpr std::size_t text = 20'000;           // bytes of one description
inline constexpr std::size_t scope = 4096;
inline constexpr std::size_t background = 64;
inline constexpr std::size_t constraints = 128;  // with the instructions' parts and the host's own line
inline constexpr std::size_t criteria = 256;
inline constexpr std::size_t memory = 20;
inline constexpr std::size_t source_events = 20;
inline constexpr std::size_t effects = 32;
inline constexpr std::size_t outputs = 64;
inline constexpr std::size_t gates = 256;
inline constexpr std::size_t evidence = 128;
inline constexpr std::size_t instructions = 16;
inline constexpr std::size_t argv = 128;
inline constexpr std::size_t argument = 4096;
inline constexpr std::size_t readiness = 64;
inline constexpr std::size_t checkpoint_state = 256u << 10;  // bytes of its JSON text
inline constexpr std::int64_t min_timeout_ms = 100;
inline constexpr std::int64_t max_timeout_ms = 3'600'000;
inline constexpr std::int64_t max_gates_ms = 86'400'000;  // of all gates together

}  // namespace hitchrail::manifest::bounds

namespace hitchrail::manifest {

// Text in parts of at most bounds::chunk characters; joined they are the text.
std::vector<std::string> split_text(std::string_view text);
std::vector<std::string> split_texts(const std::vector<std::string>& texts);
// A letter or digit, then letters, digits, ".", "_", "-"; at most bounds::id bytes.
bool valid_task_id(std::string_view id);
// Relative, below its root in normal form: no empty, "." or ".." component, no U+0000.
bool valid_output_path(std::string_view path);

}  // namespace hitchrail::manifest
