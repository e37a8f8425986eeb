#pragma once
// Shared by the files of this folder only.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pathfs/edit.hpp"

namespace hitchrail::pathfs {

Error make_error(Code code, const char* operation, std::string object, std::string detail,
                 std::string remedy = "");
// From errno, in the closed set: ENOENT, ELOOP, ENOTDIR and EISDIR have their own codes, the rest is io.
Error system_error(const char* operation, std::string object, int error_number);
// The same with the errors that only opening gives: EXDEV (openat2: out of the root), ENXIO (FIFO, socket).
Error open_error(const std::string& object, int error_number);
Error stale(const char* operation, std::string object);
Error wrong_type(const char* operation, const std::string& object, FileType type);

bool plain_name(std::string_view name);      // one component
bool plain_relative(std::string_view path);  // components joined by single "/"
Status check_relative(const char* operation, const std::string& path);
std::vector<std::string> components(const std::string& path);

FileType type_of(mode_t mode);
Identity from_stat(const struct stat& st);

// The open directory that holds the last component of a path.
struct Place {
  Fd holder;  // of `directory`, unless that is the root itself
  int directory = -1;
  std::string name;
};
Result<Place> open_place(int root, const std::string& path);

// The very file behind a descriptor of any kind, opened once more.
Result<Fd> reopen(int fd, int flags, const std::string& label);
Status change_mode(int fd, const Identity& identity, mode_t mode, const std::string& label);
// The directory's entries are on disk; one that may not be read cannot be synced, and is left.
Status sync_directory(int dirfd, const std::string& label);

// A new file with this content under a temporary name in `directory`.
struct Staged {
  Fd fd;
  std::string name;
  Identity identity;
};
struct StageOptions {
  mode_t mode = 0644;
  std::optional<Owner> owner;  // of the new file, or an error
  std::optional<Owner> like;   // the same where we may
  bool sync = true;
};
Result<Staged> stage(int directory, std::string_view bytes, const StageOptions& options,
                     const std::string& label);
std::string temporary_name();

// The same file with the same content; a rename of it in between does not matter.
bool same_content(const Identity& a, const Identity& b);
// Into a name that nothing has, else io/eexist.
Status rename_new(int from_dir, const std::string& from, int to_dir, const std::string& to,
                  const std::string& label);
// `staged` takes the place of `name`, which must be the file `expected`; that file then has the name
// `staged`. io/estale, and everything as before, when it is another one.
Status exchange_expected(int directory, const std::string& staged, const std::string& name,
                         const Identity& expected, const std::string& label);
// The file `expected` gets a temporary name; io/estale, and everything as before, when `name` is another one.
Result<std::string> set_aside(int directory, const std::string& name, const Identity& expected,
                              const std::string& label);

}  // namespace hitchrail::pathfs
