#include "workspace/trust_table.hpp"

#include <array>

namespace hitchrail::workspace {
namespace {

constexpr std::array<std::string_view, 12> kKinds = {
    "agent-instruction",      "provider-instruction",
    "provider-configuration", "tool-server-configuration",
    "runtime-hook",           "language-server-configuration",
    "workflow-configuration", "extension-configuration",
    "agent-definition",       "skill-definition",
    "project-trust-policy",   "unknown-executable"};

constexpr auto kText = TrustPosture::model_influencing;
constexpr auto kRuns = TrustPosture::executable;

struct Row {
  const char* pattern;
  const char* kind;
  TrustPosture posture;
  bool markdown_influences = false;
  bool harness = true;
};

// The first row that leads to an entry names it: what is known about a directory stands before the row for
// all the rest of it.
constexpr Row kRows[] = {
    {"**/AGENTS.md", "agent-instruction", kText},
    {"**/AGENTS.override.md", "agent-instruction", kText},
    {"**/AGENT.md", "agent-instruction", kText},
    {"**/CLAUDE.md", "provider-instruction", kText},
    {"**/CLAUDE.local.md", "provider-instruction", kText},
    {"**/GEMINI.md", "provider-instruction", kText},
    {"**/QWEN.md", "provider-instruction", kText},
    {".github/copilot-instructions.md", "provider-instruction", kText},
    {".github/instructions/**", "provider-instruction", kText},
    {".github/prompts/**", "provider-instruction", kText},
    {".cursorrules", "provider-instruction", kText},
    {".cursor/rules/**", "provider-instruction", kText},
    {"**/.mcp.json", "tool-server-configuration", kRuns},
    {"**/.codex/config.toml", "provider-configuration", kRuns},
    {"**/.codex/hooks.json", "runtime-hook", kRuns},
    {"**/.codex/rules/**", "provider-configuration", kRuns},
    {"**/.codex/agents/**", "agent-definition", kRuns},
    {"**/.codex/skills/**", "skill-definition", kText},
    {"**/.codex/prompts/**", "agent-definition", kText},
    {"**/.codex/**", "unknown-executable", kRuns},
    {"**/.codex-plugin/**", "extension-configuration", kRuns},
    {"**/.claude/settings.json", "provider-configuration", kRuns},
    {"**/.claude/settings.local.json", "provider-configuration", kRuns},
    {"**/.claude/mcp.json", "tool-server-configuration", kRuns},
    {"**/.claude/hooks/**", "runtime-hook", kRuns},
    {"**/.claude/agents/**", "agent-definition", kText},
    {"**/.claude/commands/**", "agent-definition", kText},
    {"**/.claude/skills/**", "skill-definition", kText},
    {"**/.claude/**", "unknown-executable", kRuns, true},
    {"**/.claude-plugin/**", "extension-configuration", kRuns},
    {"**/.gemini/**", "provider-configuration", kRuns, true},
    {"**/.qwen/**", "provider-configuration", kRuns, true},
    {"**/.agents/skills/**", "skill-definition", kText},
    {"**/.agents/**", "agent-definition", kRuns, true},
    {".agent/**", "agent-definition", kRuns, true},
    {".buzz/**", "provider-configuration", kRuns, true},
    {".grok/**", "provider-configuration", kRuns, true},
    {".grok-build/**", "provider-configuration", kRuns, true},
    {"opencode.json", "provider-configuration", kRuns},
    {"opencode.jsonc", "provider-configuration", kRuns},
    {".opencode/**", "provider-configuration", kRuns, true},
    {".copilot/mcp-config.json", "tool-server-configuration", kRuns},
    {".copilot/**", "unknown-executable", kRuns, true},
    {".github/copilot/mcp.json", "tool-server-configuration", kRuns},
    {".github/copilot/**", "unknown-executable", kRuns, true},
    {".github/hooks/**", "runtime-hook", kRuns},
    {".github/agents/**", "agent-definition", kText},
    {".cursor/**", "provider-configuration", kRuns, true},
    {".cursor-plugin/**", "extension-configuration", kRuns},
    {".vscode/mcp.json", "tool-server-configuration", kRuns},
    // Read by git, editors, package managers and CI, never by a harness on its own.
    {".vscode/settings.json", "language-server-configuration", kRuns, false, false},
    {".vscode/tasks.json", "workflow-configuration", kRuns, false, false},
    {".vscode/extensions.json", "extension-configuration", kRuns, false, false},
    {".vscode/launch.json", "workflow-configuration", kRuns, false, false},
    {".devcontainer/**", "workflow-configuration", kRuns, false, false},
    {".devcontainer.json", "workflow-configuration", kRuns, false, false},
    {".envrc", "runtime-hook", kRuns, false, false},
    {".github/workflows/**", "workflow-configuration", kRuns, false, false},
    {".husky/**", "runtime-hook", kRuns, false, false},
    {package_place, "runtime-hook", kRuns, false, false},
    {policy_place, "project-trust-policy", TrustPosture::declarative_only, false, false},
    {".hitchrail/**", "unknown-executable", kRuns, false, false},
};

Error bad_pattern(std::string_view text, std::string detail) {
  return Error{ErrorClass::usage,
               "trust-pattern",
               "read a place of the worktree",
               std::string(text),
               std::move(detail),
               "for example AGENTS.md, .../AGENTS.md, **/AGENTS.md or .tool/skills/**"};
}

}  // namespace

std::string_view to_string(TrustPosture posture) {
  switch (posture) {
    case TrustPosture::declarative_only:
      return "declarative-only";
    case TrustPosture::model_influencing:
      return "model-influencing";
    case TrustPosture::executable:
      break;
  }
  return "executable";
}

std::string TrustPattern::text() const {
  const std::string_view prefix = reach == PlaceReach::top      ? ""
                                  : reach == PlaceReach::levels ? ".../"
                                                                : "**/";
  return std::string(prefix) + path + (tree ? "/**" : "");
}

Result<TrustPattern> parse_trust_pattern(std::string_view text) {
  TrustPattern out;
  std::string_view rest = text;
  if (text.size() > 500) {
    return bad_pattern(text.substr(0, 80), "It has more than 500 bytes.");
  }
  if (rest.starts_with("**/")) {
    out.reach = PlaceReach::anywhere;
    rest.remove_prefix(3);
  } else if (rest.starts_with(".../")) {
    out.reach = PlaceReach::levels;
    rest.remove_prefix(4);
  }
  if (rest.ends_with("/**")) {
    out.tree = true;
    rest.remove_suffix(3);
  }
  out.path = std::string(rest);
  std::size_t at = 0;
  do {
    const std::size_t end = std::min(rest.find('/', at), rest.size());
    const std::string_view name = rest.substr(at, end - at);
    if (name.empty() || name == "." || name == ".." || name == "..." || name.size() > 255 ||
        name.find_first_of(std::string_view("*?[\\\0", 5)) != std::string_view::npos) {
      return bad_pattern(text, "Its components must be plain names, with ** only at an end.");
    }
    at = end + 1;
  } while (at <= rest.size());
  if (rest == ".git" || rest.starts_with(".git/")) {
    return bad_pattern(text, "A run has a git directory of its own, so nothing of the repository's is read.");
  }
  return out;
}

const std::vector<TrustPlace>& trust_places() {
  static const std::vector<TrustPlace> places = [] {
    std::vector<TrustPlace> out;
    for (const Row& row : kRows) {
      out.push_back({parse_trust_pattern(row.pattern).value(), row.kind, row.posture, row.markdown_influences,
                     row.harness});
    }
    return out;
  }();
  return places;
}

std::span<const std::string_view> trust_kinds() {
  return kKinds;
}

}  // namespace hitchrail::workspace
