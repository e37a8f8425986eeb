// scan(): the walk's findings, judged. Where git directories lead is scan_git.cpp's.
#include "boundary/scan.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "boundary/internal.hpp"
#include "boundary/preset.hpp"
#include "boundary/scan_walk.hpp"
#include "core/canonical.hpp"
#include "core/file.hpp"
#include "core/text.hpp"
#include "pathfs/pathfs.hpp"

namespace hitchrail::boundary {
namespace {

constexpr std::size_t shown_names = 3;

Error refusal(const char* code, std::string object, std::string detail, std::string remedy) {
  return Error{ErrorClass::refused, code, "scan roots", std::move(object), std::move(detail),
               std::move(remedy)};
}

bool lies_in_any(const std::vector<Root>& roots, const std::string& path) {
  return std::any_of(roots.begin(), roots.end(), [&](const Root& root) { return contains(root.path, path); });
}

std::string first_names(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < shown_names; ++i) {
    text += (i == 0 ? "" : ", ") + escape_cut(names[i], 200);
  }
  return names.size() > shown_names ? text + ", …" : text;
}

// ---- where the names of a linked file are that the walk did not see
struct Elsewhere {
  std::uint64_t masked = 0;
  std::uint64_t held = 0;
};

class Search {
 public:
  Search(const Walked& walked, std::size_t budget) : budget_(budget) {
    for (const auto& [inode, linked] : walked.linked) {
      if (linked.seen < linked.links) {
        wanted_[inode];
      }
    }
  }

  void below(const Root& place, bool masked) {
    auto opened = pathfs::open_absolute(place.path, O_PATH);
    Stat info;
    if (opened.has_error() || !look(opened.value().get(), "", info)) {
      return;
    }
    count(info, masked);
    if (!S_ISDIR(info.mode)) {
      return;
    }
    std::vector<std::string> waiting{""};
    while (!waiting.empty() && budget_ > 0) {
      const std::string path = std::move(waiting.back());
      waiting.pop_back();
      const Fd directory = open_below(opened.value().get(), path, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
      if (!directory) {
        continue;
      }
      (void)list_names(directory.get(), [&](const char* name, unsigned char type) {
        if (budget_ == 0) {
          return false;
        }
        --budget_;
        Stat found;
        if (type == DT_DIR) {
          waiting.push_back(joined_path(path, name));
        } else if (type != DT_LNK && look(directory.get(), name, found)) {
          if (S_ISDIR(found.mode)) {
            waiting.push_back(joined_path(path, name));
          }
          count(found, masked);
        }
        return true;
      });
    }
  }

  [[nodiscard]] bool needed() const { return !wanted_.empty(); }
  [[nodiscard]] Elsewhere of(const Inode& inode) const {
    const auto found = wanted_.find(inode);
    return found == wanted_.end() ? Elsewhere{} : found->second;
  }

 private:
  static constexpr unsigned char DT_DIR = 4;
  static constexpr unsigned char DT_LNK = 10;

  void count(const Stat& info, bool masked) {
    const auto found = wanted_.find({info.identity.dev, info.identity.ino});
    if (found != wanted_.end() && !S_ISDIR(info.mode)) {
      ++(masked ? found->second.masked : found->second.held);
    }
  }

  std::map<Inode, Elsewhere> wanted_;
  std::size_t budget_;
};

// ---- the scan
class Scanner {
 public:
  Scanner(const Preset& preset, const Roots& roots, const ScanLimits& limits)
      : preset_(preset), roots_(roots), limits_(limits) {}

  Result<Scan> run() {
    memory_ = std::make_shared<ScanMemory>();
    memory_->preset = preset_;
    memory_->roots = roots_;
    memory_->roots.scan.reset();
    memory_->limits = limits_;
    plan();
    HR_TRY(mounts, read_mounts());
    scan_.topology = mount_topology(mounts, memory_->granted);
    HR_TRY(walked, walk(memory_->plan));
    git_ = held_git(memory_->plan, walked, roots_.denied);
    if (!git_.followed.empty()) {  // held, so none of its files counts as a writable name
      memory_->plan.stop.insert(git_.followed.begin(), git_.followed.end());
      std::vector<Root> dotfiles = std::move(walked.dotfiles);
      HR_TRY(without, walk(memory_->plan));
      walked = std::move(without);
      walked.dotfiles = std::move(dotfiles);
    }
    memory_->directories = std::move(walked.directories);
    scan_.entries = walked.entries;
    if (walked.over) {
      scan_.refusals.push_back(refusal(
          "hard-link-limit", memory_->plan.roots.front().root.path,
          "More than " + std::to_string(limits_.max_entries) + " entries lie below the granted roots.",
          "Use a smaller worktree, or deny a folder that the run does not need (deniedPaths)."));
    }
    judge_unreadable(walked);
    judge_set_id(walked);
    judge_links(walked);
    judge_sockets(walked);
    judge_mounts(mounts);
    take_nested_git();
    take_dotfiles(walked);
    scan_.memory = std::move(memory_);
    return std::move(scan_);
  }

 private:
  void plan() {
    WalkPlan& plan = memory_->plan;
    const auto add = [&](const Root& root, bool writable, bool protects, bool walk) {
      memory_->granted.push_back(root);
      if (walk) {
        plan.roots.push_back({root, writable, protects});
      }
    };
    plan.masking = preset_.dotfile_masking;
    if (roots_.worktree) {
      const bool writable = !roots_.worktree_read_only;
      add(roots_.worktree->root, writable, true, writable || plan.masking);
    }
    for (const WritableRoot& root : roots_.write) {
      add(root.root, true, true, true);
    }
    for (const Root& root : roots_.read) {
      add(root, false, false, plan.masking);
    }
    for (const auto* list : {&roots_.stores, &roots_.packages}) {
      for (const Root& root : *list) {
        add(root, false, false, false);
      }
    }
    for (const Root& root : memory_->granted) {
      plan.stop.insert(root.path);
    }
    for (const Root& root : roots_.denied) {
      plan.stop.insert(root.path);
    }
    // Only what lies below a walked root can be met.
    std::erase_if(plan.stop, [&](const std::string& path) {
      return std::none_of(plan.roots.begin(), plan.roots.end(), [&](const WalkRoot& root) {
        return root.root.path != path && contains(root.root.path, path);
      });
    });
    plan.max_entries = limits_.max_entries;
    const unsigned processors = std::max(1u, std::thread::hardware_concurrency());
    plan.threads = limits_.threads != 0 ? limits_.threads : std::min(8u, processors);
  }

  void judge_unreadable(const Walked& walked) {
    if (!walked.unreadable.empty()) {
      scan_.refusals.push_back(refusal(
          "scan-unreadable", walked.unreadable.front(),
          std::to_string(walked.unreadable.size()) +
              " directories cannot be looked into, and the run could open them up: " +
              first_names(walked.unreadable),
          "Give yourself read and search permission there (chmod u+rx), or deny the folder (deniedPaths)."));
    }
  }

  // Writing through a mapping leaves the bits in place: what the run puts there would run as the file's
  // owner.
  void judge_set_id(const Walked& walked) {
    if (!walked.set_id.empty()) {
      scan_.refusals.push_back(refusal(
          "set-id-inside", walked.set_id.front(),
          std::to_string(walked.set_id.size()) +
              " files that the run may write are set-user-id or set-group-id, and whoever starts them would "
              "run what the run wrote: " +
              first_names(walked.set_id),
          "Take the bits away (chmod ug-s), or deny the folder (deniedPaths)."));
    }
  }

  void judge_links(const Walked& walked) {
    Search search(walked, limits_.max_entries);
    if (!search.needed()) {
      return;
    }
    for (const WalkRoot& root : memory_->plan.roots) {
      for (const char* name : protected_names()) {
        if (root.protects) {
          search.below(Root{joined_path(root.root.path, name), {}, true, 0, 0}, false);
        }
      }
    }
    for (const auto* list : {&std::as_const(git_.held), &roots_.stores}) {
      for (const Root& place : *list) {
        search.below(place, false);
      }
    }
    for (const Root& place : walked.dotfiles) {
      search.below(place, true);
    }
    std::vector<std::string> outside;
    std::vector<std::string> held;
    std::uint64_t missing = 0;
    for (const auto& [inode, linked] : walked.linked) {
      const Elsewhere elsewhere = search.of(inode);
      if (linked.seen + elsewhere.masked >= linked.links) {
        continue;
      }
      missing += linked.links - linked.seen - elsewhere.masked;
      (linked.seen + elsewhere.masked + elsewhere.held < linked.links ? outside : held)
          .push_back(linked.first);
    }
    say_links("hard-link-outside", outside, missing, "that lie outside what the run may write");
    say_links("hard-link-protected", held, missing, "that the run may only read");
  }

  void say_links(const char* code, std::vector<std::string>& files, std::uint64_t missing,
                 const char* where) {
    if (files.empty()) {
      return;
    }
    std::sort(files.begin(), files.end());
    scan_.refusals.push_back(
        refusal(code, files.front(),
                std::to_string(files.size()) + " files that the run may write have other names (" +
                    std::to_string(missing) + " in all) " + where + ": " + first_names(files),
                "Copy them (cp --remove-destination FILE{,}; for pnpm: package-import-method=copy), or "
                "declare the folder of linked packages as a store of the preset (stores)."));
  }

  void judge_sockets(const Walked& walked) {
    if (auto found = listening(*memory_, walked.dotfiles, walked.sockets)) {
      scan_.refusals.push_back(std::move(*found));
    }
  }

  void judge_mounts(const std::vector<Mount>& mounts) {
    for (const Mount& mount : mounts) {
      const auto is = [&](const Root& root) { return root.path == mount.point; };
      const auto& granted = memory_->granted;
      if (lies_in_any(granted, mount.point) && std::none_of(granted.begin(), granted.end(), is) &&
          !lies_in_any(roots_.denied, mount.point)) {
        scan_.refusals.push_back(
            refusal("nested-mount", mount.point, "Another file system is mounted inside a granted root.",
                    "Unmount it, deny it (deniedPaths), or grant that very folder by itself."));
        return;
      }
    }
  }

  // ---- nested git
  void take_nested_git() {
    scan_.refusals.insert(scan_.refusals.end(), git_.refusals.begin(), git_.refusals.end());
    scan_.nested_git = std::move(git_.held);
    if (scan_.nested_git.size() > limits_.max_nested_git) {
      scan_.refusals.push_back(
          refusal("nested-git-limit", scan_.nested_git[limits_.max_nested_git].path,
                  std::to_string(scan_.nested_git.size()) +
                      " git directories lie below the top level, more "
                      "than the " +
                      std::to_string(limits_.max_nested_git) + " that one launch can hold.",
                  "Use a worktree with fewer repositories in it, or deny their folder (deniedPaths)."));
      scan_.nested_git.resize(limits_.max_nested_git);
    }
  }

  void take_dotfiles(Walked& walked) {
    std::size_t bytes = 0;
    for (const Root& each : walked.dotfiles) {
      bytes += each.path.size();
    }
    if (walked.dotfiles.size() > limits_.max_masks || bytes > limits_.max_mask_bytes) {
      scan_.refusals.push_back(
          refusal("dotfile-mask-limit", walked.dotfiles.front().path,
                  std::to_string(walked.dotfiles.size()) + " dotfiles (" + std::to_string(bytes) +
                      " bytes of paths) would have to be covered, more than " +
                      std::to_string(limits_.max_masks) + ".",
                  "Deny or declare as stores the folders that hold them, or use a preset without "
                  "dotfileMasking."));
      walked.dotfiles.resize(std::min(walked.dotfiles.size(), limits_.max_masks));
    }
    scan_.masks = std::move(walked.dotfiles);
  }

  const Preset& preset_;
  const Roots& roots_;
  const ScanLimits& limits_;
  std::shared_ptr<ScanMemory> memory_;
  HeldGit git_;
  Scan scan_;
};

}  // namespace

std::optional<Error> listening(const ScanMemory& memory, const std::vector<Root>& masks,
                               std::vector<Root> sockets) {
  const Roots& roots = memory.roots;
  const auto hidden = [&](const std::string& path) {
    if (lies_in_any(roots.denied, path) || (memory.plan.masking && lies_in_any(masks, path))) {
      return true;
    }
    // Of its git directory the run sees a private one.
    return roots.git_objects && roots.worktree && contains(roots.worktree->root.path + "/.git", path);
  };
  for (Root& known : known_sockets(memory.granted)) {
    sockets.push_back(std::move(known));
  }
  for (const Root& socket : sockets) {
    if (!hidden(socket.path) && somebody_listens(socket)) {
      return refusal(
          "listening-socket", socket.path,
          "A program outside the boundary listens on this socket, and the run could connect to it.",
          "End that program, move its socket, or deny the folder (deniedPaths).");
    }
  }
  return std::nullopt;
}

std::string mount_topology(const std::vector<Mount>& mounts, const std::vector<Root>& granted) {
  std::set<std::string> lines;
  for (const Mount& mount : mounts) {
    if (lies_in_any(granted, mount.point)) {
      lines.insert(std::to_string(mount.id) + ' ' + mount.device + ' ' + mount.root + ' ' + mount.point +
                   '\0');
    }
  }
  std::string all;
  for (const std::string& line : lines) {
    all += line;
  }
  return sha256_prefixed(all);
}

Result<Scan> scan(const Preset& preset, const Roots& roots, const ScanLimits& limits) {
  return Scanner(preset, roots, limits).run();
}

}  // namespace hitchrail::boundary
