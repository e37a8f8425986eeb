#include "workspace/status.hpp"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>

#include "core/canonical.hpp"
#include "core/ids.hpp"
#include "core/text.hpp"
#include "pathfs/walk.hpp"
#include "workspace/git_call.hpp"
#include "workspace/refs.hpp"

namespace hitchrail::workspace {
namespace {

constexpr std::size_t kMaxBlockingSearch = 200'000;

Error invalid(std::string_view line) {
  return Error{ErrorClass::internal,
               "git-output-invalid",
               "read git status",
               escape_cut(line, 80),
               "a line that git status --porcelain=v2 does not have",
               "report the version of git (`git version`)"};
}

// The field after `count` spaces.
std::string_view after_fields(std::string_view line, int count) {
  for (int i = 0; i < count; ++i) {
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos) {
      return {};
    }
    line.remove_prefix(space + 1);
  }
  return line;
}

std::string_view field(std::string_view line, int index) {
  const std::string_view rest = after_fields(line, index);
  return rest.substr(0, rest.find(' '));
}

const char* status_word(std::string_view xy) {
  if (xy.find('R') != std::string_view::npos) {
    return "renamed";
  }
  if (xy.find('D') != std::string_view::npos) {
    return "deleted";
  }
  if (xy.find('A') != std::string_view::npos || xy.find('C') != std::string_view::npos) {
    return "added";
  }
  return "modified";
}

void set_blob(FileState& file, std::string_view oid) {
  if (oid.find_first_not_of('0') != std::string_view::npos) {
    file.index_blob = std::string(oid);
  }
}

Result<std::string> hash_regular(int fd, std::uint64_t size, std::uint64_t& budget) {
  if (size > budget) {
    return std::string();
  }
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  if (!context || EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) != 1) {
    return errno_error("hash", "file", ENOMEM);
  }
  std::array<char, 1u << 16> buffer{};
  while (true) {
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return errno_error("read", "file", errno);
    }
    if (n == 0) {
      break;
    }
    if (static_cast<std::uint64_t>(n) > budget) {
      return std::string();  // it grew while it was read
    }
    budget -= static_cast<std::uint64_t>(n);
    EVP_DigestUpdate(context.get(), buffer.data(), static_cast<std::size_t>(n));
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  EVP_DigestFinal_ex(context.get(), digest.data(), &length);
  return hex_encode({reinterpret_cast<const char*>(digest.data()), length});
}

// A change in the same tick of the kernel's clock would give the same time: such a stamp says nothing yet.
constexpr std::int64_t kTick = 100'000'000;

std::string stamp_of(const pathfs::Identity& id, std::int64_t now_ns) {
  if (id.changed_ns + kTick > now_ns) {
    return {};
  }
  return id.text() + ":" + std::to_string(id.size) + ":" + std::to_string(id.changed_ns);
}

// A repository of its own that is not tracked: git does not look into it.
std::string tree_stamp(int root_fd, const std::string& path, std::int64_t now_ns) {
  const pathfs::WalkLimits limits{64, 10'000, 50'000};
  const auto found = pathfs::find(root_fd, path, limits);
  if (found.has_error() || !found.value().unreadable.empty()) {
    return {};
  }
  std::string text;
  for (const pathfs::Found& entry : found.value().entries) {
    const std::string stamp = stamp_of(entry.identity, now_ns);
    if (stamp.empty()) {
      return {};
    }
    text += entry.path + '\0' + std::to_string(entry.identity.mode) + ':' + stamp + '\0';
  }
  return "tree:" + sha256_hex(text);
}

// The commit that a submodule has checked out, "" when it has none that can be read here.
std::string submodule_commit(const Worktree& worktree, const std::string& path) {
  constexpr std::string_view kPointer = "gitdir: ";
  constexpr std::size_t kMaxPointer = 8192;
  Fd git;
  auto own = pathfs::open_directory_beneath(worktree.root_fd->get(), path + "/.git");
  if (own.has_value()) {
    git = std::move(own).value();
  } else {
    const auto pointer = pathfs::read_beneath(worktree.root_fd->get(), path + "/.git", kMaxPointer);
    if (pointer.has_error() || !pointer.value().starts_with(kPointer)) {
      return {};
    }
    // git writes "gitdir: ../.git/modules/NAME"; what lies elsewhere is no submodule of this repository.
    std::string_view target = std::string_view(pointer.value()).substr(kPointer.size());
    target = target.substr(0, target.find('\n'));
    const std::size_t at = target.find("modules/");
    if (at == std::string_view::npos) {
      return {};
    }
    auto module = pathfs::open_directory_beneath(worktree.common_fd->get(), std::string(target.substr(at)));
    if (module.has_error()) {
      return {};
    }
    git = std::move(module).value();
  }
  const auto head = read_head(git.get(), git.get(), worktree.object_format);
  return head.has_value() ? head.value().oid : std::string();
}

void look_at(const Worktree& worktree, FileState& file, std::uint64_t& budget, const FileState* then) {
  const int root = worktree.root_fd->get();
  const std::int64_t now_ns = unix_millis_now() * 1'000'000;
  if (file.path.back() == '/') {
    file.stamp = tree_stamp(root, file.path.substr(0, file.path.size() - 1), now_ns);
    return;
  }
  auto opened = pathfs::open_beneath(root, file.path, O_RDONLY);
  const auto identity =
      opened.has_value() ? pathfs::identify(opened.value().get()) : pathfs::identify_beneath(root, file.path);
  if (identity.has_error()) {
    file.worktree_mode.clear();
    return;
  }
  const pathfs::Identity& id = identity.value();
  const auto known = [&] {
    file.stamp = stamp_of(id, now_ns);
    if (then != nullptr && !file.stamp.empty() && file.stamp == then->stamp) {
      file.worktree_sha256 = then->worktree_sha256;
      return true;
    }
    return false;
  };
  switch (id.type) {
    case pathfs::FileType::regular:
      file.worktree_mode = (id.mode & 0100U) != 0 ? "100755" : "100644";
      if (!known() && opened.has_value()) {
        auto hash = hash_regular(opened.value().get(), id.size, budget);
        file.worktree_sha256 = hash.has_value() ? std::move(hash).value() : std::string();
      }
      break;
    case pathfs::FileType::symlink: {
      file.worktree_mode = "120000";
      const auto text = known() ? Result<std::string>(Error{}) : pathfs::read_link_beneath(root, file.path);
      if (text.has_value()) {
        file.worktree_sha256 = sha256_hex(text.value());
      }
      break;
    }
    case pathfs::FileType::directory:
      if (file.worktree_mode == "160000") {
        const std::string commit = submodule_commit(worktree, file.path);
        file.worktree_sha256 = commit.empty() ? "" : sha256_hex(commit);
      }
      break;
    default:
      file.worktree_mode.clear();
      break;
  }
}

void set_mode(FileState& file, std::string_view mode) {
  if (mode != "000000") {
    file.worktree_mode = std::string(mode);
  }
}

}  // namespace

std::vector<std::string> status_arguments() {
  return {"status",      "--porcelain=v2",        "--branch",
          "-z",          "--untracked-files=all", "--ignore-submodules=dirty",
          "--no-renames"};
}

Result<StatusOutput> parse_status(std::string_view output) {
  StatusOutput out;
  std::string_view line;
  while (next_field(output, line)) {
    if (line.size() < 3) {
      return invalid(line);
    }
    FileState file;
    switch (line[0]) {
      case '#':
        if (line.starts_with("# branch.oid ") && line != "# branch.oid (initial)") {
          out.head_oid = std::string(line.substr(13));
        }
        continue;
      case '1':
        file.path = std::string(after_fields(line, 8));
        file.status = status_word(field(line, 1));
        set_mode(file, field(line, 5));
        set_blob(file, field(line, 7));
        break;
      case '2': {
        file.path = std::string(after_fields(line, 9));
        file.status = status_word(field(line, 1));
        set_mode(file, field(line, 5));
        set_blob(file, field(line, 7));
        std::string_view previous;
        if (!next_field(output, previous)) {
          return invalid(line);
        }
        file.previous_path = std::string(previous);
        break;
      }
      case 'u':
        file.path = std::string(after_fields(line, 10));
        file.status = "conflicted";
        set_mode(file, field(line, 6));
        for (const int stage : {7, 9, 8}) {  // the last that is there: ours before theirs before the base
          set_blob(file, field(line, stage));
        }
        break;
      case '?':
        file.path = std::string(line.substr(2));
        file.status = "untracked";
        break;
      default:
        return invalid(line);
    }
    if (file.path.empty()) {
      return invalid(line);
    }
    out.files.push_back(std::move(file));
  }
  std::sort(out.files.begin(), out.files.end(),
            [](const FileState& a, const FileState& b) { return a.path < b.path; });
  return out;
}

void hash_files(const Worktree& worktree, std::vector<FileState>& files, std::uint64_t budget,
                const FilesByPath* then) {
  for (FileState& file : files) {
    const FileState* before = nullptr;
    if (then != nullptr) {
      const auto found = then->find(file.path);
      before = found == then->end() ? nullptr : found->second;
    }
    look_at(worktree, file, budget, before);
  }
}

std::string find_blocking_entry(int root_fd) {
  const pathfs::WalkLimits limits{64, kMaxBlockingSearch, kMaxBlockingSearch};
  std::string found;
  (void)pathfs::walk(root_fd, "", limits, [&found](const pathfs::Visit& visit) {
    if (visit.name == ".git") {
      return pathfs::Next::skip;
    }
    if (visit.type == pathfs::FileType::other &&
        (visit.name == ".gitignore" || visit.name == ".gitattributes")) {
      found = visit.path();
      return pathfs::Next::stop;
    }
    return pathfs::Next::go_on;
  });
  return found;
}

}  // namespace hitchrail::workspace
