#pragma once
// The one printer. Data goes to stdout, talk to stderr; everything foreign is escaped here; colour only on a
// terminal and never with NO_COLOR.

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.hpp"
#include "core/result.hpp"

namespace hitchrail::cli {

bool is_terminal(std::FILE* stream);
bool colour(std::FILE* stream);

void out(std::string_view text);   // stdout, as it is
void line(std::string_view text);  // stdout, escaped, with a line feed
void talk(std::string_view text);  // stderr, escaped, with a line feed
void out_json(const json::Value& value);

// Prints the error (JSON on stdout with --json, else "error[code]: …" with its remedy on stderr) and gives
// the exit code.
int report(const Error& error, bool json);
json::Value error_json(const Error& error);

// Columns padded to their widest cell; cells are escaped.
void table(const std::vector<std::string>& heads, const std::vector<std::vector<std::string>>& rows);

std::string duration(std::int64_t millis);  // "1.2 s", "3 min 04 s"

}  // namespace hitchrail::cli
