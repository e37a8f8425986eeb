// What a task asks to be allowed to do, cut to what the launch allows.

#include <algorithm>

#include "core/text.hpp"
#include "manifest/envelope_parts.hpp"

namespace hitchrail::manifest {
namespace {

bool has_path_scope(std::string_view kind) {
  return kind == "filesystem-write" || kind == "process-execute" || kind == "git-commit" ||
         kind == "artifact-write";
}

// By its text alone: the scope says what is meant, the boundary decides what a link leads to.
std::string normal_path(std::string_view path) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, end - at);
    if (part == ".." && !parts.empty()) {
      parts.pop_back();
    } else if (!part.empty() && part != "." && part != "..") {
      parts.push_back(part);
    }
    at = end + 1;
  }
  std::string out;
  for (const std::string_view part : parts) {
    out.append("/").append(part);
  }
  return out.empty() ? "/" : out;
}

bool contains(std::string_view folder, std::string_view path) {
  return folder == "/" || path == folder ||
         (path.size() > folder.size() && path.substr(0, folder.size()) == folder &&
          path[folder.size()] == '/');
}

Finding finding(const char* code, const SideEffect& effect, const std::string& why, const char* remedy) {
  return {code, "allowedSideEffects", effect.kind + " at " + escape_cut(effect.scope, 200) + ": " + why,
          remedy};
}

}  // namespace

std::vector<SideEffect> default_effects(const TaskEnvelopeInput& input) {
  std::vector<SideEffect> out = {{"filesystem-write", input.worktree_path},
                                 {"process-execute", input.worktree_path}};
  if (input.commit_policy != "forbidden") {
    out.push_back({"git-commit", input.worktree_path});
  }
  if (input.network) {
    out.push_back({"network-egress", "sandbox policy"});
  }
  for (const Requirement& artifact :
       evaluate_requirements(input.runtime_manifest, {"artifact.write"}, true)) {
    if (artifact.satisfied) {
      out.push_back({"artifact-write", input.worktree_path});
    }
  }
  return out;
}

std::vector<SideEffect> effective_effects(const TaskEnvelopeInput& input, std::vector<Finding>& warnings) {
  const std::vector<SideEffect> defaults = default_effects(input);
  if (!input.task.side_effects) {
    return defaults;
  }
  const std::string root = normal_path(input.worktree_path);
  std::vector<SideEffect> out;
  for (const SideEffect& wanted : *input.task.side_effects) {
    SideEffect kept = wanted;
    const bool allowed = std::any_of(defaults.begin(), defaults.end(),
                                     [&](const SideEffect& effect) { return effect.kind == wanted.kind; });
    if (!allowed) {
      warnings.push_back(finding("side-effect-dropped", wanted, "this launch does not allow that kind",
                                 wanted.kind == "network-egress" ? "choose a preset with network"
                                                                 : "remove it from the task's sideEffects"));
      continue;
    }
    if (has_path_scope(wanted.kind)) {
      kept.scope = normal_path(wanted.scope.front() == '/' ? wanted.scope : root + "/" + wanted.scope);
      if (!contains(root, kept.scope) && !contains(kept.scope, root)) {
        warnings.push_back(finding("side-effect-dropped", wanted, "it is outside the worktree",
                                   "name a path below the worktree"));
        continue;
      }
      if (!contains(root, kept.scope)) {
        warnings.push_back(finding("side-effect-clamped", wanted,
                                   "it reaches over the worktree, to which it is cut",
                                   "name the worktree: `.`"));
        kept.scope = root;
      }
    }
    const bool there = std::any_of(out.begin(), out.end(), [&](const SideEffect& effect) {
      return effect.kind == kept.kind && effect.scope == kept.scope;
    });
    if (!there) {
      out.push_back(std::move(kept));
    }
  }
  return out;
}

}  // namespace hitchrail::manifest
