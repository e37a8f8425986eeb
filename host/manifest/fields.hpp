#pragma once
// Helpers of the document builders: bounded members with their field's name in the error, lists as sets,
// replaced run directories.

#include <string>
#include <string_view>
#include <vector>

#include "core/json.hpp"
#include "core/result.hpp"

namespace hitchrail::manifest {

Error invalid_field(std::string field, std::string detail);

// Collects the first violation; builders ask once, at the end.
class Fields {
 public:
  // The text itself when it has 1..max bytes of valid UTF-8 without U+007F, else the violation is kept.
  std::string text(std::string field, std::string_view value, std::size_t max);
  std::string optional_text(std::string field, std::string_view value, std::size_t max);
  // Letters first, then [A-Za-z0-9._:/-], at most 120 bytes.
  std::string token(std::string field, std::string_view value);
  std::string hex64(std::string field, std::string_view value);
  // path_value() of 1..4096 bytes.
  json::Value path(std::string field, std::string_view value);
  void one_of(std::string field, std::string_view value, const std::vector<std::string_view>& choices);
  void at_most(std::string field, std::size_t count, std::size_t max);
  void no_secret(std::string field, std::string_view value);
  void fail(std::string field, std::string detail);
  [[nodiscard]] Status status() const;

 private:
  bool failed_ = false;
  Error error_;
};

json::Value string_array(const std::vector<std::string>& items);
// Trimmed, without empty ones, unique, sorted by bytes.
std::vector<std::string> as_set(std::vector<std::string> items);
// Every occurrence of `path` that ends there or goes on with "/" becomes "<attempt>".
std::string without_run_directory(std::string_view text, std::string_view path);
json::Value without_run_directories(const json::Value& value, std::string_view path);
// Members in the order given; null values are left out.
json::Value object_of(std::vector<json::Member> members);
// Schema, digest, and that every required member is there and no other than the optional ones.
Status check_shape(const json::Value& document, std::string_view schema,
                   const std::vector<std::string_view>& required,
                   const std::vector<std::string_view>& optional);
// At most `max` code points of a text.
std::string cut_code_points(std::string_view text, std::size_t max);

}  // namespace hitchrail::manifest
