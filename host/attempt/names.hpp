#pragma once
// Names within an attempt directory, shared by those who build, read, recover and finish it.

#include <chrono>
#include <cstddef>

#include "core/fd.hpp"
#include "core/result.hpp"

namespace hitchrail::attempt {

inline constexpr const char* id_prefix = "attempt_";
inline constexpr const char* building_prefix = ".new-";
inline constexpr const char* header_name = "header.json";
inline constexpr const char* completion_name = "completion.json";
inline constexpr const char* lock_name = "lock";
inline constexpr const char* token_name = "token";
inline constexpr const char* reserve_name = "reserve";
inline constexpr std::size_t reserve_bytes =
    512u << 10;  // completion, terminal event, a database page, on a full disk
inline constexpr std::size_t max_document = 8u << 20;

// Removes .new-* that are older than `age` and nobody is building.
void sweep_unpublished(int attempts_dirfd, std::chrono::seconds age);
Result<Fd> take_lock(int attempt_dirfd, int wait_ms);
bool lock_is_held(int attempt_dirfd);

}  // namespace hitchrail::attempt
