#pragma once
// A file that an operator names on the command line, read whole by one descriptor.
//
// Promises: never waits for anything but standard input; what is returned is what one look at the file and a
// second one both saw. Refuses (codes begin with InputRule::subject): `-file-unsafe` a link in the last
// component, a FIFO, socket, device or folder; `-too-large` before anything is read; `-file-unreadable`;
// `-file-changed` while it was read. "-" is standard input, of any kind. Writes nothing.

#include <string>

#include "core/result.hpp"

namespace hitchrail {

struct InputRule {
  std::string subject;  // "task": also the noun of messages
  std::size_t max_bytes = 1u << 20;
  bool standard_input = true;    // "-" is one
  std::string too_large_remedy;  // where to put what is too much
};

Result<std::string> read_input_file(const std::string& path, const InputRule& rule);

}  // namespace hitchrail
