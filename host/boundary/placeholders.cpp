// Recorded placeholders: an empty directory for each protected name that does not exist and that no overlay
// shows, so that the boundary can hold it.
//
// Crash order. Each directory is first made under a random name that is already in the record, then its inode
// is recorded, then it is renamed (never over anything). So at every point a record on disk names what may
// exist: by a name nobody else uses, or by its inode.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "boundary/internal.hpp"
#include "core/file.hpp"
#include "core/ids.hpp"
#include "core/text.hpp"
#include "pathfs/edit.hpp"

namespace hitchrail::boundary {
namespace {

constexpr const char* record_name = "placeholders";

struct Placeholder {
  std::string root;
  Identity root_identity;
  std::string name;
  std::string working_name;
  Identity identity;  // 0 until made
};

json::Value to_json(const std::vector<Placeholder>& list) {
  json::Value items = json::Value::array();
  for (const Placeholder& each : list) {
    json::Value item = json::Value::object();
    item.set("root", hex_encode(each.root));  // a path may be any bytes
    item.set("rootDevice", std::to_string(each.root_identity.dev));
    item.set("rootInode", std::to_string(each.root_identity.ino));
    item.set("name", each.name);
    item.set("workingName", each.working_name);
    item.set("device", std::to_string(each.identity.dev));
    item.set("inode", std::to_string(each.identity.ino));
    items.push(std::move(item));
  }
  json::Value document = json::Value::object();
  document.set("schemaVersion", "placeholders/v1");
  document.set("items", std::move(items));
  return document;
}

Status write_record(int attempt_dirfd, const std::vector<Placeholder>& list) {
  return write_file_atomic(attempt_dirfd, record_name, json::write(to_json(list)) + "\n");
}

std::uint64_t number(const json::Value& value) {
  return std::strtoull(value.as_string().c_str(), nullptr, 10);
}

Result<std::vector<Placeholder>> read_record(int attempt_dirfd) {
  HR_TRY(text, read_file_at(attempt_dirfd, record_name, 1u << 20));
  HR_TRY(document, json::parse(text, json::Duplicates::refuse, record_name));
  if (document.get("schemaVersion").as_string() != "placeholders/v1") {
    return Error{ErrorClass::failed,
                 "placeholders-record",
                 "read placeholders",
                 record_name,
                 "Not a record of this version.",
                 "Remove the empty directories and this file by hand."};
  }
  std::vector<Placeholder> list;
  for (const json::Value& item : document.get("items").items()) {
    Placeholder each;
    each.root = hex_decode(item.get("root").as_string());
    each.root_identity = {number(item.get("rootDevice")), number(item.get("rootInode"))};
    each.name = item.get("name").as_string();
    each.working_name = item.get("workingName").as_string();
    each.identity = {number(item.get("device")), number(item.get("inode"))};
    list.push_back(std::move(each));
  }
  return list;
}

Result<Fd> open_root(const Placeholder& each) {
  HR_TRY(root, pathfs::open_absolute(each.root, O_RDONLY | O_DIRECTORY));
  HR_TRY(found, pathfs::identify(root.get()));
  if (Identity{found.device, found.inode} != each.root_identity) {
    return Error{ErrorClass::refused,
                 "root-changed",
                 "open root",
                 each.root,
                 "Another directory is at this path now.",
                 ""};
  }
  return root;
}

// The run may have closed the root to its owner, which is us: open it up for the moment. Roots that we may
// search and write, or that are not ours, are left as they are.
class OpenedUp {
 public:
  explicit OpenedUp(const Placeholder& each) {
    auto path = pathfs::open_absolute(each.root, O_PATH | O_DIRECTORY);
    if (path.has_error()) {
      return;
    }
    const auto found = pathfs::identify(path.value().get());
    if (found.has_error() || Identity{found.value().device, found.value().inode} != each.root_identity ||
        found.value().uid != geteuid() || geteuid() == 0 || (found.value().mode & S_IRWXU) == S_IRWXU) {
      return;
    }
    const std::size_t slash = each.root.rfind('/');
    auto parent = pathfs::open_absolute(slash == 0 ? "/" : each.root.substr(0, slash), O_PATH | O_DIRECTORY);
    if (parent.has_value() &&
        pathfs::chmod_beneath(parent.value().get(), each.root.substr(slash + 1), found.value().mode | S_IRWXU)
            .has_value()) {
      mode_ = found.value().mode;
      if (auto opened = open_root(each); opened.has_value()) {
        root_ = std::move(opened).value();
      }
    }
  }
  ~OpenedUp() {
    if (root_) {
      (void)fchmod(root_.get(), mode_);
    }
  }
  OpenedUp(const OpenedUp&) = delete;
  OpenedUp& operator=(const OpenedUp&) = delete;

 private:
  Fd root_;
  mode_t mode_ = 0;
};

std::optional<Identity> identity_of(int root, const std::string& name) {
  const auto found = pathfs::identify_at(root, name);
  if (found.has_error() || found.value().type != pathfs::FileType::directory) {
    return std::nullopt;
  }
  return Identity{found.value().device, found.value().inode};
}

Error at_place(Error error, const Placeholder& each) {
  error.operation = "make placeholder";
  error.object = each.root + "/" + each.name;
  return error;
}

Status make_working(std::vector<Placeholder>& list) {
  for (Placeholder& each : list) {
    HR_TRY(root, open_root(each));
    const auto made = pathfs::make_directory_beneath(root.get(), each.working_name);
    if (made.has_error()) {
      return at_place(made.error(), each);
    }
    const auto identity = identity_of(root.get(), each.working_name);
    if (!identity) {
      return errno_error("stat placeholder", each.root + "/" + each.name, ENOENT);
    }
    each.identity = *identity;
  }
  return {};
}

Status rename_all(const std::vector<Placeholder>& list) {
  for (const Placeholder& each : list) {
    HR_TRY(root, open_root(each));
    const Status placed = pathfs::rename_beneath(root.get(), each.working_name, each.name);
    if (placed.has_error()) {
      Error error = at_place(placed.error(), each);
      error.code = pathfs::io_reason(error) == "eexist" ? "protected-name-appeared" : error.code;
      return error;
    }
  }
  return {};
}

Status make_all(int attempt_dirfd, std::vector<Placeholder>& list) {
  HR_CHECK(write_record(attempt_dirfd, list));
  HR_CHECK(make_working(list));
  HR_CHECK(write_record(attempt_dirfd, list));
  return rename_all(list);
}

Status remove_recorded(int attempt_dirfd, std::vector<std::string>* kept, bool* away) {
  auto read = read_record(attempt_dirfd);
  if (read.has_error()) {
    return read.error().code == "enoent" ? Status{} : Status{read.error()};
  }
  bool all = true;
  bool moved = false;
  bool others = false;
  for (const Placeholder& each : read.value()) {
    const OpenedUp opened_up(each);
    auto root = open_root(each);
    if (root.has_error()) {
      // Gone is gone. Another one, or a link, at its place: it was moved, and may come back. Anything else
      // (no permission, say) may pass.
      if (!pathfs::is(root.error(), pathfs::Code::not_found)) {
        all = false;
        const bool passes = pathfs::is(root.error(), pathfs::Code::io);
        moved = moved || !passes;
        others = others || passes;
        if (kept != nullptr) {
          kept->push_back(each.root + "/" + each.name);
        }
      }
      continue;
    }
    const int fd = root.value().get();
    const Status working = pathfs::remove_directory_beneath(fd, each.working_name);
    if (working.has_error() && !pathfs::is(working.error(), pathfs::Code::not_found)) {
      all = false;
      others = true;
    }
    const auto found = identity_of(fd, each.name);
    if (!found || each.identity.ino == 0 || *found != each.identity) {
      continue;
    }
    // rmdir itself refuses what is not empty.
    const Status removed = pathfs::remove_directory_beneath(fd, each.name);
    if (removed.has_error() && !pathfs::is(removed.error(), pathfs::Code::not_found)) {
      const bool stays = pathfs::io_reason(removed.error()) == "enotempty";
      all = all && stays;
      others = others || !stays;
      if (kept != nullptr) {
        kept->push_back(each.root + "/" + each.name);
      }
    }
  }
  if (moved && away != nullptr) {
    *away = !others;
  }
  if (moved && !others) {
    return Error{
        ErrorClass::failed,
        "placeholders-left",
        "remove placeholders",
        record_name,
        "Another directory, or a link, is where the worktree was: empty protected directories may be "
        "left where it is now.",
        "Put it back and run: hitchrail runs recover; or remove them there by hand"};
  }
  if (!all) {
    return Error{ErrorClass::failed,
                 "placeholders-left",
                 "remove placeholders",
                 record_name,
                 "A placeholder could not be removed now.",
                 "Run: hitchrail runs recover"};
  }
  if (unlinkat(attempt_dirfd, record_name, 0) < 0 && errno != ENOENT) {
    return errno_error("remove", record_name, errno);
  }
  return {};
}

}  // namespace

std::string hex_decode(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::strtoul(hex.substr(i, 2).c_str(), nullptr, 16)));
  }
  return bytes;
}

Status make_placeholders(Compiled& compiled, int attempt_dirfd) {
  HR_CHECK(make_control_groups(compiled, attempt_dirfd));
  if (compiled.backend != Backend::native) {
    return {};  // no new name can be made at the top level anyway
  }
  const Status overlay = make_overlay_directories(compiled, attempt_dirfd);
  if (overlay.has_error()) {
    (void)remove_overlay_directories(attempt_dirfd);
    return overlay;
  }
  std::vector<Placeholder> list;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < compiled.protected_names.size(); ++i) {
    const Protected& name = compiled.protected_names[i];
    if (name.state != EntryKind::absent || name.overlay) {
      continue;
    }
    for (const Grant& grant : compiled.grants) {
      if (grant.target == name.root && grant.writable) {
        list.push_back({name.root, grant.source.identity, name.name, ".hitchrail-" + random_id("", 20), {}});
        places.push_back(i);
        break;
      }
    }
  }
  if (list.empty()) {
    return {};
  }
  const Status made = make_all(attempt_dirfd, list);
  if (made.has_error()) {
    (void)remove_placeholders(attempt_dirfd);
    return made;
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    compiled.protected_names[places[i]].identity = list[i].identity;
  }
  return {};
}

Status remove_placeholders(int attempt_dirfd, std::vector<std::string>* kept, bool* away) {
  const Status overlay = remove_overlay_directories(attempt_dirfd);
  const Status groups = remove_control_groups(attempt_dirfd);
  const Status placeholders = remove_recorded(attempt_dirfd, kept, away);
  return placeholders.has_error() ? placeholders : overlay.has_error() ? overlay : groups;
}

}  // namespace hitchrail::boundary
