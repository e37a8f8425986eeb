#include "workspace/git_config.hpp"

#include <algorithm>

namespace hitchrail::workspace {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
}

class Scanner {
 public:
  Scanner(std::string_view text, const std::string& what) : text_(text), what_(what) {
    if (text_.substr(0, 3) == "\xef\xbb\xbf") {
      at_ = 3;
    }
  }

  Result<std::vector<std::pair<std::string, std::string>>> run() {
    std::vector<std::pair<std::string, std::string>> out;
    while (true) {
      skip_blank();
      if (at_ >= text_.size()) {
        return out;
      }
      if (text_[at_] == '[') {
        HR_CHECK(section());
        continue;
      }
      HR_TRY(entry, variable());
      out.push_back(std::move(entry));
    }
  }

 private:
  Error bad(const std::string& detail) const {
    const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n');
    return Error{ErrorClass::refused,
                 "worktree-metadata-unsafe",
                 "read git configuration",
                 what_ + ":" + std::to_string(line),
                 detail,
                 "run `git config --list` there: git does not accept this file either"};
  }

  bool end() const { return at_ >= text_.size(); }
  bool at_line_end() const { return end() || text_[at_] == '\n'; }

  void skip_blank() {
    while (!end()) {
      const char c = text_[at_];
      if (c == '#' || c == ';') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
        ++at_;
      } else {
        return;
      }
    }
  }

  Status section() {
    ++at_;
    section_.clear();
    while (!end() && (is_name(text_[at_]) || text_[at_] == '.')) {
      section_ += lower(text_[at_++]);
    }
    if (end() || section_.empty()) {
      return bad("an unfinished section header");
    }
    if (text_[at_] == ' ' || text_[at_] == '\t') {
      HR_CHECK(subsection());
    }
    if (end() || text_[at_] != ']') {
      return bad("a malformed section header");
    }
    ++at_;
    return {};
  }

  Status subsection() {
    while (!at_line_end() && (text_[at_] == ' ' || text_[at_] == '\t')) {
      ++at_;
    }
    if (end() || text_[at_] != '"') {
      return bad("a malformed section header");
    }
    ++at_;
    section_ += '.';
    while (!at_line_end() && text_[at_] != '"') {
      if (text_[at_] == '\\') {
        ++at_;
        if (at_line_end()) {
          break;
        }
      }
      section_ += text_[at_++];
    }
    if (at_line_end()) {
      return bad("an unfinished subsection name");
    }
    ++at_;
    return {};
  }

  Result<std::pair<std::string, std::string>> variable() {
    std::string name;
    while (!end() && is_name(text_[at_])) {
      name += lower(text_[at_++]);
    }
    if (name.empty() || section_.empty()) {
      return bad("a line that is neither a section nor a variable");
    }
    while (!at_line_end() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r')) {
      ++at_;
    }
    std::string key = section_ + "." + name;
    if (at_line_end() || text_[at_] == '#' || text_[at_] == ';') {
      at_ = std::min(text_.find('\n', at_), text_.size());
      return std::pair<std::string, std::string>(std::move(key), "true");  // a bare name is a true boolean
    }
    if (text_[at_] != '=') {
      return bad("\"=\" is missing after the variable's name");
    }
    ++at_;
    HR_TRY(text, value());
    return std::pair<std::string, std::string>(std::move(key), std::move(text));
  }

  Result<std::string> value() {
    std::string out;
    std::size_t keep = 0;  // trailing blanks outside quotes do not belong to the value
    bool quoted = false;
    while (true) {
      if (at_line_end()) {
        if (quoted) {
          return bad("an unfinished quoted value");
        }
        break;
      }
      const char c = text_[at_++];
      if (!quoted && (c == '#' || c == ';')) {
        at_ = std::min(text_.find('\n', at_), text_.size());
        break;
      }
      if (!quoted && (c == ' ' || c == '\t' || c == '\r')) {
        if (!out.empty()) {
          out += c;
        }
        continue;
      }
      if (c == '"') {
        quoted = !quoted;
      } else if (c == '\\') {
        HR_CHECK(escape(out));
      } else {
        out += c;
      }
      keep = out.size();
    }
    out.resize(keep);
    return out;
  }

  Status escape(std::string& out) {
    if (end()) {
      return bad("an unfinished escape");
    }
    const char c = text_[at_++];
    switch (c) {
      case '\n':
        return {};
      case '\r':
        if (!end() && text_[at_] == '\n') {
          ++at_;
          return {};
        }
        break;
      case 'n':
        out += '\n';
        return {};
      case 't':
        out += '\t';
        return {};
      case 'b':
        out += '\b';
        return {};
      case '"':
      case '\\':
        out += c;
        return {};
      default:
        break;
    }
    return bad("an unknown escape in a value");
  }

  std::string_view text_;
  const std::string& what_;
  std::size_t at_ = 0;
  std::string section_;
};

}  // namespace

Result<GitConfig> GitConfig::parse(std::string_view text, const std::string& what) {
  HR_TRY(entries, Scanner(text, what).run());
  GitConfig config;
  config.entries_ = std::move(entries);
  return config;
}

std::optional<std::string> GitConfig::get(std::string_view key) const {
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
    if (entry->first == key) {
      return entry->second;
    }
  }
  return std::nullopt;
}

bool GitConfig::get_bool(std::string_view key, bool otherwise) const {
  const std::optional<std::string> value = get(key);
  if (!value) {
    return otherwise;
  }
  std::string text = *value;
  std::transform(text.begin(), text.end(), text.begin(), lower);
  if (text.empty() || text == "false" || text == "no" || text == "off" || text == "0") {
    return false;
  }
  return true;
}

void GitConfig::append(const GitConfig& later) {
  entries_.insert(entries_.end(), later.entries_.begin(), later.entries_.end());
}

std::string config_line(std::string_view name, std::string_view value) {
  std::string out = "\t" + std::string(name) + " = \"";
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else {
      out += c;
    }
  }
  return out + "\"\n";
}

}  // namespace hitchrail::workspace
