#pragma once
// What crosses the adapter border, checked: strings, structs of another minor version, names and ids. Used by
// the live and the planning runner alike.

#include <hitchrail/adapter.h>

#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/result.hpp"

namespace hitchrail::runner {

// False for a null pointer with a size.
bool take(hr_str in, std::string_view& out);
inline hr_str str(std::string_view text) {
  return {text.data(), text.size()};
}

// min(struct_size, own size) bytes into a zeroed local; false for a null pointer or a size that cannot be.
template <class T>
bool read_struct(const T* in, T& out) {
  static_assert(std::is_trivially_copyable_v<T>);
  out = T{};
  if (in == nullptr || in->struct_size < sizeof(in->struct_size)) {
    return false;
  }
  const std::size_t size = in->struct_size;
  std::memcpy(static_cast<void*>(&out), in, size < sizeof(T) ? size : sizeof(T));
  return true;
}

bool is_kebab(std::string_view code);      // ^[a-z][a-z0-9]*(-[a-z0-9]+)*$, at most 80
bool is_kind_name(std::string_view name);  // ^[a-z][a-z0-9]*([._-][a-z0-9]+)+$, 3..120
bool is_host_kind(std::string_view name);  // a first segment that only the host or the fixed kinds use
bool is_rfc3339(std::string_view text);
bool is_json_object(std::string_view text);   // one valid JSON value beginning with "{"
std::string bounded_id(std::string_view id);  // itself, or sha256_<hex> when longer than 160 bytes
std::string cut_utf8(std::string_view text, std::size_t max);  // at a character's border
const char* event_kind_name(std::uint32_t kind);  // nullptr for HR_EVENT_NAMED and unknown numbers
const char* result_name(hr_result result);

// A host whose every callback refuses (HR_E_STATE) and whose extension() has nothing; users replace what they
// allow.
hr_host refusing_host(void* ctx);

// The first `fail` of a hook, bounded.
struct Reason {
  std::string code, text;
  void set(hr_str in_code, hr_str in_text);
};
// The Error for a failed hook: operation and object name it. refusal: HR_E_ARGUMENT and HR_E_UNSUPPORTED keep
// the adapter's code (a planning hook refused its argument); else the code is adapter-hook-failed.
Error hook_error(const char* hook, hr_result result, const Reason& reason, bool refusal);

}  // namespace hitchrail::runner
