#include "workspace/refs.hpp"

#include <fcntl.h>

#include <algorithm>
#include <vector>

namespace hitchrail::workspace {
namespace {

constexpr std::size_t kMaxRefFile = 4096;
constexpr std::size_t kMaxPackedRefs = 64u << 20;
constexpr std::size_t kMaxRefs = 200'000;
constexpr int kMaxDepth = 24;
constexpr int kMaxSymbolic = 5;  // as git's own limit

std::string_view trim(std::string_view text) {
  while (!text.empty() &&
         (text.back() == '\n' || text.back() == '\r' || text.back() == ' ' || text.back() == '\t')) {
    text.remove_suffix(1);
  }
  return text;
}

Error too_many(std::string what) {
  return Error{ErrorClass::refused,
               "worktree-too-large",
               "read refs",
               std::move(what),
               "more than " + std::to_string(kMaxRefs) + " refs",
               "delete refs that are no longer needed, or use a smaller clone"};
}

struct RefValue {
  std::string oid;
  std::string target;
};

// "<hex>" or "ref: <name>"; both empty when it is neither (git calls such a ref broken and goes on).
RefValue parse_value(std::string_view text, std::string_view object_format) {
  RefValue out;
  if (text.substr(0, 4) == "ref:") {
    text.remove_prefix(4);
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) {
      text.remove_prefix(1);
    }
    text = trim(text);
    if (valid_ref(text)) {
      out.target = std::string(text);
    }
    return out;
  }
  const std::string_view hex = trim(text);
  if (valid_oid(hex, object_format)) {
    out.oid = std::string(hex);
  }
  return out;
}

void parse_packed(std::string_view text, std::string_view object_format, RefTable& out) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t space = line.find(' ');
    if (line.empty() || line.front() == '#' || line.front() == '^' || space == std::string_view::npos) {
      continue;
    }
    const std::string_view name = line.substr(space + 1);
    if (valid_oid(line.substr(0, space), object_format) && valid_ref(name)) {
      out.oids.insert_or_assign(std::string(name), std::string(line.substr(0, space)));
    }
  }
}

class LooseWalk {
 public:
  LooseWalk(std::string_view object_format, RefTable& out) : object_format_(object_format), out_(out) {}

  Status directory(int dirfd, const std::string& prefix, int depth) {
    if (depth > kMaxDepth) {
      return metadata_unsafe(prefix, "refs are nested too deep");
    }
    HR_TRY(names, pathfs::list_directory(dirfd, kMaxRefs));
    for (const std::string& name : names) {
      const std::string full = prefix + "/" + name;
      if (++seen_ > kMaxRefs) {
        return too_many(full);
      }
      HR_TRY(identity, pathfs::identify_at(dirfd, name));
      if (identity.type == pathfs::FileType::directory) {
        // State of a bisect, a rebase or another worktree is not part of a run.
        if (depth == 0 && (name == "bisect" || name == "worktree" || name == "rewritten")) {
          continue;
        }
        HR_TRY(below, pathfs::open_directory_beneath(dirfd, name));
        HR_CHECK(directory(below.get(), full, depth + 1));
      } else if (identity.type != pathfs::FileType::absent) {
        HR_CHECK(file(dirfd, name, full));
      }
    }
    return {};
  }

 private:
  Status file(int dirfd, const std::string& name, const std::string& full) {
    if (!valid_ref(full)) {
      return {};  // "x.lock", an editor's backup: no ref for git either
    }
    HR_TRY(text, read_metadata(dirfd, name, kMaxRefFile));
    RefValue value = parse_value(text, object_format_);
    if (!value.oid.empty()) {
      out_.oids.insert_or_assign(full, std::move(value.oid));
    } else if (!value.target.empty()) {
      out_.oids.erase(full);
      out_.symbolic.insert_or_assign(full, std::move(value.target));
    }
    return {};
  }

  std::string_view object_format_;
  RefTable& out_;
  std::size_t seen_ = 0;
};

// What stands in the place of metadata, or on the way to it, is of another kind.
bool is_unsafe(const Error& error) {
  using enum pathfs::Code;
  return pathfs::is(error, symlink_rejected) || pathfs::is(error, not_directory) ||
         pathfs::is(error, not_regular_file);
}

}  // namespace

Error metadata_unsafe(std::string object, std::string detail) {
  return Error{
      ErrorClass::refused, "worktree-metadata-unsafe",
      "read repository",   std::move(object),
      std::move(detail),   "look at the repository with care before any tool runs in it, or clone it anew"};
}

bool valid_oid(std::string_view text, std::string_view object_format) {
  const std::size_t size = object_format == "sha256" ? 64 : 40;
  return text.size() == size && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

bool valid_ref(std::string_view name) {
  if (name.size() > 1024 || name.substr(0, 5) != "refs/" || name.back() == '/' || name.back() == '.') {
    return false;
  }
  std::size_t at = 0;
  while (at <= name.size()) {
    const std::size_t end = std::min(name.find('/', at), name.size());
    const std::string_view part = name.substr(at, end - at);
    if (part.empty() || part.front() == '.' ||
        (part.size() >= 5 && part.substr(part.size() - 5) == ".lock")) {
      return false;
    }
    at = end + 1;
  }
  for (std::size_t i = 0; i < name.size(); ++i) {
    const auto c = static_cast<unsigned char>(name[i]);
    if (c <= 0x20 || c == 0x7f || std::string_view("~^:?*[\\").find(name[i]) != std::string_view::npos) {
      return false;
    }
    if (i > 0 && ((c == '.' && name[i - 1] == '.') || (c == '{' && name[i - 1] == '@'))) {
      return false;
    }
  }
  return true;
}

Status check_metadata(int dirfd, const std::string& path, MetadataKind kind) {
  auto opened = pathfs::open_beneath(dirfd, path, O_PATH);
  if (opened.has_error()) {
    const Error& error = opened.error();
    if (pathfs::is(error, pathfs::Code::not_found)) {
      return {};
    }
    if (is_unsafe(error)) {
      return metadata_unsafe(path, error.detail);
    }
    return error;
  }
  HR_TRY(identity, pathfs::identify(opened.value().get()));
  if (identity.type == pathfs::FileType::symlink) {
    return metadata_unsafe(path, "it is a symbolic link");
  }
  const bool file = kind == MetadataKind::file;
  if (identity.type != (file ? pathfs::FileType::regular : pathfs::FileType::directory)) {
    return metadata_unsafe(path, file ? "it is not a regular file" : "it is not a directory");
  }
  return {};
}

Result<std::string> read_metadata(int dirfd, const std::string& path, std::size_t max_bytes) {
  auto text = pathfs::read_beneath(dirfd, path, max_bytes);
  if (text.has_value()) {
    return text;
  }
  const Error& error = text.error();
  if (pathfs::is(error, pathfs::Code::not_found)) {
    return std::string();
  }
  if (is_unsafe(error)) {
    return metadata_unsafe(path, error.detail);
  }
  if (pathfs::is(error, pathfs::Code::too_large)) {
    return Error{ErrorClass::refused, "worktree-too-large",
                 "read repository",   path,
                 error.detail,        "repack or clone the repository anew"};
  }
  return error;
}

Result<std::string> read_ref(int common_fd, const std::string& ref, std::string_view object_format) {
  std::string name = ref;
  for (int depth = 0; depth < kMaxSymbolic; ++depth) {
    if (!valid_ref(name)) {
      return metadata_unsafe(name, "not the name of a ref");
    }
    auto identity = pathfs::open_beneath(common_fd, name, O_PATH | O_DIRECTORY);
    if (identity.has_error()) {  // a directory of that name is no ref; an empty one may be left over
      HR_TRY(text, read_metadata(common_fd, name, kMaxRefFile));
      RefValue value = parse_value(text, object_format);
      if (!value.oid.empty()) {
        return value.oid;
      }
      if (!value.target.empty()) {
        name = value.target;
        continue;
      }
      if (!text.empty()) {
        return metadata_unsafe(name, "the ref is broken");
      }
    }
    HR_TRY(text, read_metadata(common_fd, "packed-refs", kMaxPackedRefs));
    RefTable packed;
    parse_packed(text, object_format, packed);
    const auto found = packed.oids.find(name);
    return found == packed.oids.end() ? std::string() : found->second;
  }
  return metadata_unsafe(ref, "symbolic refs point in a circle");
}

Result<Head> read_head(int git_fd, int common_fd, std::string_view object_format) {
  HR_TRY(text, read_metadata(git_fd, "HEAD", kMaxRefFile));
  RefValue value = parse_value(text, object_format);
  Head head;
  if (!value.oid.empty()) {
    head.oid = std::move(value.oid);
    return head;
  }
  if (value.target.empty()) {
    return metadata_unsafe("HEAD", "it is neither an object id nor a ref");
  }
  head.ref = std::move(value.target);
  HR_TRY(oid, read_ref(common_fd, head.ref, object_format));
  head.oid = std::move(oid);
  return head;
}

Result<RefTable> read_refs(int common_fd, std::string_view object_format) {
  RefTable out;
  HR_TRY(text, read_metadata(common_fd, "packed-refs", kMaxPackedRefs));
  parse_packed(text, object_format, out);
  if (out.oids.size() > kMaxRefs) {
    return too_many("packed-refs");
  }
  HR_CHECK(check_metadata(common_fd, "refs", MetadataKind::directory));
  auto refs = pathfs::open_directory_beneath(common_fd, "refs");
  if (refs.has_error()) {
    return pathfs::is(refs.error(), pathfs::Code::not_found) ? Result<RefTable>(std::move(out))
                                                             : Result<RefTable>(refs.error());
  }
  HR_CHECK(LooseWalk(object_format, out).directory(refs.value().get(), "refs", 0));
  return out;
}

std::string packed_refs(const RefTable& refs) {
  std::string out = "# pack-refs with: sorted \n";  // nothing is peeled: git looks at the objects itself
  for (const auto& [name, oid] : refs.oids) {
    out += oid + " " + name + "\n";
  }
  return out;
}

}  // namespace hitchrail::workspace
