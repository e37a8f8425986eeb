#pragma once
// Errors are values. Every fallible function of the host returns Result<T>; exceptions of libraries are
// caught at the border of the service that calls the library. An Error says what was tried (operation), on
// what (object), a stable machine code, a sentence, and the remedy an operator can act on.

#include <boost/system/result.hpp>
#include <string>
#include <utility>

namespace hitchrail {

// Decides the exit code of the program that reports it (architecture §5).
enum class ErrorClass {
  failed,       // 1: the run or the check failed
  usage,        // 2: the command line or a document of ours is wrong
  refused,      // 3: policy says no
  environment,  // 4: this machine or installation cannot
  internal,     // 5: a fault of ours
};

struct Error {
  ErrorClass kind = ErrorClass::internal;
  std::string code;       // stable, kebab-case: "worktree-not-a-repository"
  std::string operation;  // "open", "read profile", "enable plugin"
  std::string object;     // path, id, or field; data of outsiders is escaped only when printed
  std::string detail;     // one sentence
  std::string remedy;     // one sentence or command; may be empty
};

template <class T>
using Result = boost::system::result<T, Error>;
using Status = Result<void>;

// boost::system::result<T, E>::value() on an error needs this; reaching it is a fault of ours.
[[noreturn]] void throw_exception_from_error(const Error& error, const boost::source_location& where);

// Error from errno: code is the lower-case errno name ("enoent"), detail its text.
Error errno_error(std::string operation, std::string object, int error_number);
int exit_code(ErrorClass kind);

}  // namespace hitchrail

// Propagate an error: HR_TRY(fd, open_at(...)); declares fd. HR_CHECK(status_expression);
#define HR_CONCAT_(a, b) a##b
#define HR_CONCAT(a, b) HR_CONCAT_(a, b)
#define HR_TRY_(tmp, name, ...)    \
  auto tmp = (__VA_ARGS__);        \
  if (tmp.has_error()) {           \
    return std::move(tmp).error(); \
  }                                \
  auto name = std::move(tmp).value()
#define HR_TRY(name, ...) HR_TRY_(HR_CONCAT(hr_try_, __LINE__), name, __VA_ARGS__)
#define HR_CHECK_(tmp, ...)        \
  auto tmp = (__VA_ARGS__);        \
  if (tmp.has_error()) {           \
    return std::move(tmp).error(); \
  }
#define HR_CHECK(...)                                      \
  do {                                                     \
    HR_CHECK_(HR_CONCAT(hr_check_, __LINE__), __VA_ARGS__) \
  } while (false)
