// What git would read below the writable roots that the walk alone does not tell: where `.git` files and the
// `commondir` of a git directory lead.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "boundary/internal.hpp"
#include "boundary/scan_walk.hpp"
#include "core/file.hpp"
#include "pathfs/pathfs.hpp"

namespace hitchrail::boundary {
namespace {

constexpr std::size_t max_git_file = 1u << 20;  // git's own bound

Error refusal(const char* code, std::string object, std::string detail, std::string remedy) {
  return Error{ErrorClass::refused, code, "scan roots", std::move(object), std::move(detail),
               std::move(remedy)};
}

std::string normal_path(const std::string& path) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (begin < path.size()) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    if (part == "..") {
      if (!parts.empty()) {
        parts.pop_back();
      }
    } else if (!part.empty() && part != ".") {
      parts.push_back(part);
    }
    begin = end + 1;
  }
  std::string out;
  for (const std::string& part : parts) {
    out += "/" + part;
  }
  return out.empty() ? "/" : out;
}

// As the kernel, and so git, resolves it; "" when there is nothing.
std::string real_path(const std::string& path) {
  char* resolved = ::realpath(path.c_str(), nullptr);
  std::string out = resolved == nullptr ? "" : resolved;
  std::free(resolved);
  return out;
}

class Follower {
 public:
  Follower(const WalkPlan& plan, const Walked& walked, const std::vector<Root>& denied)
      : plan_(plan), walked_(walked), denied_(denied) {}

  HeldGit run() {
    judge_odd();
    for (const Root& nested : walked_.nested_git) {
      known_.insert(nested.path);
      out_.held.push_back(nested);
    }
    for (const WalkRoot& root : plan_.roots) {
      Stat info;
      const std::string git = joined_path(root.root.path, ".git");
      // A link is the compiler's to refuse (protected-name-symlink).
      if (root.writable && root.protects && root.root.directory && look_at(git, info)) {
        follow(git, info.mode);
      }
    }
    for (const Root& nested : walked_.nested_git) {
      follow(nested.path, nested.directory ? S_IFDIR : S_IFREG);
    }
    std::erase_if(out_.held, [&](const Root& root) {
      return root.path != "/" && covered(root.path.substr(0, root.path.rfind('/')));
    });
    std::sort(out_.held.begin(), out_.held.end(),
              [](const Root& a, const Root& b) { return a.path < b.path; });
    return std::move(out_);
  }

 private:
  void judge_odd() {
    for (const Root& odd : walked_.odd_git) {
      Stat info;
      const bool is_link = look_at(odd.path, info) && S_ISLNK(info.mode);
      out_.refusals.push_back(is_link ? refusal("protected-name-symlink", odd.path,
                                                "A nested git directory is a symbolic link.",
                                                "Replace the link by what it points to.")
                                      : refusal("protected-name-type", odd.path,
                                                "A `.git` is neither a file nor a directory.", "Remove it."));
    }
    for (const std::string& root : walked_.bare_roots) {
      refuse_root(root);
    }
  }

  void refuse_root(const std::string& root) {
    out_.refusals.push_back(refusal("nested-git-root", root,
                                    "A folder that the run may write is itself a git directory, or the "
                                    "common directory of one below it.",
                                    "Grant the worktree, not its repository."));
  }

  // ---- what git follows
  void follow(const std::string& path, std::uint32_t mode) {
    if (S_ISDIR(mode)) {
      follow_common(path);
    } else if (S_ISREG(mode)) {
      follow_git_file(path);
    }
  }

  // A `.git` file may name a git directory that lies where the run may write: that one is held too.
  void follow_git_file(const std::string& path) {
    const std::string text = read(path);
    constexpr std::string_view prefix = "gitdir: ";
    if (!text.starts_with(prefix)) {
      return;
    }
    const std::string git = hold(path, text.substr(prefix.size()));
    if (!git.empty()) {
      follow_common(git);
    }
  }

  // Configuration and hooks of a linked worktree are those of the common directory.
  void follow_common(const std::string& git) {
    const std::string file = joined_path(git, "commondir");
    Stat info;
    if (!look_at(file, info)) {
      return;
    }
    if (S_ISLNK(info.mode)) {
      out_.refusals.push_back(refusal("protected-name-symlink", file,
                                      "The file that names the common git directory is a symbolic link.",
                                      "Replace the link by what it points to."));
    } else if (S_ISREG(info.mode)) {
      (void)hold(file, read(file));
    }
  }

  std::string read(const std::string& path) {
    auto opened = pathfs::open_absolute(path, O_RDONLY | O_NONBLOCK);
    Stat found;
    if (opened.has_error() || !look(opened.value().get(), "", found) || !S_ISREG(found.mode)) {
      return "";  // gone, or closed to us and so to the run; the second look compares
    }
    auto text = read_all(opened.value().get(), max_git_file);
    if (text.has_error()) {
      out_.refusals.push_back(
          refusal("protected-name-type", path, "A file of git is larger than git writes any.", "Remove it."));
      return "";
    }
    while (!text.value().empty() && (text.value().back() == '\n' || text.value().back() == '\r')) {
      text.value().pop_back();
    }
    return std::move(text).value();
  }

  // Holds what `file` names where the run could write it. Returns its real path, "" when there is nothing.
  std::string hold(const std::string& file, const std::string& target) {
    if (target.empty() || target.find('\0') != std::string::npos) {
      return "";
    }
    const std::string named =
        target.starts_with('/') ? target : file.substr(0, file.rfind('/')) + "/" + target;
    const std::string plain = normal_path(named);
    std::string real = real_path(named);
    if (real.empty()) {
      return "";
    }
    if (real != plain && written(plain)) {
      out_.refusals.push_back(refusal("protected-name-symlink", file,
                                      "Its git directory is reached through a symbolic link.",
                                      "Run: git submodule absorbgitdirs, or remove the link."));
      return "";
    }
    if (std::any_of(plan_.roots.begin(), plan_.roots.end(),
                    [&](const WalkRoot& root) { return root.writable && root.root.path == real; })) {
      refuse_root(real);
      return "";
    }
    if (written(real) && !covered(real)) {
      auto root = resolve_root(real, false);
      if (root.has_value()) {
        known_.insert(real);
        out_.held.push_back(std::move(root).value());
        out_.followed.push_back(real);
      }
    }
    return real;
  }

  // This path or a directory above it is held already.
  [[nodiscard]] bool covered(std::string path) const {
    while (path.size() > 1) {
      if (known_.count(path) != 0) {
        return true;
      }
      path.resize(path.rfind('/'));
    }
    return false;
  }

  [[nodiscard]] bool written(const std::string& path) const {
    for (const WalkRoot& root : plan_.roots) {
      if (!root.writable || !contains(root.root.path, path) || root.root.path == path) {
        continue;
      }
      const bool held =
          std::any_of(protected_names().begin(), protected_names().end(),
                      [&](const char* name) { return contains(joined_path(root.root.path, name), path); });
      const bool denied = std::any_of(denied_.begin(), denied_.end(),
                                      [&](const Root& each) { return contains(each.path, path); });
      if (!held && !denied) {
        return true;
      }
    }
    return false;
  }

  const WalkPlan& plan_;
  const Walked& walked_;
  const std::vector<Root>& denied_;
  std::set<std::string> known_;
  HeldGit out_;
};

}  // namespace

HeldGit held_git(const WalkPlan& plan, const Walked& walked, const std::vector<Root>& denied) {
  return Follower(plan, walked, denied).run();
}

}  // namespace hitchrail::boundary
