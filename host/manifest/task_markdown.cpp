#include "manifest/task_markdown.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "core/text.hpp"

namespace hitchrail::manifest {
namespace {

struct Line {
  std::string_view text;  // without the line feed, and without a carriage return before it
  int number = 0;
};

std::vector<Line> lines_of(std::string_view bytes) {
  std::vector<Line> lines;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t end = std::min(bytes.find('\n', at), bytes.size());
    std::string_view text = bytes.substr(at, end - at);
    if (!text.empty() && text.back() == '\r') {
      text.remove_suffix(1);
    }
    lines.push_back({text, static_cast<int>(lines.size()) + 1});
    at = end + 1;
  }
  return lines;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t from = text.find_first_not_of(" \t");
  const std::size_t to = text.find_last_not_of(" \t");
  return from == std::string_view::npos ? std::string_view() : text.substr(from, to - from + 1);
}

bool blank(std::string_view text) {
  return trimmed(text).empty();
}

bool is_fence_line(std::string_view line) {
  return trimmed(line) == "---" && line.substr(0, 3) == "---";
}

// CommonMark's fenced code: three or more of one mark, closed by at least as many and nothing after.
class Fence {
 public:
  // True for a line that is inside a fence, or opens or ends one.
  bool covers(std::string_view line) {
    const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
    const std::string_view rest = line.substr(indent);
    const char mark = rest.empty() ? '\0' : rest.front();
    const std::size_t run =
        mark == '`' || mark == '~' ? std::min(rest.find_first_not_of(mark), rest.size()) : 0;
    const std::string_view after = rest.substr(run);
    if (length_ > 0) {
      if (indent <= 3 && mark == mark_ && run >= length_ && blank(after)) {
        length_ = 0;
      }
      return true;
    }
    if (indent <= 3 && run >= 3 && (mark == '~' || after.find('`') == std::string_view::npos)) {
      mark_ = mark;
      length_ = run;
      return true;
    }
    return false;
  }

 private:
  char mark_ = '\0';
  std::size_t length_ = 0;
};

struct Section {
  std::string_view name;  // "" = what stands before the first section
  int line = 0;
  std::vector<Line> lines;
};

constexpr std::array<std::string_view, 3> kSections = {"Background", "Constraints", "Acceptance criteria"};

std::optional<std::string_view> known_section(std::string_view heading) {
  const auto lower = [](std::string_view text) {
    std::string out(text);
    std::transform(out.begin(), out.end(), out.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    return out;
  };
  for (const std::string_view section : kSections) {
    if (lower(section) == lower(heading)) {
      return section;
    }
  }
  return std::nullopt;
}

// 1 or 2 for "# …" and "## …", else 0.
int heading_level(std::string_view line) {
  const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
  line.remove_prefix(indent);
  const std::size_t marks = std::min(line.find_first_not_of('#'), line.size());
  const bool heading = indent <= 3 && marks >= 1 && marks <= 2 &&
                       (marks == line.size() || line[marks] == ' ' || line[marks] == '\t');
  return heading ? static_cast<int>(marks) : 0;
}

std::string_view heading_text(std::string_view line) {
  const std::size_t from = line.find_first_not_of(" #\t");
  return from == std::string_view::npos ? std::string_view() : trimmed(line.substr(from));
}

class Body {
 public:
  explicit Body(const std::string& name) : name_(&name) { sections_.emplace_back(); }

  Status read(const std::vector<Line>& lines, std::size_t from) {
    Fence fence;
    for (std::size_t i = from; i < lines.size(); ++i) {
      const int level = fence.covers(lines[i].text) ? 0 : heading_level(lines[i].text);
      if (level == 0) {
        sections_.back().lines.push_back(lines[i]);
      } else {
        HR_CHECK(level == 1 ? title(lines[i]) : section(lines[i]));
      }
    }
    return {};
  }

  Result<MarkdownBody> take() {
    MarkdownBody body;
    body.title = title_;
    for (const Section& section : sections_) {
      if (section.name.empty()) {
        body.message = text_of(section.lines);
        body.message_line = section.lines.empty() ? 1 : section.lines.front().number;
      } else if (section.name == kSections[0]) {
        if (std::string text = text_of(section.lines); !text.empty()) {
          body.background.push_back(std::move(text));
        }
      } else {
        HR_TRY(items, items_of(section));
        (section.name == kSections[1] ? body.constraints : body.acceptance_criteria) = std::move(items);
      }
    }
    return body;
  }

 private:
  [[nodiscard]] Error refuse(int line, std::string detail, std::string remedy) const {
    return Error{ErrorClass::usage, "task-section",
                 "read the task",   escape_visible(*name_) + ":" + std::to_string(line) + ":1",
                 std::move(detail), std::move(remedy)};
  }

  Status title(const Line& line) {
    const auto& before = sections_.back().lines;
    const bool first = sections_.size() == 1 && title_.empty() &&
                       std::all_of(before.begin(), before.end(), [](const Line& l) { return blank(l.text); });
    if (!first) {
      return refuse(line.number, "a heading of level 1 is the title and stands first",
                    "use a heading of level 3 or more, or put it into a fence");
    }
    title_ = heading_text(line.text);
    return {};
  }

  Status section(const Line& line) {
    const std::string_view heading = heading_text(line.text);
    const auto known = known_section(heading);
    const std::string named = "`## " + escape_cut(heading, 80) + "`";
    if (!known) {
      return refuse(line.number, named + " is not a section of a task",
                    "the sections are Background, Constraints and Acceptance criteria; in the message use "
                    "headings of level 3 or more");
    }
    for (const Section& earlier : sections_) {
      if (earlier.name == *known) {
        return refuse(line.number, named + " stands already in line " + std::to_string(earlier.line),
                      "keep one of the two");
      }
    }
    sections_.push_back({*known, line.number, {}});
    return {};
  }

  static std::string text_of(const std::vector<Line>& lines) {
    auto from = lines.begin();
    auto to = lines.end();
    while (from != to && blank(from->text)) {
      ++from;
    }
    while (to != from && blank(std::prev(to)->text)) {
      --to;
    }
    std::string out;
    for (; from != to; ++from) {
      out += (out.empty() ? "" : "\n") + std::string(from->text);
    }
    return out;
  }

  [[nodiscard]] Result<std::vector<std::string>> items_of(const Section& section) const {
    std::vector<std::vector<Line>> items;
    for (const Line& line : section.lines) {
      const std::string_view text = line.text;
      if (text.size() >= 2 && (text[0] == '-' || text[0] == '*') && text[1] == ' ') {
        items.push_back({{text.substr(2), line.number}});
      } else if (!items.empty() && (blank(text) || text.substr(0, 2) == "  ")) {
        items.back().push_back({blank(text) ? std::string_view() : text.substr(2), line.number});
      } else if (!blank(text)) {
        return refuse(line.number, "the section " + std::string(section.name) + " is a list",
                      "begin the line with `- `, or with two spaces to go on with the item above");
      }
    }
    std::vector<std::string> out;
    for (const auto& item : items) {
      std::string text = text_of(item);
      if (text.empty()) {
        return refuse(item.front().number, "the item is empty", "write it or remove it");
      }
      out.push_back(std::move(text));
    }
    return out;
  }

  const std::string* name_;
  std::string title_;
  std::vector<Section> sections_;
};

}  // namespace

bool has_front_matter(std::string_view bytes) {
  const auto end = std::min(bytes.find('\n'), bytes.size());
  std::string_view first = bytes.substr(0, end);
  if (!first.empty() && first.back() == '\r') {
    first.remove_suffix(1);
  }
  return is_fence_line(first);
}

Result<MarkdownTask> split_markdown(std::string_view bytes, const std::string& name) {
  const std::vector<Line> lines = lines_of(bytes);
  MarkdownTask task;
  std::size_t end = 1;
  for (; end < lines.size() && !is_fence_line(lines[end].text); ++end) {
    task.front_matter += "\n" + std::string(lines[end].text);
  }
  if (end >= lines.size()) {
    return Error{ErrorClass::usage,
                 "task-front-matter",
                 "read the task",
                 escape_visible(name) + ":1:1",
                 "the front matter does not end",
                 "put a line `---` behind it"};
  }
  task.front_matter += "\n";
  Body body(name);
  HR_CHECK(body.read(lines, end + 1));
  HR_TRY(taken, body.take());
  task.body = std::move(taken);
  return task;
}

}  // namespace hitchrail::manifest
