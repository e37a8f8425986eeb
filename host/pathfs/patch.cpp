#include "pathfs/patch.hpp"

#include <fcntl.h>
#include <stdio.h>

#include <cerrno>
#include <map>
#include <memory>
#include <utility>

#include "pathfs/edit.hpp"
#include "pathfs/internal.hpp"

namespace hitchrail::pathfs {
namespace {

using Kind = Edit::Kind;

Status check_edits(const std::vector<Edit>& edits) {
  if (edits.size() > max_edits) {
    return make_error(Code::too_large, "patch", std::to_string(edits.size()) + " edits",
                      "at most " + std::to_string(max_edits));
  }
  std::size_t bytes = 0;
  for (const Edit& edit : edits) {
    HR_CHECK(check_relative("patch", edit.path));
    if (edit.kind == Kind::rename) {
      HR_CHECK(check_relative("patch", edit.to));
    }
    if (edit.kind == Kind::chmod && !edit.mode) {
      return make_error(Code::io, "patch", edit.path, "einval: a change of mode without a mode");
    }
    bytes += edit.bytes.size();
  }
  if (bytes > max_patch_bytes) {
    return make_error(Code::too_large, "patch", std::to_string(bytes) + " bytes",
                      "at most " + std::to_string(max_patch_bytes));
  }
  return {};
}

// One edit that was made, and what taking it back needs.
struct Made {
  enum class What { created, exchanged, renamed, set_aside, directory, mode };
  What what;
  std::string path;
  std::shared_ptr<const Fd> directory;
  std::string name;
  std::string other;             // exchanged, set_aside: where the old file is; renamed: the new name
  std::shared_ptr<const Fd> to;  // renamed: its directory
  Identity before;               // exchanged, set_aside, renamed, mode: the old file
  Identity after;                // created, exchanged, directory: the new one
  Fd held;                       // mode: the very file
};

class Transaction {
 public:
  explicit Transaction(int root) : root_(root) {}

  Status make(const Edit& edit) {
    switch (edit.kind) {
      case Kind::write:
        return write(edit);
      case Kind::make_directory:
        return make_directory(edit);
      case Kind::chmod:
        return change(edit);
      case Kind::rename:
        return rename(edit);
      case Kind::remove:
        return remove(edit);
    }
    return make_error(Code::io, "patch", edit.path, "einval: no such edit");
  }

  void take_back(PatchResult& result) {
    for (; !made_.empty(); made_.pop_back()) {
      const Status undone = undo(made_.back());
      if (undone.has_error()) {
        result.unrestored.push_back({made_.back().path, undone.error()});
      }
    }
  }

  // The new files are on disk before the old ones go: one sync of the file system instead of one for each
  // file.
  Status settle() const {
    const Fd root(::openat(root_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!root) {  // one that may not be read
      ::sync();
      return {};
    }
    return ::syncfs(root.get()) != 0 ? Status{system_error("sync", "root", errno)} : Status{};
  }

  void commit(PatchResult& result) {
    for (const Made& each : made_) {
      const bool kept = each.what == Made::What::exchanged || each.what == Made::What::set_aside;
      if (kept && ::unlinkat(each.directory->get(), each.other.c_str(), 0) != 0 && errno != ENOENT) {
        const std::size_t slash = each.path.rfind('/');
        result.leftovers.push_back(slash == std::string::npos ? each.other
                                                              : each.path.substr(0, slash + 1) + each.other);
      }
    }
  }

 private:
  struct Spot {
    std::shared_ptr<const Fd> directory;
    std::string name;
    Identity identity;
  };

  // Directories are shared by identity, so that a patch of many files holds few descriptors.
  Result<Spot> look(const std::string& path) {
    HR_TRY(place, open_place(root_, path));
    if (!place.holder) {
      place.holder.reset(::openat(root_, ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
      if (!place.holder) {
        return system_error("open", path, errno);
      }
    }
    HR_TRY(where, identify(place.holder.get()));
    auto& shared = directories_[{where.device, where.inode}];
    if (!shared) {
      shared = std::make_shared<const Fd>(std::move(place.holder));
    }
    Spot out{shared, std::move(place.name), {}};
    HR_TRY(identity, identify_at(shared->get(), out.name));
    out.identity = identity;
    return out;
  }

  static Status expect(const Edit& edit, const Identity& found) {
    if (edit.expected && edit.expected->type == FileType::absent && found.type != FileType::absent) {
      return system_error("patch", edit.path, EEXIST);
    }
    if (edit.expected && edit.expected->type != FileType::absent && !found.unchanged(*edit.expected)) {
      return found.type == FileType::regular || found.type == edit.expected->type
                 ? stale("patch", edit.path)
                 : wrong_type("patch", edit.path, found.type);
    }
    return {};
  }

  Status write(const Edit& edit) {
    HR_TRY(spot, look(edit.path));
    const bool fresh = spot.identity.type == FileType::absent;
    if (!fresh && spot.identity.type != FileType::regular) {
      return wrong_type("patch", edit.path, spot.identity.type);
    }
    HR_CHECK(expect(edit, spot.identity));
    StageOptions options;
    options.sync = false;  // settle()
    options.mode = edit.mode.value_or(fresh ? 0644 : spot.identity.mode & 01777);
    if (!fresh) {
      options.like = Owner{spot.identity.uid, spot.identity.gid};
    }
    const int directory = spot.directory->get();
    HR_TRY(staged, stage(directory, edit.bytes, options, edit.path));
    const Status placed =
        fresh ? rename_new(directory, staged.name, directory, spot.name, edit.path)
              : exchange_expected(directory, staged.name, spot.name, spot.identity, edit.path);
    if (placed.has_error()) {
      ::unlinkat(directory, staged.name.c_str(), 0);
      return placed;
    }
    made_.push_back({fresh ? Made::What::created : Made::What::exchanged, edit.path, spot.directory,
                     spot.name, staged.name, nullptr, spot.identity, staged.identity, Fd()});
    return {};
  }

  Status make_directory(const Edit& edit) {
    HR_TRY(spot, look(edit.path));
    if (::mkdirat(spot.directory->get(), spot.name.c_str(), edit.mode.value_or(0755)) != 0) {
      return system_error("make directory", edit.path, errno);
    }
    HR_TRY(identity, identify_at(spot.directory->get(), spot.name));
    made_.push_back(
        {Made::What::directory, edit.path, spot.directory, spot.name, "", nullptr, {}, identity, Fd()});
    return {};
  }

  Status change(const Edit& edit) {
    HR_TRY(spot, look(edit.path));
    HR_TRY(held, open_beneath(spot.directory->get(), spot.name, O_PATH));
    HR_TRY(identity, identify(held.get()));
    HR_CHECK(expect(edit, identity));
    HR_CHECK(change_mode(held.get(), identity, *edit.mode, edit.path));
    made_.push_back(
        {Made::What::mode, edit.path, spot.directory, spot.name, "", nullptr, identity, {}, std::move(held)});
    return {};
  }

  Status rename(const Edit& edit) {
    HR_TRY(from, look(edit.path));
    HR_TRY(to, look(edit.to));
    if (from.identity.type == FileType::absent) {
      return wrong_type("rename", edit.path, from.identity.type);
    }
    HR_CHECK(expect(edit, from.identity));
    HR_CHECK(rename_new(from.directory->get(), from.name, to.directory->get(), to.name, edit.path));
    made_.push_back({Made::What::renamed,
                     edit.path,
                     from.directory,
                     from.name,
                     to.name,
                     to.directory,
                     from.identity,
                     {},
                     Fd()});
    HR_TRY(moved, identify_at(to.directory->get(), to.name));
    return moved.same_file(from.identity) ? Status{} : Status{stale("rename", edit.path)};
  }

  Status remove(const Edit& edit) {
    HR_TRY(spot, look(edit.path));
    if (spot.identity.type == FileType::absent || spot.identity.type == FileType::directory) {
      return wrong_type("remove", edit.path, spot.identity.type);
    }
    HR_CHECK(expect(edit, spot.identity));
    HR_TRY(aside, set_aside(spot.directory->get(), spot.name, spot.identity, edit.path));
    made_.push_back({Made::What::set_aside,
                     edit.path,
                     spot.directory,
                     spot.name,
                     aside,
                     nullptr,
                     spot.identity,
                     {},
                     Fd()});
    return {};
  }

  static Status undo(const Made& made) {
    const int directory = made.directory->get();
    switch (made.what) {
      case Made::What::created: {
        HR_TRY(aside, set_aside(directory, made.name, made.after, made.path));
        ::unlinkat(directory, aside.c_str(), 0);
        return {};
      }
      case Made::What::exchanged: {
        HR_CHECK(exchange_expected(directory, made.other, made.name, made.after, made.path));
        ::unlinkat(directory, made.other.c_str(), 0);
        return is_back(directory, made);
      }
      case Made::What::set_aside:
        HR_CHECK(rename_new(directory, made.other, directory, made.name, made.path));
        return is_back(directory, made);
      case Made::What::renamed:
        HR_CHECK(rename_new(made.to->get(), made.other, directory, made.name, made.path));
        return {};
      case Made::What::directory: {
        HR_TRY(now, identify_at(directory, made.name));
        if (!now.same_file(made.after)) {
          return stale("remove directory", made.path);
        }
        return ::unlinkat(directory, made.name.c_str(), AT_REMOVEDIR) == 0
                   ? Status{}
                   : Status{system_error("remove directory", made.path, errno)};
      }
      case Made::What::mode:
        return change_mode(made.held.get(), made.before, made.before.mode, made.path);
    }
    return {};
  }

  static Status is_back(int directory, const Made& made) {
    HR_TRY(now, identify_at(directory, made.name));
    return same_content(now, made.before) ? Status{} : Status{stale("restore", made.path)};
  }

  int root_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::shared_ptr<const Fd>> directories_;
  std::vector<Made> made_;
};

}  // namespace

PatchResult apply_patch(int root, const std::vector<Edit>& edits) {
  PatchResult result;
  const Status judged = check_edits(edits);
  if (judged.has_error()) {
    result.failed = judged.error();
    return result;
  }
  Transaction transaction(root);
  for (std::size_t i = 0; i < edits.size(); ++i) {
    const Status made = transaction.make(edits[i]);
    if (made.has_error()) {
      result.failed = made.error();
      result.failed_edit = i;
      transaction.take_back(result);
      return result;
    }
  }
  const Status settled = transaction.settle();
  if (settled.has_error()) {
    result.failed = settled.error();
    result.failed_edit = edits.size();
    transaction.take_back(result);
    return result;
  }
  transaction.commit(result);
  return result;
}

}  // namespace hitchrail::pathfs
