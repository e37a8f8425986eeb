#include "pathfs/snapshot.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "pathfs/edit.hpp"
#include "pathfs/internal.hpp"

namespace hitchrail::pathfs {
namespace {

// Changed or not; an error leaves the entry as it is.
using Outcome = Result<bool>;

// The parent of an entry that was absent may be absent itself.
Result<Identity> state_of(int root, const std::string& path) {
  auto identity = identify_beneath(root, path);
  if (identity.has_error() && is(identity.error(), Code::not_found)) {
    return Identity{};
  }
  return identity;
}

Outcome remove_new(int root, const std::string& path) {
  HR_TRY(now, state_of(root, path));
  if (now.type == FileType::absent) {
    return false;
  }
  if (now.type == FileType::directory) {
    HR_CHECK(remove_directory_beneath(root, path));
    return true;
  }
  if (now.type != FileType::regular) {
    return wrong_type("restore", path, now.type);
  }
  HR_TRY(place, open_place(root, path));
  HR_TRY(aside, set_aside(place.directory, place.name, now, path));
  if (::unlinkat(place.directory, aside.c_str(), 0) != 0) {
    return system_error("restore", path, errno);
  }
  return true;
}

Result<Place> place_with_parents(int root, const std::string& path) {
  auto place = open_place(root, path);
  const std::size_t slash = path.rfind('/');
  if (place.has_value() || !is(place.error(), Code::not_found) || slash == std::string::npos) {
    return place;
  }
  DirectoryOptions options;
  options.parents = true;
  HR_CHECK(make_directory_beneath(root, path.substr(0, slash), options));
  return open_place(root, path);
}

// Its content, mode and owner; the file is the one that was looked at, or nothing is changed.
Outcome restore_file(int root, const std::string& path, const Identity& was, const std::string& bytes) {
  HR_TRY(place, place_with_parents(root, path));
  HR_TRY(now, identify_at(place.directory, place.name));
  if (now.type != FileType::regular && now.type != FileType::absent) {
    return wrong_type("restore", path, now.type);
  }
  const bool same_owner = now.uid == was.uid && now.gid == was.gid;
  if (now.type == FileType::regular && now.size == was.size && same_owner) {
    auto content = read_beneath(place.directory, place.name, bytes.size());
    if (content.has_value() && content.value() == bytes) {
      if (now.mode == was.mode) {
        return false;
      }
      HR_TRY(fd, open_beneath(place.directory, place.name, O_PATH));
      HR_TRY(identity, identify(fd.get()));
      if (!identity.same_file(now)) {
        return stale("restore", path);
      }
      HR_CHECK(change_mode(fd.get(), identity, was.mode, path));
      return true;
    }
  }
  StageOptions options;
  options.mode = was.mode;
  options.like = Owner{was.uid, was.gid};
  HR_TRY(staged, stage(place.directory, bytes, options, path));
  const Status placed = now.type == FileType::absent
                            ? rename_new(place.directory, staged.name, place.directory, place.name, path)
                            : exchange_expected(place.directory, staged.name, place.name, now, path);
  if (placed.has_error() || now.type != FileType::absent) {  // our copy, or the file it has replaced
    ::unlinkat(place.directory, staged.name.c_str(), 0);
  }
  HR_CHECK(placed);
  HR_CHECK(sync_directory(place.directory, path));
  return true;
}

// There, and open to us while what is below it is restored; its own mode comes last.
Outcome make_again(int root, const std::string& path) {
  HR_TRY(now, state_of(root, path));
  if (now.type == FileType::absent) {
    DirectoryOptions options;
    options.mode = 0700;
    options.parents = true;
    HR_CHECK(make_directory_beneath(root, path, options));
    return true;
  }
  if (now.type != FileType::directory) {
    return wrong_type("restore", path, now.type);
  }
  if ((now.mode & 0700) != 0700) {
    HR_CHECK(chmod_beneath(root, path, now.mode | 0700));
    return true;
  }
  return false;
}

Outcome restore_mode(int root, const std::string& path, const Identity& was) {
  HR_TRY(fd, open_beneath(root, path, O_PATH | O_DIRECTORY));
  HR_TRY(now, identify(fd.get()));
  if (now.mode == was.mode) {
    return false;
  }
  HR_CHECK(change_mode(fd.get(), now, was.mode, path));
  return true;
}

}  // namespace

Result<Snapshot> Snapshot::take(int root, const std::vector<std::string>& paths,
                                const SnapshotLimits& limits) {
  if (paths.size() > limits.entries) {
    return make_error(Code::too_large, "snapshot", std::to_string(paths.size()) + " entries",
                      "at most " + std::to_string(limits.entries));
  }
  Snapshot out;
  std::size_t left = limits.total_bytes;
  for (const std::string& path : paths) {
    HR_TRY(identity, state_of(root, path));
    if (identity.type == FileType::symlink || identity.type == FileType::other) {
      return wrong_type("snapshot", path, identity.type);
    }
    Entry entry{path, identity, {}};
    if (identity.type == FileType::regular) {
      HR_TRY(content, read_stable_beneath(root, path, std::min(left, limits.file_bytes)));
      left -= content.bytes.size();
      entry.identity = content.identity;
      entry.bytes = std::move(content.bytes);
    }
    out.entries_.push_back(std::move(entry));
  }
  // Parents before what is below them.
  std::sort(out.entries_.begin(), out.entries_.end(),
            [](const Entry& a, const Entry& b) { return a.path < b.path; });
  const auto twice = std::unique(out.entries_.begin(), out.entries_.end(),
                                 [](const Entry& a, const Entry& b) { return a.path == b.path; });
  out.entries_.erase(twice, out.entries_.end());
  return out;
}

Snapshot::Report Snapshot::restore(int root) const {
  Report report;
  std::vector<const Entry*> reached;  // directories, whose mode is still to come
  const auto note = [&report](const std::string& path, const Outcome& outcome) {
    if (outcome.has_error()) {
      report.unrestored.push_back({path, outcome.error()});
    } else if (outcome.value()) {
      report.restored.push_back(path);
    }
  };
  for (const Entry& entry : entries_) {
    if (entry.identity.type == FileType::directory) {
      const Outcome made = make_again(root, entry.path);
      if (made.has_error()) {
        note(entry.path, made);
      } else {
        reached.push_back(&entry);
      }
    }
  }
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
    if (entry->identity.type == FileType::absent) {
      note(entry->path, remove_new(root, entry->path));
    }
  }
  for (const Entry& entry : entries_) {
    if (entry.identity.type == FileType::regular) {
      note(entry.path, restore_file(root, entry.path, entry.identity, entry.bytes));
    }
  }
  for (auto entry = reached.rbegin(); entry != reached.rend(); ++entry) {
    note((*entry)->path, restore_mode(root, (*entry)->path, (*entry)->identity));
  }
  return report;
}

}  // namespace hitchrail::pathfs
