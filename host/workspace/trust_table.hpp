#pragma once
// Where a repository can hold what a harness takes as instruction or configuration, or what other programs
// run because of it. One table of places; a profile adds its own.
//
// A place is a pattern below the top of the worktree, its last component `**` for everything below a
// directory:
//   AGENTS.md        at the top of the worktree
//   .../AGENTS.md    in the working directory and in every directory above it up to the top
//   **/AGENTS.md     in any directory
// Names are compared as the kernel resolves them: `agents.md` is another file, except in a directory that
// folds case, where a harness would read it too.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"

namespace hitchrail::workspace {

// What an entry can do by being there. The order is one of weight.
enum class TrustPosture { declarative_only, model_influencing, executable };
std::string_view to_string(TrustPosture posture);

enum class PlaceReach { top, levels, anywhere };

struct TrustPattern {
  PlaceReach reach = PlaceReach::top;
  std::string path;   // relative; without the prefix and without "/**"
  bool tree = false;  // everything below `path`
  [[nodiscard]] std::string text() const;
  bool operator==(const TrustPattern&) const = default;
};
// Error trust-pattern (kind usage): not relative, empty, `.`/`..`/`*` components, more than 500 bytes.
Result<TrustPattern> parse_trust_pattern(std::string_view text);

struct TrustPlace {
  TrustPattern pattern;
  std::string kind;  // "agent-instruction", …: trust_kinds()
  TrustPosture posture = TrustPosture::executable;
  // .md files of this tree influence the model only, whatever the posture of the others.
  bool markdown_influences = false;
  // A harness reads it by itself. False: git, an editor, a package manager or a CI does.
  bool harness = true;
};

// Places with a meaning of their own: of the first only the scripts count that a package manager runs
// unasked, the second is ours.
inline constexpr const char* package_place = ".../package.json";
inline constexpr const char* policy_place = ".hitchrail/workspace-trust.json";

// The built-in places. The first that leads to an entry names it.
const std::vector<TrustPlace>& trust_places();
std::span<const std::string_view> trust_kinds();

// What a profile says of one harness (workspaceFiles). A file on the first list is text for the model here,
// even where the table would rather call it executable because of the directory it lies in; where the table
// has that very place as executable it stays so.
struct TrustFiles {
  bool stated = false;                    // false: every place that harnesses read counts as read
  std::vector<std::string> instructions;  // patterns, taken as text for the model
  std::vector<std::string> executable;    // patterns, run or taken as configuration
};

}  // namespace hitchrail::workspace
