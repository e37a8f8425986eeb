#include "profiles/version.hpp"

#include <regex.h>

#include <algorithm>
#include <array>

#include "core/text.hpp"
#include "profiles/profiles.hpp"

namespace hitchrail::profiles {
namespace {

class Expression {
 public:
  explicit Expression(const std::string& text) {
    valid_ = ::regcomp(&compiled_, text.c_str(), REG_EXTENDED) == 0;
  }
  ~Expression() {
    if (valid_) {
      ::regfree(&compiled_);
    }
  }
  Expression(const Expression&) = delete;
  Expression& operator=(const Expression&) = delete;

  [[nodiscard]] bool valid() const { return valid_; }

  // The first group, else the whole; nothing unless the whole line matches: a part of it would let 10.145.0
  // pass for 0.145.0. POSIX gives the longest of the leftmost matches, so the whole line is found when it can
  // be matched at all.
  [[nodiscard]] std::optional<std::string> match(const std::string& line) const {
    std::array<regmatch_t, 2> groups{};
    if (!valid_ || ::regexec(&compiled_, line.c_str(), groups.size(), groups.data(), 0) != 0 ||
        groups[0].rm_so != 0 || static_cast<std::size_t>(groups[0].rm_eo) != line.size()) {
      return std::nullopt;
    }
    const regmatch_t& group = groups[1].rm_so >= 0 ? groups[1] : groups[0];
    return line.substr(static_cast<std::size_t>(group.rm_so),
                       static_cast<std::size_t>(group.rm_eo - group.rm_so));
  }

 private:
  regex_t compiled_{};
  bool valid_ = false;
};

}  // namespace

std::optional<std::string> check_version_line(const std::string& expression) {
  if (expression.empty()) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < expression.size(); ++i) {
    if (expression[i] == '{') {
      return "holds a counted repetition";
    }
    if (expression[i] == '\\') {
      ++i;
      if (i < expression.size() && expression[i] >= '0' && expression[i] <= '9') {
        return "holds a back reference";
      }
    }
  }
  if (!Expression(expression).valid()) {
    return "is no valid POSIX extended regular expression";
  }
  return std::nullopt;
}

Result<std::string> match_version_line(const SupportProfile& profile, std::string_view first_line) {
  constexpr std::size_t kMaxLine = 300;
  const bool printable = !first_line.empty() && first_line.size() <= kMaxLine && is_valid_utf8(first_line) &&
                         escape_visible(first_line) == first_line;
  std::optional<std::string> version;
  if (printable) {
    const std::string line(first_line);
    version = profile.version_line.empty() ? line : Expression(profile.version_line).match(line);
  }
  if (version) {
    return *version;
  }
  const std::string found = first_line.empty() ? "nothing" : "`" + escape_cut(first_line, 80) + "`";
  return Error{
      ErrorClass::environment,
      "version-line-mismatch",
      "check version",
      profile.command,
      "the version line is " + found + " and must match `" + profile.version_line + "` as a whole",
      "install a version this profile was tested with" +
          (profile.tested_versions.empty() ? std::string() : ": " + profile.tested_versions.front())};
}

Status check_tested_version(const SupportProfile& profile, std::string_view version) {
  const std::vector<std::string>& tested = profile.tested_versions;
  if (tested.empty() || std::find(tested.begin(), tested.end(), version) != tested.end()) {
    return {};
  }
  std::string list;
  for (const std::string& each : tested) {
    list += (list.empty() ? "" : ", ") + each;
  }
  return Error{
      ErrorClass::environment,
      "version-not-tested",
      "check version",
      profile.command,
      "version " + escape_cut(version, 80) + " is none of those this profile was tested with: " + list,
      "install one of them"};
}

}  // namespace hitchrail::profiles
