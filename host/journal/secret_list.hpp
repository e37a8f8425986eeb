#pragma once
// The known secrets as they come through a pipe from the shim (wire::SecretRecord list) into a redactor: of a
// runner, and of the finisher, whose evidence (file names, commit subjects) may hold them too. The buffer is
// wiped; the descriptor stays the caller's.

#include "core/redact.hpp"
#include "core/result.hpp"

namespace hitchrail::journal {

// Error secret-list-invalid when the list ends inside a record or is longer than 8 MiB.
Status read_secret_list(int fd, SecretRedactor& redactor);

}  // namespace hitchrail::journal
