#include "boundary/verification.hpp"

#include <fcntl.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <charconv>

#include "boundary/internal.hpp"
#include "core/canonical.hpp"
#include "pathfs/pathfs.hpp"
#include "pathfs/walk.hpp"

namespace hitchrail::boundary {
namespace {

constexpr std::uint64_t gate_processes = 4096;

Error invalid(std::string what) {
  return Error{ErrorClass::failed, "verification-policy-invalid",      "read the policy of a run",
               std::move(what),    "It is not what the launch wrote.", ""};
}

// ---- writing
json::Value number(std::uint64_t value) {
  return std::to_string(value);  // inode and device numbers may be over 2^53
}

json::Value root_json(const Root& root) {
  return json::Value::object({{"path", path_value(root.path)},
                              {"device", number(root.identity.dev)},
                              {"inode", number(root.identity.ino)},
                              {"directory", root.directory},
                              {"uid", root.uid},
                              {"gid", root.gid}});
}
json::Value roots_json(const std::vector<Root>& roots) {
  json::Value list = json::Value::array();
  for (const Root& root : roots) {
    list.push(root_json(root));
  }
  return list;
}

json::Value grants_json(const Compiled& run) {
  json::Value list = json::Value::array();
  for (const Grant& grant : run.grants) {
    if (grant.role != "system") {  // those of the machine, later
      list.push(json::Value::object({{"role", grant.role},
                                     {"source", root_json(grant.source)},
                                     {"target", path_value(grant.target)},
                                     {"writable", grant.writable},
                                     {"executable", grant.executable}}));
    }
  }
  return list;
}

json::Value protected_json(const Compiled& run) {
  json::Value list = json::Value::array();
  for (const Protected& name : run.protected_names) {
    // What was absent has the identity of its stand-in, which ends with the run.
    const Identity identity = name.state == EntryKind::absent ? Identity{} : name.identity;
    list.push(json::Value::object({{"root", path_value(name.root)},
                                   {"name", name.name},
                                   {"kind", name.state == EntryKind::absent      ? "absent"
                                            : name.state == EntryKind::directory ? "directory"
                                                                                 : "file"},
                                   {"device", number(identity.dev)},
                                   {"inode", number(identity.ino)}}));
  }
  return list;
}

// ---- reading
class Reader {
 public:
  Result<std::string> path(const json::Value& value, const char* what) {
    auto text = path_text(value);
    if (text.has_error() || !canonical_text(text.value())) {
      return invalid(what);
    }
    return text;
  }
  Result<std::uint64_t> number(const json::Value& value, const char* what) {
    const std::string& text = value.as_string();
    std::uint64_t out = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
      return invalid(what);
    }
    return out;
  }
  Result<std::uint32_t> id(const json::Value& value, const char* what) {
    const auto out = value.as_int();
    if (!out || *out < 0 || *out > 0xfffffffeLL) {
      return invalid(what);
    }
    return static_cast<std::uint32_t>(*out);
  }
  Result<Identity> identity(const json::Value& value) {
    HR_TRY(dev, number(value.get("device"), "device"));
    HR_TRY(ino, number(value.get("inode"), "inode"));
    return Identity{dev, ino};
  }
  Result<Root> root(const json::Value& value) {
    Root out;
    HR_TRY(where, path(value.get("path"), "path"));
    HR_TRY(what, identity(value));
    HR_TRY(uid, id(value.get("uid"), "uid"));
    HR_TRY(gid, id(value.get("gid"), "gid"));
    out.path = std::move(where);
    out.identity = what;
    out.directory = value.get("directory").as_bool();
    out.uid = uid;
    out.gid = gid;
    return out;
  }
  Result<std::vector<Root>> roots(const json::Value& list) {
    std::vector<Root> out;
    for (const json::Value& each : list.items()) {
      HR_TRY(one, root(each));
      out.push_back(std::move(one));
    }
    return out;
  }
};

Status read_grants(const json::Value& policy, Reader& read, Compiled& out) {
  for (const json::Value& each : policy.get("grants").items()) {
    Grant grant;
    HR_TRY(source, read.root(each.get("source")));
    HR_TRY(target, read.path(each.get("target"), "target"));
    grant.role = each.get("role").as_string();
    grant.source = std::move(source);
    grant.target = std::move(target);
    grant.writable = each.get("writable").as_bool();
    grant.executable = each.get("executable").as_bool();
    out.grants.push_back(std::move(grant));
  }
  for (const json::Value& each : policy.get("protected").items()) {
    Protected name;
    HR_TRY(root, read.path(each.get("root"), "protected"));
    HR_TRY(identity, read.identity(each));
    const std::string& kind = each.get("kind").as_string();
    name.root = std::move(root);
    name.name = each.get("name").as_string();
    name.state = kind == "absent"      ? EntryKind::absent
                 : kind == "directory" ? EntryKind::directory
                                       : EntryKind::file;
    name.identity = identity;
    out.protected_names.push_back(std::move(name));
  }
  return {};
}

Status read_user(const json::Value& user, Reader& read, Compiled& out) {
  const std::pair<const char*, std::uint32_t*> members[] = {{"uid", &out.uid},
                                                            {"gid", &out.gid},
                                                            {"runUid", &out.run_uid},
                                                            {"runGid", &out.run_gid},
                                                            {"insideUid", &out.inside_uid},
                                                            {"insideGid", &out.inside_gid}};
  for (const auto& [name, to] : members) {
    HR_TRY(value, read.id(user.get(name), name));
    *to = value;
  }
  out.switch_user = user.get("switch").as_bool();
  out.idmapped = user.get("idmapped").as_bool();
  return {};
}

std::uint64_t scratch_of_this_machine() {
  struct sysinfo info {};
  const std::uint64_t memory = sysinfo(&info) == 0 ? std::uint64_t{info.totalram} * info.mem_unit : 0;
  return std::clamp<std::uint64_t>(memory / 4, 64u << 20, std::uint64_t{4} << 30);
}

void take_machine(const Machine& now, Compiled& out) {
  for (const SystemPath& path : now.system) {
    out.grants.push_back({"system", path.source, path.target, false, true});
  }
  out.links = now.links;
  out.devices = now.devices;
  out.proc = now.proc;
  out.shell = now.shell.empty() ? out.shell : now.shell;
  out.landlock_abi = now.landlock_abi;
  out.control_groups = now.control_groups;
  const bool native = out.backend == Backend::native;
  out.fixed_inside = native;
  out.net_namespace = native && now.net_namespace;
  // Without a network namespace of its own no socket at all: abstract names are the network's.
  out.inet_sockets = out.unix_sockets = out.net_namespace;
}

// ---- what is hidden, wherever it is now
class Finder {
 public:
  explicit Finder(const Compiled& compiled) : compiled_(compiled) {}

  // Keeps what is at its place, gives what is elsewhere its new path, and drops what is certainly gone.
  Status update(std::vector<Root>& hidden) {
    std::vector<Root> now;
    for (const Root& root : hidden) {
      if (!movable(root) || at_its_place(root)) {
        now.push_back(root);
        continue;
      }
      HR_CHECK(look_everywhere());
      const auto found = std::find_if(seen_.begin(), seen_.end(),
                                      [&](const Root& each) { return each.identity == root.identity; });
      if (found != seen_.end()) {
        Root moved = root;
        moved.path = found->path;
        now.push_back(std::move(moved));
      } else if (!complete_) {
        return Error{ErrorClass::refused,
                     "hidden-lost",
                     "make the boundary of a gate",
                     root.path,
                     "It was hidden from the run, is not there any more, and not every directory could be "
                     "searched for it.",
                     "Look for what the run moved or closed."};
      }
    }
    hidden = std::move(now);
    return {};
  }

 private:
  [[nodiscard]] bool movable(const Root& root) const {
    return std::any_of(compiled_.grants.begin(), compiled_.grants.end(), [&](const Grant& grant) {
      return grant.writable && grant.role != "entry" && grant.source.path != root.path &&
             contains(grant.source.path, root.path);
    });
  }
  static bool at_its_place(const Root& root) {
    const std::size_t slash = root.path.rfind('/');
    const auto parent =
        pathfs::open_absolute(slash == 0 ? "/" : root.path.substr(0, slash), O_PATH | O_DIRECTORY);
    if (parent.has_error()) {
      return false;
    }
    const auto now = pathfs::identify_at(parent.value().get(), root.path.substr(slash + 1));
    return now.has_value() && Identity{now.value().device, now.value().inode} == root.identity;
  }
  // Every directory and file below the writable roots; the run cannot have carried anything out of them.
  Status look_everywhere() {
    if (looked_) {
      return {};
    }
    looked_ = true;
    for (const Grant& grant : compiled_.grants) {
      if (!grant.writable || grant.role == "entry") {
        continue;
      }
      auto root = pathfs::open_absolute(grant.source.path, O_RDONLY | O_DIRECTORY);
      if (root.has_error()) {
        complete_ = false;
        continue;
      }
      const pathfs::WalkLimits limits{256, 250'000, 500'000};
      const auto walked = pathfs::walk(root.value().get(), "", limits, [&](const pathfs::Visit& visit) {
        const auto now = pathfs::identify_at(visit.directory, visit.name);
        if (now.has_value()) {
          Root each;
          each.path = grant.source.path + "/" + visit.path();
          each.identity = {now.value().device, now.value().inode};
          seen_.push_back(std::move(each));
        }
        return pathfs::Next::go_on;
      });
      complete_ = complete_ && walked.has_value() && walked.value().unreadable == 0;
    }
    return {};
  }

  const Compiled& compiled_;
  std::vector<Root> seen_;
  bool looked_ = false;
  bool complete_ = true;
};

}  // namespace

json::Value verification_policy(const Compiled& run) {
  json::Value policy = json::Value::object();
  policy.set("backend", backend_name(run.backend));
  policy.set("presetId", run.preset_id);
  policy.set("policyHash", run.policy_hash);
  policy.set("user", json::Value::object({{"uid", run.uid},
                                          {"gid", run.gid},
                                          {"runUid", run.run_uid},
                                          {"runGid", run.run_gid},
                                          {"insideUid", run.inside_uid},
                                          {"insideGid", run.inside_gid},
                                          {"switch", run.switch_user},
                                          {"idmapped", run.idmapped}}));
  policy.set("worktree", path_value(run.worktree));
  policy.set("git", json::Value::object({{"private", run.has_git}, {"file", run.git_file}}));
  policy.set("grants", grants_json(run));
  policy.set("protected", protected_json(run));
  policy.set("denied", roots_json(run.denied));
  policy.set("masks", roots_json(run.masks));
  policy.set("nestedGit", roots_json(run.nested_git));
  json::Value path = json::Value::array();
  for (const std::string& directory : run.path_directories) {
    path.push(path_value(directory));
  }
  policy.set("path", std::move(path));
  policy.set("maxProcesses", number(run.max_processes));
  policy.set("maxMemory", number(run.max_memory));
  return policy;
}

Result<Compiled> verification_design(const json::Value& policy, const Machine& now,
                                     const VerificationOptions& options) {
  Compiled out;
  Reader read;
  const std::string& backend = policy.get("backend").as_string();
  if (backend != "native" && backend != "landlock") {
    return invalid("backend");
  }
  out.backend = backend == "native" ? Backend::native : Backend::landlock;
  if (!backend_usable(out.backend, now)) {
    return Error{ErrorClass::environment,        "backend-unavailable",
                 "make the boundary of a gate",  backend,
                 "It cannot be had here (now).", "Run: hitchrail doctor"};
  }
  out.network = Network::none;
  out.preset_id = policy.get("presetId").as_string();
  out.policy_hash = policy.get("policyHash").as_string();
  HR_TRY(worktree, read.path(policy.get("worktree"), "worktree"));
  out.worktree = std::move(worktree);
  out.has_git = policy.get("git").get("private").as_bool();
  out.git_file = policy.get("git").get("file").as_bool();
  HR_CHECK(read_user(policy.get("user"), read, out));
  HR_CHECK(read_grants(policy, read, out));
  HR_TRY(denied, read.roots(policy.get("denied")));
  HR_TRY(masks, read.roots(policy.get("masks")));
  HR_TRY(nested, read.roots(policy.get("nestedGit")));
  out.denied = std::move(denied);
  out.masks = std::move(masks);
  out.nested_git = std::move(nested);
  for (const json::Value& each : policy.get("path").items()) {
    HR_TRY(directory, read.path(each, "path"));
    out.path_directories.push_back(std::move(directory));
  }
  HR_TRY(processes, read.number(policy.get("maxProcesses"), "maxProcesses"));
  HR_TRY(memory, read.number(policy.get("maxMemory"), "maxMemory"));
  out.max_processes = processes != 0 ? processes : gate_processes;
  take_machine(now, out);
  out.max_memory = memory;
  out.verification = {true, options.layered && out.backend == Backend::native,
                      options.scratch_bytes != 0 ? options.scratch_bytes : scratch_of_this_machine()};
  return out;
}

Result<Compiled> verification_boundary(const json::Value& policy, const Machine& now,
                                       const VerificationOptions& options) {
  HR_TRY(out, verification_design(policy, now, options));
  Finder finder(out);
  HR_CHECK(finder.update(out.masks));
  HR_CHECK(finder.update(out.nested_git));
  HR_CHECK(finder.update(out.denied));
  return out;
}

Status make_verification_limits(Compiled& compiled, int attempt_dirfd) {
  return make_control_groups(compiled, attempt_dirfd);
}

Status remove_verification_limits(int attempt_dirfd) {
  return remove_control_groups(attempt_dirfd);
}

}  // namespace hitchrail::boundary
