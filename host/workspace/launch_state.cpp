#include "workspace/launch_state.hpp"

#include "core/canonical.hpp"
#include "core/json.hpp"
#include "workspace/refs.hpp"

namespace hitchrail::workspace {

std::string launch_state(const Worktree& worktree) {
  json::Value out = json::Value::object();
  out.set("identity", worktree.identity());
  out.set("root", path_value(worktree.root));
  out.set("objectFormat", worktree.object_format);
  return json::write(out) + "\n";
}

Error refused_change(const std::string& object, const std::string& detail) {
  return Error{ErrorClass::refused,  "worktree-changed", "open worktree", object, detail,
               "start the run again"};
}

Status check_launch_state(int base_fd, const Worktree& worktree) {
  HR_TRY(text, read_metadata(base_fd, launch_state_name, 64u << 10));
  if (text.empty()) {
    return Error{ErrorClass::environment,
                 "git-base-missing",
                 "read launch state",
                 launch_state_name,
                 "the attempt holds no git state of its launch",
                 ""};
  }
  HR_TRY(state, json::parse(text, json::Duplicates::refuse, launch_state_name));
  if (state.get("identity").as_string() != worktree.identity()) {
    return Error{ErrorClass::refused,
                 "worktree-changed",
                 "read launch state",
                 worktree.root,
                 "another directory or repository stands where the run's worktree was",
                 ""};
  }
  return {};
}

}  // namespace hitchrail::workspace
