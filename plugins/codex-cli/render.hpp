#pragma once
// task-envelope/v1 as the text that Codex gets on its standard input.
//
// Promises: pure; for a new conversation a Markdown document whose last section is the operator's message,
// byte for byte, so that nothing in the message can change what stands before it; for a turn of a resumed
// conversation the message alone. Paths and names out of the repository stand in quotes with control
// characters escaped, at most 200 baseline files are listed. Refuses, as sdk::Failure: envelope-invalid (not
// the schema), envelope-too-large (over 4 MiB of text), envelope-without-message.

#include <cstdint>
#include <string>
#include <string_view>

namespace hitchrail::codex_cli {

std::string render_task(std::string_view envelope_json, std::uint32_t mode);

}  // namespace hitchrail::codex_cli
