// What the scan found, taken into the compiled boundary.
#include <algorithm>

#include "boundary/internal.hpp"
#include "boundary/scan.hpp"

namespace hitchrail::boundary {
namespace {

// A Landlock rule on a folder covers all below it: nothing there can be held read-only or be covered.
void judge_landlock(const Preset& preset, const Scan& scan, Compiled& out) {
  const char* native = "Use a machine where the native backend works (hitchrail doctor).";
  if (preset.dotfile_masking) {
    refuse(out, "capability-unproven", "backend landlock",
           "The preset masks dotfiles (dotfileMasking), and the landlock backend cannot cover any.", native);
  }
  if (!scan.nested_git.empty()) {
    refuse(out, "nested-git-unproven", scan.nested_git.front().path,
           "The landlock backend cannot hold a git directory below the top level (" +
               std::to_string(scan.nested_git.size()) + " here) read-only.",
           native);
  }
  for (const Grant& inner : out.grants) {
    for (const Grant& outer : out.grants) {
      if (inner.role == "store" && outer.writable && contains(outer.source.path, inner.source.path)) {
        refuse(out, "read-only-unproven", inner.source.path,
               "The landlock backend cannot hold it read-only inside " + outer.source.path + ".", native);
        return;
      }
    }
  }
}

}  // namespace

void take_scan(const Preset& preset, const Roots& roots, Compiled& out) {
  out.dotfile_masking = preset.dotfile_masking;
  if (!roots.scan) {
    if (preset.dotfile_masking) {
      out.blockers.push_back({Error{ErrorClass::internal, "scan-missing", "compile boundary", preset.id,
                                    "The preset masks dotfiles and the roots were not scanned.", ""}});
    }
    return;
  }
  for (const Error& refusal : roots.scan->refusals) {
    out.blockers.push_back({refusal});
  }
  out.scan = roots.scan;
  if (out.backend == Backend::landlock) {
    judge_landlock(preset, *roots.scan, out);
    return;
  }
  out.masks = roots.scan->masks;
  out.nested_git = roots.scan->nested_git;
}

}  // namespace hitchrail::boundary
