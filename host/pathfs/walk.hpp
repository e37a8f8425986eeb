#pragma once
// Walking a tree that somebody else may have shaped. Links are reported, never followed; one descriptor is
// open at a time, whatever the depth; every bound ends the walk with walk-limit; a directory that cannot be
// entered is named, not an error. What is made or removed meanwhile may or may not be seen.

#include <functional>
#include <string>
#include <vector>

#include "pathfs/pathfs.hpp"

namespace hitchrail::pathfs {

struct WalkLimits {
  std::size_t depth = 64;  // directories below the start
  std::size_t directories = 10'000;
  std::size_t entries = 50'000;
};

struct Visit {
  int directory;              // open, of the entry's parent; valid during the call
  const std::string& parent;  // its path below the root, "" for the root itself
  const std::string& name;
  FileType type;
  [[nodiscard]] std::string path() const { return parent.empty() ? name : parent + "/" + name; }
};

enum class Next { go_on, skip, stop };  // skip: do not enter this directory

struct Walked {
  std::size_t entries = 0;
  std::size_t directories = 0;                // entered, the start included
  bool stopped = false;                       // by the visitor
  std::size_t unreadable = 0;                 // directories that could not be entered or read
  std::vector<std::string> unreadable_paths;  // the first 64 of them
};

// `start` below the root, "" for the root itself. The entries of a directory come in no particular order.
Result<Walked> walk(int root, const std::string& start, const WalkLimits& limits,
                    const std::function<Next(const Visit&)>& visitor);

struct Found {
  std::string path;  // below the root
  Identity identity;
};
struct FindResult {
  std::vector<Found> entries;  // by path, bytewise
  std::vector<std::string> unreadable;
};
// Every entry below `start`, of every type, with its identity; of one that may not be looked at only the
// type.
Result<FindResult> find(int root, const std::string& start, const WalkLimits& limits = {});

}  // namespace hitchrail::pathfs
