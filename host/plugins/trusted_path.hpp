#pragma once
// Opens a file or folder whose every path component is a real directory (the last: a real file or directory)
// owned by root or the user and writable by nobody else. A sticky folder such as /tmp may be writable by
// others: nobody but an owner can replace what root or the user has in it. Refuses (plugin-path-unsafe,
// Error.object is the component): a link, a foreign owner, a group or world write bit, "..".

#include <string>

#include "core/fd.hpp"
#include "core/result.hpp"

namespace hitchrail::plugins {

enum class TrustedKind { file, directory };

// O_RDONLY. A relative path counts from the working directory, whose own components are judged too.
Result<Fd> open_trusted(const std::string& path, TrustedKind kind);
// One more component below a directory that open_trusted gave. `shown` is the whole path for messages.
Result<Fd> open_trusted_at(int dirfd, const std::string& name, const std::string& shown, TrustedKind kind);

}  // namespace hitchrail::plugins
