// Policy paths: from the forms of a preset to canonical paths with the identity of what is there.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>

#include "boundary/internal.hpp"

namespace hitchrail::boundary {
namespace {

Error path_error(std::string code, const std::string& path, std::string detail, std::string remedy = "") {
  const ErrorClass kind = code == "preset-path-form" ? ErrorClass::usage : ErrorClass::refused;
  return Error{kind, std::move(code), "resolve policy path", path, std::move(detail), std::move(remedy)};
}

Error alias(const std::string& path, std::string detail) {
  return path_error("root-alias", path, std::move(detail),
                    "Name the path itself, without links (see: realpath).");
}

std::optional<std::string> real_path(const std::string& path) {
  char* resolved = ::realpath(path.c_str(), nullptr);
  if (resolved == nullptr) {
    return std::nullopt;
  }
  std::string canonical(resolved);
  std::free(resolved);
  return canonical;
}

// The nearest existing ancestor canonically, and what is missing behind it. A link that leads nowhere is not
// "missing": what it will lead to is decided by whoever makes its target.
Result<PolicyPath> canonicalise(const std::string& path) {
  if (auto whole = real_path(path)) {
    return PolicyPath{*whole, true};
  }
  std::string head = path;
  std::string tail;
  for (;;) {
    if (errno != ENOENT) {
      return path_error(
          errno == ENOTDIR ? "root-not-directory" : "root-alias", path,
          errno == ENOTDIR ? "A file stands where a directory must be." : "It cannot be resolved.");
    }
    struct stat info {};
    if (::lstat(head.c_str(), &info) == 0) {
      return alias(path, "A symbolic link of it leads nowhere.");
    }
    const std::size_t slash = head.rfind('/');
    tail.insert(0, head.substr(slash));
    head.resize(slash == 0 ? 1 : slash);
    if (auto found = real_path(head)) {
      struct stat parent {};
      if (::stat(found->c_str(), &parent) != 0 || !S_ISDIR(parent.st_mode)) {
        return path_error("root-not-directory", path, "A file stands where a directory must be.");
      }
      return PolicyPath{(*found == "/" ? "" : *found) + tail, false};
    }
  }
}

// Every link on the way of an absolute path must be root's and lie where neither a run nor another user makes
// names; compatibility links such as /var/run are.
Status trusted_links(const std::string& path, const std::string& canonical,
                     const std::vector<std::string>& bases) {
  if (path == canonical) {
    return {};
  }
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string prefix = path.substr(0, end);
    struct stat info {};
    if (::lstat(prefix.c_str(), &info) == 0 && S_ISLNK(info.st_mode)) {
      const bool inside = std::any_of(bases.begin(), bases.end(),
                                      [&](const std::string& base) { return contains(base, prefix); });
      struct stat parent {};
      const std::string folder = prefix.substr(0, std::max<std::size_t>(prefix.rfind('/'), 1));
      const bool shared =
          ::stat(folder.c_str(), &parent) != 0 || parent.st_uid != 0 || (parent.st_mode & 0022) != 0;
      if (inside || shared || info.st_uid != 0) {
        return alias(path, "It passes through the link " + prefix + ", which is not the system's own.");
      }
    }
    if (end == std::string::npos) {
      return {};
    }
  }
}

struct Adder {
  const Roots& roots;
  std::vector<std::string>* absent;

  [[nodiscard]] bool is_worktree(const std::string& path) const {
    return roots.worktree && path == roots.worktree->root.path;
  }
  void missing(const std::string& path) const {
    if (absent != nullptr) {
      absent->push_back(path);
    }
  }
  Status to(const std::vector<std::string>& paths, std::vector<Root>& list,
            std::vector<std::string>* gone) const {
    for (const std::string& text : paths) {
      HR_TRY(path, resolve_policy_path(text, roots));
      if (!path.exists) {
        if (gone != nullptr) {
          gone->push_back(path.path);
        } else {
          missing(path.path);
        }
        continue;
      }
      HR_TRY(root, resolve_root(path.path, false));
      const bool listed =
          std::any_of(list.begin(), list.end(), [&](const Root& r) { return r.path == root.path; });
      if (!listed) {
        list.push_back(std::move(root));
      }
    }
    return {};
  }
};

}  // namespace

Result<PolicyPath> resolve_policy_path(const std::string& text, const Roots& roots) {
  std::string base;
  std::string path = text;
  if (text == "<workspace>" || text.rfind("<workspace>/", 0) == 0) {
    if (!roots.worktree) {
      return path_error("preset-path-form", text, "There is no workspace here.");
    }
    base = roots.worktree->root.path;
    path = base + text.substr(11);
  } else if (text == "~" || text.rfind("~/", 0) == 0) {
    const auto home = roots.operator_home.empty() ? std::nullopt : real_path(roots.operator_home);
    if (!home || *home == "/") {
      return path_error("home-unknown", text, "HOME names no directory that ~ could stand for.", "Set HOME.");
    }
    base = *home;
    path = base + text.substr(1);
  }
  if (!canonical_text(path)) {
    return path_error("preset-path-form", text,
                      "A policy path is <workspace>, <workspace>/x, ~, ~/x or absolute, without . and ..");
  }
  HR_TRY(found, canonicalise(path));
  if (!base.empty()) {
    if (!contains(base, found.path)) {
      return alias(text, "Links in it lead out of " + base + ".");
    }
    return found;
  }
  std::vector<std::string> bases;
  if (roots.worktree) {
    bases.push_back(roots.worktree->root.path);
  }
  if (!roots.operator_home.empty() && roots.operator_home != "/") {
    bases.push_back(roots.operator_home);
  }
  HR_CHECK(trusted_links(path, found.path, bases));
  return found;
}

Status add_preset_paths(const Preset& preset, Roots& roots, std::vector<std::string>* absent) {
  const Adder add{roots, absent};
  HR_CHECK(add.to(preset.read_paths, roots.read, nullptr));
  HR_CHECK(add.to(preset.denied_paths, roots.denied, &roots.denied_absent));
  HR_CHECK(add.to(preset.stores, roots.stores, nullptr));
  bool worktree_writable = false;
  for (const std::string& text : preset.write_paths) {
    HR_TRY(path, resolve_policy_path(text, roots));
    if (add.is_worktree(path.path)) {
      worktree_writable = true;
      continue;
    }
    if (!path.exists && roots.worktree && contains(roots.worktree->root.path, path.path)) {
      add.missing(path.path);  // part of a worktree that is writable, or not to be had in one that is not
      continue;
    }
    HR_TRY(root, inspect_writable_root(path.path));
    roots.write.push_back(std::move(root));
  }
  // At equal depth deny, then write, then read: the worktree itself stands in no other list.
  const auto written = [&](const Root& root) {
    return add.is_worktree(root.path) ||
           std::any_of(roots.write.begin(), roots.write.end(),
                       [&](const WritableRoot& w) { return w.root.path == root.path; });
  };
  std::erase_if(roots.read, written);
  roots.worktree_read_only = !worktree_writable;
  return {};
}

// ---- the rules among paths
// ----
namespace {

constexpr std::size_t max_roots = 512;  // as many as the evidence lists

// A deeper grant below something denied is held when the denied path is nowhere inside to begin with; a mask
// over it would cover the grant too.
void judge_denied(Compiled& out) {
  for (const Root& denied : out.denied) {
    const bool visible = std::any_of(out.grants.begin(), out.grants.end(), [&](const Grant& grant) {
      return grant.role != "entry" && contains(grant.source.path, denied.path);
    });
    for (const Grant& grant : out.grants) {
      if (visible && grant.source.path != denied.path && contains(denied.path, grant.source.path)) {
        refuse(
            out, "deny-unproven", denied.path,
            "It is denied inside something granted, and " + grant.source.path + " below it is granted again.",
            "Deny narrower paths, or grant the deeper path's files elsewhere.");
        break;
      }
    }
  }
}

// Landlock's rights only add up: what is writable above cannot be read-only below.
void judge_read_only(const Roots& roots, Compiled& out) {
  if (out.backend != Backend::landlock) {
    return;
  }
  for (const Grant& grant : out.grants) {
    const bool ours =
        grant.role == "read" || (grant.role == "store" && !roots.scan);  // else the scan's to say
    if (grant.writable || !ours) {
      continue;
    }
    for (const Grant& above : out.grants) {
      if (above.writable && contains(above.source.path, grant.source.path)) {
        refuse(out, "read-only-unproven", grant.source.path,
               "The landlock backend cannot hold it read-only inside " + above.source.path +
                   ", which is writable.",
               "Use a machine where the native backend works.");
        break;
      }
    }
  }
}

bool overlay_over(const Roots& roots, const std::string& root) {
  if (roots.worktree && roots.worktree->root.path == root) {
    return roots.worktree->overlay;
  }
  return std::any_of(roots.write.begin(), roots.write.end(),
                     [&](const WritableRoot& each) { return each.root.path == root && each.overlay; });
}

// A denied name that does not exist: at the top of a writable root it is held like an absent protected name
// (nothing can be made there, and nothing is to be read); where no grant leads it needs nothing; elsewhere a
// mount would need a mount point, so it is said.
void hold_absent(const Roots& roots, Compiled& out) {
  for (const std::string& path : roots.denied_absent) {
    const std::size_t slash = path.rfind('/');
    const std::string folder = path.substr(0, slash);
    const Grant* nearest = nullptr;
    for (const Grant& grant : out.grants) {
      if (grant.role != "entry" && contains(grant.source.path, path) &&
          (nearest == nullptr || grant.source.path.size() > nearest->source.path.size())) {
        nearest = &grant;
      }
    }
    if (nearest == nullptr) {
      continue;
    }
    if (nearest->writable && nearest->source.path == folder) {
      const std::string name = path.substr(slash + 1);
      const bool listed = std::any_of(out.protected_names.begin(), out.protected_names.end(),
                                      [&](const Protected& p) { return p.root == folder && p.name == name; });
      if (!listed) {
        const bool overlay = overlay_over(roots, folder) && out.backend == Backend::native;
        out.protected_names.push_back({nearest->target, name, EntryKind::absent, {}, overlay});
        out.overlay = out.overlay || overlay;
      }
      continue;
    }
    out.warnings.push_back(
        {"deny-absent", path + " is denied and does not exist: what appears there during the run is "
                               "not covered."});
  }
}

}  // namespace

void judge_paths(const Roots& roots, Compiled& out) {
  judge_denied(out);
  judge_read_only(roots, out);
  hold_absent(roots, out);
  const auto listed = static_cast<std::size_t>(std::count_if(
      out.grants.begin(), out.grants.end(), [](const Grant& grant) { return grant.role != "entry"; }));
  if (listed + out.denied.size() + 3 > max_roots) {
    refuse(out, "too-many-roots", out.preset_id, "The policy comes to more than 512 roots.",
           "Name fewer paths in the preset, or shorten PATH.");
  }
}

}  // namespace hitchrail::boundary
