#include "pathfs/codes.hpp"

#include <array>
#include <cerrno>

#include "pathfs/internal.hpp"

namespace hitchrail::pathfs {
namespace {

constexpr std::array<const char*, 8> kTexts = {
    "not-found",   "symlink-rejected", "not-directory", "not-regular-file",
    "path-escape", "too-large",        "walk-limit",    "io"};

}  // namespace

const char* code_text(Code code) {
  return kTexts.at(static_cast<std::size_t>(code));
}

std::optional<Code> code_of(const Error& error) {
  for (std::size_t i = 0; i < kTexts.size(); ++i) {
    if (error.code == kTexts[i]) {
      return static_cast<Code>(i);
    }
  }
  return std::nullopt;
}

std::string io_reason(const Error& error) {
  const std::size_t colon = error.detail.find(':');
  return is(error, Code::io) && colon != std::string::npos ? error.detail.substr(0, colon) : std::string();
}

Error make_error(Code code, const char* operation, std::string object, std::string detail,
                 std::string remedy) {
  const bool policy = code != Code::io && code != Code::not_found;
  return Error{policy ? ErrorClass::refused : ErrorClass::environment,
               code_text(code),
               operation,
               std::move(object),
               std::move(detail),
               std::move(remedy)};
}

Error system_error(const char* operation, std::string object, int error_number) {
  switch (error_number) {
    case ENOENT:
      return make_error(Code::not_found, operation, std::move(object), "No such file or directory");
    case ELOOP:
      return make_error(Code::symlink_rejected, operation, std::move(object),
                        "a component of the path is a symbolic link");
    case ENOTDIR:
      return make_error(Code::not_directory, operation, std::move(object),
                        "a component of the path is not a directory");
    case EISDIR:
      return make_error(Code::not_regular_file, operation, std::move(object), "it is a directory");
    default:
      break;
  }
  const Error named = errno_error(operation, "", error_number);
  return make_error(Code::io, operation, std::move(object), named.code + ": " + named.detail);
}

Error open_error(const std::string& object, int error_number) {
  if (error_number == EXDEV) {
    return make_error(Code::path_escape, "open", object, "the path leaves its root");
  }
  if (error_number == ENXIO || error_number == ENODEV) {
    return make_error(Code::not_regular_file, "open", object, "it is a FIFO, a socket or a device");
  }
  return system_error("open", object, error_number);
}

Error stale(const char* operation, std::string object) {
  return make_error(Code::io, operation, std::move(object),
                    "estale: it was changed or replaced by somebody else meanwhile");
}

Error wrong_type(const char* operation, const std::string& object, FileType type) {
  switch (type) {
    case FileType::absent:
      return make_error(Code::not_found, operation, object, "No such file or directory");
    case FileType::symlink:
      return make_error(Code::symlink_rejected, operation, object, "it is a symbolic link");
    case FileType::directory:
      return make_error(Code::not_regular_file, operation, object, "it is a directory");
    case FileType::regular:
      return make_error(Code::not_directory, operation, object, "it is a file, not a directory");
    case FileType::other:
      break;
  }
  return make_error(Code::not_regular_file, operation, object, "it is a FIFO, a socket or a device");
}

}  // namespace hitchrail::pathfs
