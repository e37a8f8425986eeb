#pragma once
// The probe cache: what can be found out again and costs time to find out (content digests of executables,
// runtime manifests, boundary proofs). $HITCHRAIL_HOME/cache, else $XDG_CACHE_HOME/hitchrail, else
// $HOME/.cache/hitchrail. Never evidence; may be deleted at any time; losing it costs time, never
// correctness. `preview` writes here and nowhere else.
//
// Promises: the folder is ours, 0700 and reached without links, every entry a regular file of ours, 0600,
// with its whole key and its digest in it: anything else is as good as absent and is never followed. One
// entry a scope; who asked last for a scope decides what may be kept for it, so a slow finding of an older
// version never takes the place of a newer one's. What was begun before `clear()` is not kept after it.
// Processes that need the same finding at once share one (Flight); a killed one blocks nobody. No call here
// waits for another process longer than it says. Refuses (open): cache-unset, cache-unsafe, cache-foreign,
// cache-shared, cache-read-only, cache-full; the caller warns and goes on with a Cache that keeps nothing.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/fd.hpp"
#include "core/json.hpp"
#include "core/result.hpp"

namespace hitchrail::store {

// `kind`: a-z and '-'. An entry is found by kind and scope, and believed only under the whole key.
struct CacheKey {
  std::string kind, scope, key;
};

class Flight;

class Cache {
 public:
  static Result<std::string> path();  // error cache-unset
  // Makes the folder when it is absent.
  static Result<Cache> open();
  static Result<Cache> open_path(const std::string& path);
  // Makes nothing: error cache-absent.
  static Result<Cache> open_existing();
  Cache() = default;  // keeps nothing

  // The folder, for what has a format of its own (boundary proofs); -1 when nothing is kept.
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] explicit operator bool() const { return static_cast<bool>(fd_); }

  // Scope and key are the same here.
  [[nodiscard]] std::optional<json::Value> recall(const std::string& kind, const std::string& key) const;
  Status remember(const std::string& kind, const std::string& key, json::Value value) const;
  [[nodiscard]] std::optional<json::Value> recall(const CacheKey& key) const;
  // Errors cache-cleared (clear() came in between), cache-superseded (another key of this scope was claimed
  // since), cache-busy, or the file system's. Values are what a contract document may hold
  // (core/canonical.hpp).
  Status remember(const CacheKey& key, json::Value value) const;
  // From now on nothing else may be remembered for this scope; forgets what another key left there.
  Status claim(const CacheKey& key) const;

  // Joins the flight of whoever is finding this out now, or begins one.
  [[nodiscard]] Flight join(const CacheKey& key, std::int64_t max_wait_ms = 30'000) const;

  struct Entry {
    std::string name, kind;
    std::string state;  // kept, claimed, in-flight, proof, damaged
    std::uint64_t bytes = 0;
    std::int64_t modified_unix_ms = 0;
  };
  [[nodiscard]] Result<std::vector<Entry>> entries() const;
  [[nodiscard]] std::uint64_t generation() const;
  struct Cleared {
    std::size_t entries = 0;
    std::uint64_t bytes = 0;
    std::uint64_t generation = 0;
  };
  // Raises the generation, then removes every entry. Error cache-busy after five seconds.
  Result<Cleared> clear();

 private:
  Cache(Fd fd, std::uint64_t generation) : fd_(std::move(fd)), generation_(generation) {}
  static Result<Cache> from(const std::string& path, bool make);
  friend class Flight;

  Fd fd_;
  std::uint64_t generation_ = 0;  // when this value was opened
};

// One finding-out that processes share. Whoever has landed() takes it; otherwise this process finds out and
// says so with land(), whatever came of it: a failure is shared with those that wait for it now, and kept by
// nobody. Destroyed without land(): the next one in the queue finds out.
class Flight {
 public:
  [[nodiscard]] const std::optional<json::Value>& landed() const { return landed_; }
  void land(const json::Value& outcome);

 private:
  friend class Cache;
  Fd fd_;  // locked; invalid: nobody shares
  int directory_ = -1;
  std::string name_;
  CacheKey key_;
  std::uint64_t generation_ = 0;
  std::optional<json::Value> landed_;
};

}  // namespace hitchrail::store
