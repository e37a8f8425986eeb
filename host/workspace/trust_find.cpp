#include "workspace/trust_find.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <cerrno>
#include <cstring>
#include <unordered_map>

#include "core/canonical.hpp"
#include "pathfs/pathfs.hpp"
#include "pathfs/raw.hpp"
#include "pathfs/walk.hpp"

namespace hitchrail::workspace {
namespace {

constexpr std::size_t kMaxPath = 64u << 10;
constexpr std::size_t kMaxTreeEntries = 50'000;

std::string joined(const std::string& base, std::string_view name) {
  return base.empty() ? std::string(name) : base + "/" + std::string(name);
}

char folded(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// The first components of the places, as a directory that folds case would resolve them: first letter and
// length, then the whole name.
class FirstNames {
 public:
  void add(const TrustPlace* place) {
    const std::string& path = place->pattern.path;
    const std::string name = path.substr(0, path.find('/'));
    std::string fold(name);
    std::transform(fold.begin(), fold.end(), fold.begin(), folded);
    lengths_[static_cast<unsigned char>(fold[0])].set(fold.size());
    groups_[fold].push_back(place);
  }
  [[nodiscard]] const std::vector<const TrustPlace*>* find(const char* name) const {
    const std::size_t length = std::strlen(name);
    if (!lengths_[static_cast<unsigned char>(folded(name[0]))].test(length)) {
      return nullptr;
    }
    std::string fold(name, length);
    std::transform(fold.begin(), fold.end(), fold.begin(), folded);
    const auto group = groups_.find(fold);
    return group == groups_.end() ? nullptr : &group->second;
  }

 private:
  std::array<std::bitset<256>, 256> lengths_;
  std::unordered_map<std::string, std::vector<const TrustPlace*>> groups_;
};

class Finder {
 public:
  Finder(int root, const std::string& subdirectory, const std::vector<TrustPlace>& places,
         const TrustLimits& limits)
      : root_(root), limits_(limits) {
    for (std::size_t at = 0; at <= subdirectory.size() && !subdirectory.empty(); ++at) {
      if (at == subdirectory.size() || subdirectory[at] == '/') {
        levels_.push_back(subdirectory.substr(0, at));
      }
    }
    for (const TrustPlace& place : places) {
      if (place.pattern.reach == PlaceReach::anywhere) {
        names_.add(&place);
      } else if (place.pattern.reach == PlaceReach::levels) {
        level_places_.push_back(&place);
      } else {
        top_places_.push_back(&place);
      }
      order_[&place] = order_.size();
    }
  }

  Result<FoundPlaces> run() {
    std::vector<std::string> waiting = {""};
    while (!waiting.empty()) {
      const std::string path = std::move(waiting.back());
      waiting.pop_back();
      HR_CHECK(directory(path, waiting));
    }
    return std::move(out_);
  }

 private:
  void note(const std::string& path, const TrustPlace* place, const char* problem, std::string detail = "") {
    const auto [entry, fresh] = out_.paths.try_emplace(path, FoundPlace{place, problem, std::move(detail)});
    // Two rows lead here: the earlier one names it.
    if (!fresh && place != nullptr &&
        (entry->second.place == nullptr || order_.at(place) < order_.at(entry->second.place))) {
      entry->second.place = place;
    }
  }

  // Lists one directory; its hits are then looked up by their exact names.
  Status directory(const std::string& path, std::vector<std::string>& waiting) {
    const Fd fd = pathfs::raw::open_below(root_, path, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
    if (!fd) {
      if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP) {
        const bool denied = errno == EACCES || errno == EPERM;
        const auto identity = pathfs::identify_beneath(root_, path);
        const bool foreign =
            denied && ::geteuid() != 0 && identity.has_value() && identity.value().uid != ::geteuid();
        note(path, nullptr, foreign ? "closed" : "unreadable", state_text(root_, path));
      }
      return {};
    }
    std::vector<const TrustPlace*> hits;
    if (path.empty()) {
      hits = top_places_;
    }
    if (path.empty() || std::find(levels_.begin(), levels_.end(), path) != levels_.end()) {
      hits.insert(hits.end(), level_places_.begin(), level_places_.end());
    }
    const int error = pathfs::raw::list_names(fd.get(), [&](const char* name, unsigned char type) {
      return name_in(fd.get(), path, name, type, hits, waiting);
    });
    if (error != 0) {
      note(path, nullptr, "unreadable", state_text(root_, path));
    }
    std::sort(hits.begin(), hits.end(),
              [&](const TrustPlace* a, const TrustPlace* b) { return order_.at(a) < order_.at(b); });
    hits.erase(std::unique(hits.begin(), hits.end()), hits.end());
    for (const TrustPlace* place : hits) {
      HR_CHECK(look_at(path, *place));
    }
    return {};
  }

  bool name_in(int directory, const std::string& path, const char* name, unsigned char type,
               std::vector<const TrustPlace*>& hits, std::vector<std::string>& waiting) {
    if (++out_.walked > limits_.max_walked) {
      note("", nullptr, "too-many", "names below the worktree");
      waiting.clear();
      return false;
    }
    if (const auto* group = names_.find(name)) {
      hits.insert(hits.end(), group->begin(), group->end());
    }
    if (type == DT_UNKNOWN) {
      pathfs::raw::Stat info;
      type = pathfs::raw::look(directory, name, info) && S_ISDIR(info.mode) ? DT_DIR : DT_REG;
    }
    if (type != DT_DIR || std::strcmp(name, ".git") == 0) {
      return true;
    }
    std::string below = joined(path, name);
    if (below.size() > kMaxPath) {
      note(path, nullptr, "too-deep", state_text(root_, path));
    } else {
      waiting.push_back(std::move(below));
    }
    return true;
  }

  // What stands at one place below `base`, by components.
  Status look_at(const std::string& base, const TrustPlace& place) {
    std::string path = base;
    const std::string& pattern = place.pattern.path;
    std::size_t at = 0;
    for (;;) {
      const std::size_t end = std::min(pattern.find('/', at), pattern.size());
      path = joined(path, std::string_view(pattern).substr(at, end - at));
      const bool last = end == pattern.size();
      const auto identity = pathfs::identify_beneath(root_, path);
      if (identity.has_error()) {
        const auto code = pathfs::code_of(identity.error());
        if (code == pathfs::Code::not_found) {
          return {};
        }
        note(path, &place, "unreadable", "");
        return {};
      }
      const pathfs::FileType type = identity.value().type;
      if (type == pathfs::FileType::absent) {
        return {};
      }
      const bool directory_wanted = !last || place.pattern.tree;
      if (type == pathfs::FileType::symlink) {
        note(path, &place, "symbolic-link");
        return {};
      }
      if (directory_wanted && type != pathfs::FileType::directory) {
        note(path, &place, "not-a-directory", state_text(root_, path));
        return {};
      }
      if (last) {
        if (place.pattern.tree) {
          return tree(path, place);
        }
        if (type == pathfs::FileType::regular) {
          note(path, &place, "");
        } else {
          note(path, &place, "not-a-file", state_text(root_, path));
        }
        return {};
      }
      at = end + 1;
    }
  }

  Status tree(const std::string& start, const TrustPlace& place) {
    const std::size_t slashes = static_cast<std::size_t>(std::count(start.begin(), start.end(), '/'));
    const auto visitor = [&](const pathfs::Visit& visit) {
      const std::string path = visit.path();
      const auto depth = static_cast<std::size_t>(std::count(path.begin(), path.end(), '/')) - slashes;
      switch (visit.type) {
        case pathfs::FileType::directory:
          if (depth >= limits_.max_depth) {
            note(path, &place, "too-deep", state_text(root_, path) + below_text(path));
            return pathfs::Next::skip;
          }
          return pathfs::Next::go_on;
        case pathfs::FileType::symlink:
          note(path, &place, "symbolic-link");
          return pathfs::Next::go_on;
        case pathfs::FileType::regular:
          note(path, &place, "");
          return pathfs::Next::go_on;
        case pathfs::FileType::absent:
          return pathfs::Next::go_on;
        case pathfs::FileType::other:
          break;
      }
      note(path, &place, "not-a-file", state_text(root_, path));
      return pathfs::Next::go_on;
    };
    const auto walked = pathfs::walk(root_, start, {128, kMaxTreeEntries, kMaxTreeEntries}, visitor);
    if (walked.has_error()) {
      const bool limit = pathfs::is(walked.error(), pathfs::Code::walk_limit);
      note(start, &place, limit ? "too-many" : "unreadable", state_text(root_, start) + below_text(start));
      return {};
    }
    for (const std::string& path : walked.value().unreadable_paths) {
      note(path, &place, "unreadable", state_text(root_, path));
    }
    if (walked.value().unreadable > walked.value().unreadable_paths.size()) {
      note(start, &place, "unreadable", std::to_string(walked.value().unreadable));
    }
    return {};
  }

  // Names, sizes and times of all below a directory that is not looked into.
  [[nodiscard]] std::string below_text(const std::string& path) const {
    std::string text;
    const auto found = pathfs::find(root_, path);
    if (found.has_value()) {
      for (const auto& entry : found.value().entries) {
        text += "\n" + entry.path + '\0' + std::to_string(entry.identity.size) + " " +
                std::to_string(entry.identity.changed_ns);
      }
    }
    return sha256_hex(text);
  }

  int root_;
  const TrustLimits& limits_;
  std::vector<std::string> levels_;  // directories from the top (left out) to the working directory
  std::vector<const TrustPlace*> top_places_, level_places_;
  FirstNames names_;
  std::unordered_map<const TrustPlace*, std::size_t> order_;
  FoundPlaces out_;
};

}  // namespace

std::string state_text(int root, const std::string& path) {
  const auto identity = path.empty() ? pathfs::identify(root) : pathfs::identify_beneath(root, path);
  if (identity.has_error()) {
    return identity.error().code;
  }
  const pathfs::Identity& found = identity.value();
  return std::to_string(static_cast<int>(found.type)) + " " + found.text() + " " +
         std::to_string(found.size) + " " + std::to_string(found.changed_ns);
}

Result<FoundPlaces> find_places(int root, const std::string& subdirectory,
                                const std::vector<TrustPlace>& places, const TrustLimits& limits) {
  return Finder(root, subdirectory, places, limits).run();
}

}  // namespace hitchrail::workspace
