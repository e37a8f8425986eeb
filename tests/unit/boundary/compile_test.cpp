// The policy compiler as a function of values: which backend, what evidence, whose ids.
#include <algorithm>
#include <catch2/catch.hpp>

#include "boundary/boundary.hpp"
#include "core/canonical.hpp"
#include "core/json.hpp"

using namespace hitchrail;
using namespace hitchrail::boundary;

namespace {

Machine machine_with(bool native, int abi, std::uint32_t uid = 1000) {
  Machine machine;
  machine.uid = machine.gid = uid;
  machine.seccomp = true;
  machine.user_namespaces = machine.mount_api = machine.pid_namespace = machine.net_namespace = native;
  machine.landlock_abi = abi;
  machine.system = {{Root{"/usr", {9, 1}, true, 0, 0}, "/usr"}};
  if (!native) {
    machine.missing.push_back({"userns-denied", "A user namespace cannot be made", "Allow user namespaces"});
  }
  if (abi < 3) {
    machine.missing.push_back({"landlock-abi-old", "Landlock is too old", "Use a newer kernel"});
  }
  return machine;
}

Roots roots() {
  Roots roots;
  roots.worktree = WritableRoot{Root{"/srv/tree", {9, 2}, true, 1000, 1000},
                                {{".git", EntryKind::directory, {9, 3}},
                                 {"link", EntryKind::symlink, {9, 4}},
                                 {"src", EntryKind::directory, {9, 5}},
                                 {"x.c", EntryKind::file, {9, 6}}},
                                false};
  roots.operator_home = "/home/ann";
  return roots;
}

Preset preset(std::vector<std::string> required = {"filesystem.read", "filesystem.write"}) {
  Preset preset;
  preset.id = "test";
  preset.required_capabilities = std::move(required);
  preset.digest = "sha256:0";
  return preset;
}

Compiled compiled(const Preset& policy, const Machine& machine, const Options& options = {},
                  Roots with = roots()) {
  auto result = compile(policy, with, machine, options);
  REQUIRE(result.has_value());
  return result.value();
}

std::vector<std::string> codes(const Compiled& boundary) {
  std::vector<std::string> list;
  for (const Blocker& blocker : boundary.blockers) {
    list.push_back(blocker.error.code);
  }
  return list;
}

}  // namespace

TEST_CASE("native is taken where it works, landlock where only it does") {
  CHECK(compiled(preset(), machine_with(true, 7)).backend == Backend::native);
  CHECK(compiled(preset(), machine_with(true, 0)).backend == Backend::native);
  const Compiled fallback = compiled(preset(), machine_with(false, 7));
  CHECK(fallback.backend == Backend::landlock);
  CHECK(fallback.blockers.empty());
  CHECK(fallback.warnings.front().code == "backend-landlock");
}

TEST_CASE("a capability that no backend proves is a refusal with its reasons, never a weaker boundary") {
  const Compiled refused = compiled(preset({"filesystem.metadata"}), machine_with(false, 7));
  CHECK(codes(refused) == std::vector<std::string>{"userns-denied", "capability-unproven"});
  CHECK_FALSE(refused.blockers[0].error.remedy.empty());
  CHECK(refused.evidence.get("state").as_string() == "unavailable");
  CHECK(admit(refused).error().code == "userns-denied");
  CHECK(flat_plan(refused, {}, {}).error().code == "userns-denied");
}

TEST_CASE("without any backend every finding is a blocker and switching off is not offered") {
  const Compiled refused = compiled(preset(), machine_with(false, 2));
  CHECK(codes(refused) == std::vector<std::string>{"userns-denied", "landlock-abi-old"});
  for (const Blocker& blocker : refused.blockers) {
    CHECK(blocker.error.remedy.find("off") == std::string::npos);
  }
}

TEST_CASE("a named backend is taken or refused, never replaced") {
  CHECK(compiled(preset(), machine_with(true, 7), {.backend = Backend::landlock}).backend ==
        Backend::landlock);
  const Compiled refused = compiled(preset(), machine_with(false, 7), {.backend = Backend::native});
  CHECK(codes(refused) == std::vector<std::string>{"userns-denied"});
}

TEST_CASE("the landlock backend grants the entries one by one and no protected name") {
  const Compiled boundary = compiled(preset(), machine_with(false, 7));
  std::vector<std::string> entries;
  for (const Grant& grant : boundary.grants) {
    if (grant.role == "entry") {
      entries.push_back(grant.target);
    }
  }
  CHECK(entries == std::vector<std::string>{"/srv/tree/src", "/srv/tree/x.c"});
  CHECK_FALSE(boundary.unix_sockets);
}

TEST_CASE("network none is proven by a network namespace, or by sockets that cannot be made") {
  Preset none = preset({"network.none"});
  none.network = Network::none;
  const Compiled native = compiled(none, machine_with(true, 7));
  CHECK(native.net_namespace);
  CHECK(native.inet_sockets);
  const Compiled landlock = compiled(none, machine_with(false, 7));
  CHECK_FALSE(landlock.inet_sockets);
  CHECK(landlock.blockers.empty());
  CHECK(codes(compiled(preset({"network.none"}), machine_with(true, 7))) ==
        std::vector<std::string>{"capability-unproven", "capability-unproven"});  // each backend says so
}

TEST_CASE("a run that root starts is the worktree owner's; a user's run keeps its uid") {
  const Compiled owner = compiled(preset(), machine_with(true, 7, 0));
  CHECK(owner.switch_user);
  CHECK(owner.uid == 1000);
  Roots of_root = roots();
  of_root.worktree->root.uid = of_root.worktree->root.gid = 0;
  const Compiled root = compiled(preset(), machine_with(true, 7, 0), {}, of_root);
  CHECK_FALSE(root.switch_user);
  CHECK(root.uid == 0);
  CHECK(std::any_of(root.warnings.begin(), root.warnings.end(),
                    [](const Warning& w) { return w.code == "uid-0"; }));
  const Compiled user = compiled(preset(), machine_with(true, 7, 1001));
  CHECK_FALSE(user.switch_user);
  CHECK(user.uid == 1001);
}

TEST_CASE("the policy hash is of roles and roots: stable, and another for every change of policy") {
  const std::string first = compiled(preset(), machine_with(true, 7)).policy_hash;
  CHECK(first.rfind("sha256:", 0) == 0);
  CHECK(compiled(preset(), machine_with(true, 7)).policy_hash == first);
  CHECK(compiled(preset(), machine_with(true, 6)).policy_hash ==
        first);  // the machine is evidence, not policy
  Preset none = preset();
  none.network = Network::none;
  CHECK(compiled(none, machine_with(true, 7)).policy_hash != first);
  CHECK(compiled(preset(), machine_with(true, 7), {.backend = Backend::landlock}).policy_hash != first);
  CHECK(compiled(preset(), machine_with(true, 7), {.max_processes = 7}).policy_hash != first);
  Roots more = roots();
  more.read.push_back(Root{"/srv/other", {9, 8}, true, 0, 0});
  CHECK(compiled(preset(), machine_with(true, 7), {}, more).policy_hash != first);
  more = roots();
  more.denied.push_back(Root{"/srv/tree/src", {9, 5}, true, 0, 0});
  CHECK(compiled(preset(), machine_with(true, 7), {}, more).policy_hash != first);
}

TEST_CASE("evidence names backend, roots, protected names and what is not proven, and is canonical") {
  const Compiled boundary = compiled(preset(), machine_with(false, 7));
  const json::Value& evidence = boundary.evidence;
  CHECK(evidence.get("schemaVersion").as_string() == "filesystem-sandbox-evidence/v1");
  CHECK(evidence.get("state").as_string() == "enforced");
  CHECK(evidence.get("backend").as_string() == "landlock");
  CHECK(evidence.get("platformBackend").as_string() == "linux-landlock");
  CHECK(evidence.get("protectedPaths").items().size() == 5);
  CHECK(evidence.get("absentNames").as_string() == "not-granted");
  bool metadata = false;
  for (const json::Value& name : evidence.get("doesNotProve").items()) {
    metadata = metadata || name.as_string() == "filesystem.metadata";
  }
  CHECK(metadata);
  CHECK(document_digest(evidence).has_value());
}

TEST_CASE("evidence holds digests and never a path") {
  Roots with = roots();
  with.read = {Root{"/srv/data", {9, 20}, true, 0, 0}};
  with.stores = {Root{"/srv/store", {9, 21}, true, 0, 0}};
  with.path = {Root{"/home/ann/bin", {9, 22}, true, 0, 0}};
  with.packages = {Root{"/opt/tool", {9, 23}, true, 0, 0}};
  with.denied = {Root{"/srv/tree/src", {9, 5}, true, 0, 0}};
  with.denied_absent = {"/srv/tree/private-name"};
  const Compiled boundary = compiled(preset(), machine_with(true, 7), {}, with);
  REQUIRE(boundary.blockers.empty());
  const std::string text = json::write(boundary.evidence);
  for (const char* path : {"/srv", "/home/ann", "/opt", "/usr", "private-name"}) {
    INFO(path);
    CHECK(text.find(path) == std::string::npos);
  }
  std::vector<std::string> access;
  for (const json::Value& root : boundary.evidence.get("roots").items()) {
    access.push_back(root.get("scope").as_string() + " " + root.get("access").as_string());
    const bool run = root.get("scope").as_string() == "run";
    CHECK(root.get("pathDigest").is_string() != run);
  }
  for (const char* wanted :
       {"workspace write", "platform-runtime read", "absolute read", "absolute deny", "run write"}) {
    INFO(wanted);
    CHECK(std::find(access.begin(), access.end(), wanted) != access.end());
  }
  CHECK(text.find(sha256_prefixed("/srv/tree")) != std::string::npos);
}

TEST_CASE("evidence says how each protected name is held") {
  const auto mechanisms = [](const Compiled& boundary) {
    std::vector<std::string> list;
    for (const json::Value& name : boundary.evidence.get("protectedPaths").items()) {
      list.push_back(name.get("name").as_string() + " " + name.get("mechanism").as_string());
    }
    std::sort(list.begin(), list.end());
    return list;
  };
  Roots with = roots();
  CHECK(mechanisms(compiled(preset(), machine_with(true, 7), {}, with)).at(3) == ".git read-only");
  with.git_objects = Root{"/srv/tree/.git/objects", {9, 30}, true, 0, 0};
  const auto native = mechanisms(compiled(preset(), machine_with(true, 7), {}, with));
  CHECK(native.at(3) == ".git private-git");
  CHECK((native.at(0) == ".agents placeholder" || native.at(0) == ".agents overlay"));
  CHECK(mechanisms(compiled(preset(), machine_with(false, 7), {}, with)).at(0) == ".agents not-granted");
}

TEST_CASE("evidence says the user, the network, the limits, the proof and who cleans up") {
  Preset policy = preset();
  policy.network = Network::gate;
  policy.max_processes = 5;
  policy.max_memory = 1 << 30;
  policy.dotfile_masking = false;
  Options options;
  options.proof = "sha256:proof";
  const json::Value evidence = compiled(policy, machine_with(true, 7), options).evidence;
  CHECK(evidence.get("network").as_string() == "gate");
  CHECK(evidence.get("maxProcesses").as_int() == 5);
  CHECK(evidence.get("maxMemory").as_int() == 1 << 30);
  CHECK(evidence.get("proof").as_string() == "sha256:proof");
  CHECK(evidence.get("userMode").as_string() == "same");
  CHECK(evidence.get("descendantsEnforced").as_bool());
  CHECK(evidence.get("cleanupOwner").as_string() == "finisher");
  CHECK(evidence.get("presetDigest").as_string() == "sha256:0");
  CHECK(evidence.get("masks").as_int() == 0);
  CHECK(evidence.get("notHeld").items().empty());
  CHECK_FALSE(compiled(preset(), machine_with(true, 7)).evidence.get("proof").is_string());
  const std::string by_root =
      compiled(preset(), machine_with(true, 7, 0)).evidence.get("userMode").as_string();
  CHECK((by_root == "owner" || by_root == "own"));
}

TEST_CASE("a mount inside a writable root is refused") {
  Machine machine = machine_with(true, 7);
  machine.mount_points = {"/", "/srv", "/srv/tree/data"};
  CHECK(codes(compiled(preset(), machine)) == std::vector<std::string>{"nested-mount"});
  machine.mount_points = {"/", "/srv/tree", "/srv/tree-two"};
  CHECK(codes(compiled(preset(), machine)).empty());
}

TEST_CASE("more entries than the landlock backend takes are refused there only") {
  Roots many = roots();
  many.worktree->too_many_entries = true;
  CHECK(codes(compiled(preset(), machine_with(false, 7), {}, many)) ==
        std::vector<std::string>{"too-many-entries"});
  CHECK(codes(compiled(preset(), machine_with(true, 7), {}, many)).empty());
}

TEST_CASE(
    "what is denied is masked by the native backend; landlock leaves it out, or refuses what it cannot "
    "hold") {
  Roots denying = roots();
  denying.denied = {Root{"/srv/tree/x.c", {9, 6}, false, 0, 0}};
  const Compiled left_out = compiled(preset(), machine_with(false, 7), {}, denying);
  CHECK(codes(left_out).empty());
  CHECK(std::none_of(left_out.grants.begin(), left_out.grants.end(),
                     [](const Grant& grant) { return grant.target == "/srv/tree/x.c"; }));
  denying.denied = {Root{"/srv/tree/src/key", {9, 7}, false, 0, 0}};
  CHECK(codes(compiled(preset(), machine_with(false, 7), {}, denying)) ==
        std::vector<std::string>{"deny-unproven"});
  CHECK(codes(compiled(preset(), machine_with(true, 7), {}, denying)).empty());
}

TEST_CASE("a login file is bound where it can be, else the caller is told to copy it") {
  Roots with = roots();
  with.credentials = {{Root{"/home/ann/.codex/auth.json", {9, 9}, false, 1000, 1000}, ".codex/auth.json"}};
  CHECK_FALSE(compiled(preset(), machine_with(true, 7), {}, with).copy_credentials);
  CHECK(compiled(preset(), machine_with(false, 7), {}, with).copy_credentials);
  CHECK(compiled(preset(), machine_with(true, 7, 0), {}, with).copy_credentials);
}
