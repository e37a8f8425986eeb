#include "workspace/sweep.hpp"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <future>
#include <unordered_map>

#include "core/text.hpp"
#include "pathfs/raw.hpp"
#include "workspace/index_paths.hpp"
#include "workspace/refs.hpp"

namespace hitchrail::workspace {
namespace {

constexpr std::size_t kMaxIndex = 256u << 20;
constexpr std::size_t kPathsOfAThread = 4'000;
constexpr std::size_t kMaxThreads = 4;

std::uint64_t mix(std::uint64_t value) {  // splitmix64: sums of these do not cancel out
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

std::uint64_t hash_text(std::string_view text) {
  std::uint64_t value = 0xcbf29ce484222325ULL;
  for (const char c : text) {
    value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  }
  return mix(value);
}

class Look {
 public:
  Look(int root, const std::vector<PathSet::Folder>& folders) : root_(root), folders_(folders) {}

  Sweep part(std::size_t begin, std::size_t end) const {
    Sweep out;
    for (std::size_t i = begin; i < end; ++i) {
      folder(folders_[i], i, out);
    }
    return out;
  }

 private:
  void folder(const PathSet::Folder& folder, std::size_t place, Sweep& out) const {
    const Fd opened = pathfs::raw::open_below(root_, folder.path, O_PATH | O_DIRECTORY);
    pathfs::raw::Stat stat;
    if (!opened.valid() || !pathfs::raw::look(opened.get(), "", stat)) {
      out.digest += mix(place);  // not there; that it comes changes the folder above
      return;
    }
    note(stat, place, out);
    std::uint64_t number = 0;
    for (const std::string& name : folder.names) {
      ++number;
      if (pathfs::raw::look(opened.get(), name.c_str(), stat)) {
        note(stat, place * 0x10001 + number, out);
      }
    }
  }

  static void note(const pathfs::raw::Stat& stat, std::uint64_t place, Sweep& out) {
    out.newest_ns = std::max(out.newest_ns, stat.changed_ns);
    out.digest += mix(mix(mix(place) ^ stat.inode) ^ static_cast<std::uint64_t>(stat.changed_ns));
  }

  int root_;
  const std::vector<PathSet::Folder>& folders_;
};

// Of an index and, where it is split, its base. A replaced entry of the base is named too.
bool each_tracked(int git_fd, std::size_t oid_size, const std::function<void(const IndexPath&)>& entry) {
  std::string name = "index";
  for (int files = 0; files < 2; ++files) {
    auto bytes = pathfs::read_beneath(git_fd, name, kMaxIndex);
    if (bytes.has_error()) {
      return files == 0 && pathfs::is(bytes.error(), pathfs::Code::not_found);
    }
    std::string shared;
    if (!each_index_path(bytes.value(), oid_size, shared, entry)) {
      return false;
    }
    if (shared.find_first_not_of('\0') == std::string::npos) {
      return true;
    }
    name = "sharedindex." + hex_encode(shared);
  }
  return true;
}

Error unreadable_index() {
  return Error{ErrorClass::failed,    "index-unreadable",       "look for changes",
               "index of the launch", "it cannot be read here", ""};
}

}  // namespace

void PathSet::add(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  const std::string_view folder =
      slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
  if (folders_.empty() || folders_.back().path != folder) {
    folders_.push_back({std::string(folder), {}});
  }
  if (slash == std::string_view::npos || slash + 1 < path.size()) {
    folders_.back().names.emplace_back(path.substr(slash == std::string_view::npos ? 0 : slash + 1));
  }
}

bool PathSet::add_index(int git_fd, std::size_t oid_size) {
  return each_tracked(git_fd, oid_size, [this](const IndexPath& entry) { add(entry.path); });
}

void PathSet::close() {
  std::unordered_map<std::string, std::vector<std::string>> merged;
  merged.reserve(folders_.size());
  merged.try_emplace("");
  for (Folder& folder : folders_) {
    std::string_view above = folder.path;
    for (std::size_t slash = above.rfind('/'); !above.empty(); slash = above.rfind('/')) {
      above = slash == std::string_view::npos ? std::string_view() : above.substr(0, slash);
      if (!merged.try_emplace(std::string(above)).second) {
        break;
      }
    }
    std::vector<std::string>& names = merged[folder.path];
    if (names.empty()) {
      names = std::move(folder.names);
    } else {
      names.insert(names.end(), std::make_move_iterator(folder.names.begin()),
                   std::make_move_iterator(folder.names.end()));
    }
  }
  folders_.clear();
  folders_.reserve(merged.size());
  for (auto& [path, names] : merged) {
    folders_.push_back({path, std::move(names)});
  }
  std::sort(folders_.begin(), folders_.end(),
            [](const Folder& a, const Folder& b) { return a.path < b.path; });
}

Sweep look(int root_fd, const PathSet& paths) {
  const auto& folders = paths.folders();
  std::size_t total = 0;
  for (const PathSet::Folder& folder : folders) {
    total += folder.names.size() + 1;
  }
  const Look look(root_fd, folders);
  const std::size_t threads = std::clamp<std::size_t>(total / kPathsOfAThread, 1, kMaxThreads);
  std::vector<std::future<Sweep>> parts;
  std::size_t begin = 0, seen = 0, at = 0;
  for (; at < folders.size() && parts.size() + 1 < threads; ++at) {
    seen += folders[at].names.size() + 1;
    if (seen >= total / threads) {
      parts.push_back(
          std::async(std::launch::async, [&look, begin, at] { return look.part(begin, at + 1); }));
      begin = at + 1;
      seen = 0;
    }
  }
  Sweep out = look.part(begin, folders.size());
  for (auto& part : parts) {
    const Sweep other = part.get();
    out.digest += other.digest;
    out.newest_ns = std::max(out.newest_ns, other.newest_ns);
  }
  return out;
}

Result<std::vector<TouchedFile>> touched_since(const Worktree& worktree, int index_fd,
                                               std::int64_t since_ns) {
  std::vector<TouchedFile> out;
  Fd folder;
  std::string folder_path;
  bool absent = true;
  const bool whole = each_tracked(index_fd, oid_bytes(worktree), [&](const IndexPath& entry) {
    const std::size_t slash = entry.path.rfind('/');
    const std::string_view above = slash == std::string_view::npos ? "" : entry.path.substr(0, slash);
    if (absent || above != folder_path) {
      folder_path = std::string(above);
      folder = pathfs::raw::open_below(worktree.root_fd->get(), folder_path, O_PATH | O_DIRECTORY);
      absent = !folder.valid();
    }
    const std::string name(entry.path.substr(slash == std::string_view::npos ? 0 : slash + 1));
    pathfs::raw::Stat stat;
    if (absent || name.empty() || !pathfs::raw::look(folder.get(), name.c_str(), stat) ||
        stat.changed_ns < since_ns) {
      return;
    }
    const auto type = S_ISREG(stat.mode)   ? pathfs::FileType::regular
                      : S_ISLNK(stat.mode) ? pathfs::FileType::symlink
                                           : pathfs::FileType::other;
    if (type != pathfs::FileType::other && entry.stage == 0) {
      out.push_back({std::string(entry.path), type, entry.assume_unchanged || entry.skip_worktree});
    }
  });
  if (!whole) {
    return unreadable_index();
  }
  return out;
}

Result<bool> is_tracked(const Worktree& worktree, int index_fd, const std::string& path) {
  bool found = false;
  if (!each_tracked(index_fd, oid_bytes(worktree),
                    [&](const IndexPath& entry) { found = found || entry.path == path; })) {
    return unreadable_index();
  }
  return found;
}

std::string blob_oid(std::string_view bytes, std::string_view object_format) {
  const std::string text = "blob " + std::to_string(bytes.size()) + '\0' + std::string(bytes);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  EVP_Digest(text.data(), text.size(), digest.data(), &size,
             object_format == "sha256" ? EVP_sha256() : EVP_sha1(), nullptr);
  return hex_encode({reinterpret_cast<const char*>(digest.data()), size});
}

std::size_t oid_bytes(const Worktree& worktree) {
  return worktree.object_format == "sha256" ? 32 : 20;
}

std::int64_t change_clock_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

bool Metadata::same(const Metadata& other) const {
  const bool no_index = index.type == pathfs::FileType::absent && other.index.type == index.type;
  return head == other.head && refs == other.refs && (no_index || index.unchanged(other.index));
}

Result<Metadata> read_metadata_state(const Worktree& worktree) {
  Metadata out;
  HR_TRY(head, read_head(worktree));
  out.head = std::move(head);
  HR_TRY(index, pathfs::identify_at(worktree.git_fd->get(), "index"));
  out.index = index;
  HR_TRY(refs, read_refs(worktree.common_fd->get(), worktree.object_format));
  for (const auto& [name, oid] : refs.oids) {
    out.refs += mix(hash_text(name) + mix(hash_text(oid)));
    out.other_refs = out.other_refs || oid != out.head.oid;
  }
  for (const auto& [name, target] : refs.symbolic) {
    out.refs += mix(hash_text(name) + mix(hash_text(target)));
  }
  HR_TRY(worktrees, pathfs::identify_at(worktree.common_fd->get(), "worktrees"));
  out.other_refs = out.other_refs || worktrees.type != pathfs::FileType::absent;
  return out;
}

}  // namespace hitchrail::workspace
