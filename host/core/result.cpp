#include "core/result.hpp"

#include <cstring>
#include <stdexcept>

namespace hitchrail {

void throw_exception_from_error(const Error& error, const boost::source_location& where) {
  throw std::logic_error("unchecked error " + error.code + " (" + error.operation + " " + error.object +
                         ") at " + where.to_string());
}

Error errno_error(std::string operation, std::string object, int error_number) {
  Error error;
  error.kind = ErrorClass::environment;
  const char* name = ::strerrorname_np(error_number);
  error.code = name != nullptr ? name : "errno-" + std::to_string(error_number);
  for (char& c : error.code) {
    if (c >= 'A' && c <= 'Z') {
      c = static_cast<char>(c - 'A' + 'a');
    }
  }
  error.operation = std::move(operation);
  error.object = std::move(object);
  const char* text = ::strerrordesc_np(error_number);
  error.detail = text != nullptr ? text : "unknown error";
  return error;
}

int exit_code(ErrorClass kind) {
  switch (kind) {
    case ErrorClass::failed:
      return 1;
    case ErrorClass::usage:
      return 2;
    case ErrorClass::refused:
      return 3;
    case ErrorClass::environment:
      return 4;
    case ErrorClass::internal:
      break;
  }
  return 5;
}

}  // namespace hitchrail
