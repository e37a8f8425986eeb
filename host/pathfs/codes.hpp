#pragma once
// The closed set of answers that access below a root can give. Every Error of this folder carries one of
// these as its code; nothing else leaves it.

#include <optional>
#include <string>
#include <string_view>

#include "core/result.hpp"

namespace hitchrail::pathfs {

enum class Code {
  not_found,         // "not-found": a component or the entry itself is not there
  symlink_rejected,  // "symlink-rejected": a component or the entry is a symbolic link; none is ever followed
  not_directory,     // "not-directory": something on the way, or the entry, is no directory
  not_regular_file,  // "not-regular-file": a directory, FIFO, socket or device where a file is needed
  path_escape,       // "path-escape": absolute, "..", "." or empty components, NUL: found before anything is
                     // opened
  too_large,         // "too-large": more bytes, files or edits than the caller allows
  walk_limit,        // "walk-limit": deeper, wider or more than the walk allows
  io,                // "io": the kernel refused; io_reason() says why
};

const char* code_text(Code code);
// Which of the set this error is; none for an error of another service.
std::optional<Code> code_of(const Error& error);
inline bool is(const Error& error, Code code) {
  return code_of(error) == code;
}
// Of an "io" error the lower-case errno name ("eacces", "eexist", "enospc", "estale"), else "". Such a
// detail begins with that name and ": ".
std::string io_reason(const Error& error);

}  // namespace hitchrail::pathfs
