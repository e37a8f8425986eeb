#include "workspace/index_entries.hpp"

#include <algorithm>

#include "core/text.hpp"
#include "workspace/git_call.hpp"
#include "workspace/refs.hpp"

namespace hitchrail::workspace {
namespace {

bool is_dot_git(std::string_view part) {
  constexpr std::string_view kName = ".git";
  return part.size() == kName.size() &&
         std::equal(part.begin(), part.end(), kName.begin(),
                    [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; });
}

bool valid_path(std::string_view path) {
  std::size_t at = 0;
  while (at <= path.size()) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, end - at);
    if (part.empty() || part == "." || part == ".." || is_dot_git(part)) {
      return false;
    }
    at = end + 1;
  }
  return true;
}

bool valid_mode(std::string_view mode) {
  return mode == "100644" || mode == "100755" || mode == "120000" || mode == "160000";
}

}  // namespace

Result<IndexEntries> parse_index(std::string_view output, std::string_view object_format) {
  IndexEntries out;
  std::string_view line;
  const std::size_t oid_size = object_format == "sha256" ? 64 : 40;
  while (next_field(output, line)) {  // "<mode> <oid> <stage>\t<path>"
    const std::size_t fixed = 6 + 1 + oid_size + 1 + 1;
    const std::string_view mode = line.substr(0, std::min<std::size_t>(6, line.size()));
    const bool shape = line.size() > fixed + 1 && line[6] == ' ' && line[7 + oid_size] == ' ' &&
                       line[fixed] == '\t' && line[fixed - 1] >= '0' && line[fixed - 1] <= '3';
    if (!shape || !valid_mode(mode) || !valid_oid(line.substr(7, oid_size), object_format) ||
        !valid_path(line.substr(fixed + 1))) {
      return Error{ErrorClass::refused,
                   "git-output-invalid",
                   "read index",
                   escape_cut(line, 120),
                   "an entry that no index may have",
                   ""};
    }
    out.insert_or_assign(IndexKey(std::string(line.substr(fixed + 1)), line[fixed - 1] - '0'),
                         IndexEntry{std::string(mode), std::string(line.substr(7, oid_size))});
  }
  return out;
}

IndexMerge merge_index(const IndexEntries& launch, const IndexEntries& ours, const IndexEntries& theirs) {
  IndexMerge out;
  const auto find = [](const IndexEntries& entries, const IndexKey& key) -> const IndexEntry* {
    const auto at = entries.find(key);
    return at == entries.end() ? nullptr : &at->second;
  };
  const auto equal = [](const IndexEntry* a, const IndexEntry* b) {
    return a == nullptr || b == nullptr ? a == b : *a == *b;
  };
  const auto consider = [&](const IndexKey& key) {
    const IndexEntry* before = find(launch, key);
    const IndexEntry* mine = find(ours, key);
    const IndexEntry* wanted = find(theirs, key);
    if (equal(before, wanted) || equal(mine, wanted)) {
      return;
    }
    if (!equal(before, mine)) {
      out.conflict = out.conflict.value_or(key.first);
    } else if (wanted == nullptr) {
      out.removed.push_back(key);
    } else {
      out.set.insert_or_assign(key, *wanted);
    }
  };
  for (const auto& [key, entry] : theirs) {
    consider(key);
  }
  for (const auto& [key, entry] : launch) {
    if (theirs.find(key) == theirs.end()) {
      consider(key);
    }
  }
  return out;
}

std::string index_info(const IndexMerge& merge, std::string_view object_format) {
  std::string out;
  for (const IndexKey& key : merge.removed) {  // mode 0 takes every stage of the path out
    out += "0 " + zero_oid(object_format) + "\t" + key.first + '\0';
  }
  for (const auto& [key, entry] : merge.set) {
    out += entry.mode + " " + entry.oid + " " + std::to_string(key.second) + "\t" + key.first + '\0';
  }
  return out;
}

}  // namespace hitchrail::workspace
