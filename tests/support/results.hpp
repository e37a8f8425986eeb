#pragma once
// Results in tests: `must` fails the test with the whole error, `code_of` gives "" for a success.

#include <catch2/catch.hpp>
#include <string>
#include <utility>

#include "core/result.hpp"

namespace hitchrail::test {

template <class T>
T must(Result<T> result) {
  if (result.has_error()) {
    FAIL(result.error().code << ": " << result.error().operation << " " << result.error().object << ": "
                             << result.error().detail);
  }
  return std::move(result).value();
}
inline void must(const Status& status) {
  if (status.has_error()) {
    FAIL(status.error().code << ": " << status.error().operation << " " << status.error().object << ": "
                             << status.error().detail);
  }
}
template <class T>
std::string code_of(const Result<T>& result) {
  return result.has_error() ? result.error().code : "";
}

}  // namespace hitchrail::test
