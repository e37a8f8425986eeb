#pragma once
// A reader of git's configuration format, so that a repository can be judged before any git runs. Includes
// are never followed.

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/result.hpp"

namespace hitchrail::workspace {

class GitConfig {
 public:
  // Code worktree-metadata-unsafe when git would not accept the text either. `what` names the file.
  static Result<GitConfig> parse(std::string_view text, const std::string& what);
  // Keys are "section.name" or "section.SubSection.name", section and name in lower case. The last value
  // wins.
  [[nodiscard]] std::optional<std::string> get(std::string_view key) const;
  [[nodiscard]] bool get_bool(std::string_view key, bool otherwise) const;
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& entries() const { return entries_; }
  void append(const GitConfig& later);

 private:
  std::vector<std::pair<std::string, std::string>> entries_;
};

// One "name = value" line, quoted so that git reads back exactly this value.
std::string config_line(std::string_view name, std::string_view value);

}  // namespace hitchrail::workspace
