#pragma once
// Printing foreign text. Everything that came from a harness, a repository or a plugin passes through
// escape_visible before it reaches a terminal, a log or an error message.

#include <string>
#include <string_view>

namespace hitchrail {

bool is_valid_utf8(std::string_view text);
// Length of the well-formed sequence that begins at `at` (1 to 4), 0 when there is none.
std::size_t utf8_length(std::string_view text, std::size_t at);
// C0, C1, DEL, bidi controls, zero-width and invalid bytes as visible escapes (\x1b, \u202e); line feed too
// unless keep_newlines.
std::string escape_visible(std::string_view text, bool keep_newlines = false);
// At most `columns` code points of escaped text, ending in "…" when cut.
std::string escape_cut(std::string_view text, std::size_t columns);
std::string base64_encode(std::string_view bytes);
std::string hex_encode(std::string_view bytes);

}  // namespace hitchrail
