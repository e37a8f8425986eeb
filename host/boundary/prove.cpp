#include "boundary/prove.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "boundary/internal.hpp"
#include "boundary/probe_world.hpp"
#include "core/canonical.hpp"
#include "core/file.hpp"
#include "core/ids.hpp"
#include "probe/table.hpp"

namespace hitchrail::boundary {
namespace {

using probe::Row;

constexpr const char* programs[] = {"hitchrail-init", "hitchrail-probe", "hitchrail-shim"};
constexpr std::size_t max_program_bytes = 64u << 20;
constexpr std::size_t max_cache_bytes = 1u << 20;

std::int64_t nanos(const timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// ---- what a proof is of
struct Program {
  std::string name;
  FileIdentity identity;
  std::string digest;  // "absent" for a shim that is not installed
};

Result<Program> look_at_program(const std::string& folder, const std::string& name,
                                const json::Value* remembered) {
  Program program;
  program.name = name;
  const std::string path = folder + "/" + name;
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) {
    if (name == "hitchrail-shim" && errno == ENOENT) {
      program.digest = "absent";
      return program;
    }
    return errno_error("open", path, errno);
  }
  struct stat info {};
  if (fstat(file.get(), &info) < 0) {
    return errno_error("stat", path, errno);
  }
  program.identity = {info.st_dev, info.st_ino, static_cast<std::uint64_t>(info.st_size), nanos(info.st_mtim),
                      nanos(info.st_ctim)};
  if (remembered != nullptr) {
    const json::Value& known = remembered->get(name);
    const auto is = [&](const char* field, std::uint64_t value) {
      return known.get(field).as_string() == std::to_string(value);
    };
    if (is("device", info.st_dev) && is("inode", info.st_ino) && is("size", program.identity.size) &&
        is("mtime", static_cast<std::uint64_t>(program.identity.mtime_ns)) &&
        is("ctime", static_cast<std::uint64_t>(program.identity.ctime_ns))) {
      program.digest = known.get("digest").as_string();
      return program;
    }
  }
  HR_TRY(bytes, read_all(file.get(), max_program_bytes));
  program.digest = sha256_prefixed(bytes);
  return program;
}

struct Subject {
  std::vector<Program> programs;
  std::string key;
  [[nodiscard]] json::Value identities() const {
    json::Value all = json::Value::object();
    for (const Program& each : programs) {
      json::Value one = json::Value::object();
      one.set("device", std::to_string(each.identity.dev));
      one.set("inode", std::to_string(each.identity.ino));
      one.set("size", std::to_string(each.identity.size));
      one.set("mtime", std::to_string(static_cast<std::uint64_t>(each.identity.mtime_ns)));
      one.set("ctime", std::to_string(static_cast<std::uint64_t>(each.identity.ctime_ns)));
      one.set("digest", each.digest);
      all.set(each.name, std::move(one));
    }
    return all;
  }
};

Result<Subject> subject_of(const Machine& machine, Backend backend, const json::Value* remembered) {
  Subject subject;
  HR_TRY(init, init_path());
  HR_TRY(present, probe_path());
  (void)present;
  const std::string folder = init.substr(0, init.rfind('/'));
  for (const char* name : programs) {
    HR_TRY(program, look_at_program(folder, name, remembered));
    subject.programs.push_back(std::move(program));
  }
  utsname system{};
  uname(&system);
  std::string key = std::string("proof ") + std::to_string(proof_revision);
  const auto add = [&](const std::string& word) { key += "\n" + word; };
  for (const Program& program : subject.programs) {
    add(program.name + " " + program.digest);
  }
  add(std::string(system.release) + " " + system.version + " " + system.machine);
  add(std::string("backend ") + backend_name(backend));
  add("landlock " + std::to_string(machine.landlock_abi));
  add("net " + std::to_string(machine.net_namespace) + std::to_string(machine.user_namespaces) +
      std::to_string(machine.mount_api) + std::to_string(machine.pid_namespace));
  add(machine.uid == 0 ? "root" : "user");
  for (const bool inet : {false, true}) {
    for (const bool unix_sockets : {false, true}) {
      HR_TRY(filter, seccomp_filter({.inet = inet, .unix_sockets = unix_sockets}));
      add(sha256_prefixed(filter));
    }
  }
  subject.key = std::move(key);
  return subject;
}

std::string cache_name(Backend backend, const Machine& machine) {
  return std::string("proof-") + backend_name(backend) + (machine.uid == 0 ? "-root" : "-user") + ".json";
}

// ---- judging
const char* layer_name(char letter) {
  switch (letter) {
    case 'C':
      return "capabilities";
    case 'N':
      return "namespaces";
    case 'L':
      return "landlock";
    default:
      return "seccomp";
  }
}

std::string layers_of(const probe::Expected& expected, Backend backend, const Row& row, int abi) {
  std::string text;
  for (const char* letter = expected.alone; *letter != '\0'; ++letter) {
    const bool there = (*letter != 'N' || backend == Backend::native) &&
                       (*letter != 'L' || (abi > 0 && abi >= row.scope_abi));
    if (there) {
      text += (text.empty() ? "" : ", ") + std::string(layer_name(*letter));
    }
  }
  return text;
}

bool stopped(const std::string& answer) {
  return answer.rfind("refused ", 0) == 0 || answer.rfind("killed ", 0) == 0;
}

// Whether this row says something about this backend: what must work is asked only where it is promised.
bool concerns(const Row& row, Backend backend, bool root, int abi, const std::vector<std::string>& declared) {
  if (std::find(declared.begin(), declared.end(), row.capability) == declared.end()) {
    return false;
  }
  const probe::Expected& expected = probe::expected(row, root);
  const char* answer = backend == Backend::native ? expected.native : expected.landlock;
  const bool promised = std::string_view(answer) == "through";
  if (row.kind == probe::Kind::must_work) {
    return promised;
  }
  // Without scopes `sockets.abstract` of the host's network is not claimed (compile.cpp).
  return !promised &&
         !(backend == Backend::native && std::string_view(row.capability) == "sockets.abstract" &&
           row.setting == probe::Setting::host_network && abi < row.scope_abi);
}

ProbeOutcome judge(const Row& row, Backend backend, const Answers& controls, const Answers& inside, bool root,
                   int abi) {
  ProbeOutcome outcome;
  outcome.id = row.id;
  outcome.capability = row.capability;
  const auto answer_of = [&](const Answers& answers) {
    const auto found = answers.find(row.id);
    return found != answers.end() ? found->second : std::string("broken no answer");
  };
  outcome.control = answer_of(controls);
  outcome.inside = answer_of(inside);
  outcome.layers = layers_of(probe::expected(row, root), backend, row, abi);
  outcome.judged = outcome.control == "through" || row.control == probe::Control::works;
  if (outcome.control != "through") {
    outcome.good = false;  // where a control is certain everywhere, a missing one is a failure
  } else if (row.kind == probe::Kind::must_work) {
    outcome.good = outcome.inside == "through";
  } else {
    outcome.good = stopped(outcome.inside);
  }
  return outcome;
}

std::vector<CapabilityProof> summarise(const std::vector<ProbeOutcome>& outcomes,
                                       const std::vector<std::string>& declared) {
  std::vector<CapabilityProof> list;
  for (const std::string& name : capability_names()) {
    CapabilityProof proof;
    proof.capability = name;
    proof.declared = std::find(declared.begin(), declared.end(), name) != declared.end();
    for (const ProbeOutcome& outcome : outcomes) {
      if (outcome.capability != name || !outcome.judged) {
        continue;
      }
      ++proof.probes;
      if (!outcome.good) {
        proof.failed.push_back(outcome.id);
      }
    }
    proof.proved = proof.declared && proof.probes > 0 && proof.failed.empty();
    if (proof.declared || proof.probes > 0) {
      list.push_back(std::move(proof));
    }
  }
  return list;
}

// Under `gate` the run has the very network namespace of `none`; the gate's own sockets are the shim's and
// init's business (they are made inside it and handed out), and tested there.
void add_gate(Proof& proof) {
  for (const CapabilityProof& each : proof.capabilities) {
    if (each.capability == "network.none" && each.declared && proof.backend == Backend::native) {
      CapabilityProof gate = each;
      gate.capability = "network.gate";
      proof.capabilities.push_back(std::move(gate));
      break;
    }
  }
  std::sort(proof.capabilities.begin(), proof.capabilities.end(),
            [](const CapabilityProof& a, const CapabilityProof& b) { return a.capability < b.capability; });
}

// ---- the document
json::Value words(const std::vector<std::string>& list) {
  json::Value array = json::Value::array();
  for (const std::string& word : list) {
    array.push(word);
  }
  return array;
}

Proof proof_from(const json::Value& document, Backend backend) {
  Proof proof;
  proof.backend = backend;
  proof.from_cache = true;
  proof.took_ms = document.get("tookMs").as_int().value_or(0);
  for (const json::Value& item : document.get("capabilities").items()) {
    CapabilityProof one;
    one.capability = item.get("capability").as_string();
    one.proved = item.get("proved").as_bool();
    one.declared = item.get("declared").as_bool();
    one.probes = static_cast<unsigned>(item.get("probes").as_int().value_or(0));
    for (const json::Value& id : item.get("failed").items()) {
      one.failed.emplace_back(id.as_string());
    }
    proof.capabilities.push_back(std::move(one));
  }
  for (const json::Value& item : document.get("outcomes").items()) {
    ProbeOutcome one;
    one.id = item.get("id").as_string();
    one.capability = item.get("capability").as_string();
    one.control = item.get("control").as_string();
    one.inside = item.get("inside").as_string();
    one.layers = item.get("layers").as_string();
    one.judged = item.get("judged").as_bool();
    one.good = item.get("good").as_bool();
    proof.outcomes.push_back(std::move(one));
  }
  return proof;
}

// Only ours, only 0600, only whole.
std::optional<json::Value> read_cache(int dirfd, const std::string& name) {
  if (dirfd < 0) {
    return std::nullopt;
  }
  auto file = open_at(dirfd, name, O_RDONLY | O_NONBLOCK);
  struct stat info {};
  if (file.has_error() || fstat(file.value().get(), &info) < 0 || !S_ISREG(info.st_mode) ||
      info.st_uid != geteuid() || (info.st_mode & 0777) != 0600) {
    return std::nullopt;
  }
  auto text = read_all(file.value().get(), max_cache_bytes);
  if (text.has_error()) {
    return std::nullopt;
  }
  auto document = json::parse(text.value(), json::Duplicates::refuse, "boundary proof");
  if (document.has_error() || verify_document(document.value()).has_error()) {
    return std::nullopt;
  }
  return std::move(document).value();
}

std::string cache_document(const Proof& proof, const Subject& subject) {
  const bool whole = std::all_of(proof.capabilities.begin(), proof.capabilities.end(),
                                 [](const CapabilityProof& each) { return each.proved || !each.declared; });
  if (!whole) {
    return "";  // a failure is looked at anew each time
  }
  json::Value document = proof_document(proof);
  document.set("key", subject.key);
  document.set("programs", subject.identities());
  return seal_document(document).has_value() ? json::write(document) : "";
}

Result<Proof> prove_now(const Machine& machine, Backend backend) {
  const std::int64_t begin = monotonic_nanos();
  const bool root = machine.uid == 0;
  Compiled shape;
  shape.backend = backend;
  shape.network = backend == Backend::native && !machine.net_namespace ? Network::host : Network::none;
  const std::vector<std::string> declared = proven_capabilities(shape, machine);
  Answers inside;
  std::vector<std::string> ids[2];
  std::vector<const Row*> rows;
  for (unsigned i = 0; i < probe::group_count; ++i) {
    for (unsigned j = 0; j < probe::groups[i].count; ++j) {
      const Row& row = probe::groups[i].rows[j];
      if (concerns(row, backend, root, machine.landlock_abi, declared)) {
        rows.push_back(&row);
        ids[row.setting == probe::Setting::no_network ? 1 : 0].emplace_back(row.id);
      }
    }
  }
  std::vector<std::string> all = ids[0];
  all.insert(all.end(), ids[1].begin(), ids[1].end());
  HR_TRY(controls, run_controls(all));
  HR_TRY(world, ProbeWorld::make());
  for (const bool no_network : {false, true}) {
    // Without a network namespace what needs none is asked with the host's network.
    const bool host = !no_network || shape.network == Network::host;
    HR_TRY(answers, world->run(machine, {backend, host, no_network}, ids[no_network ? 1 : 0]));
    inside.insert(answers.begin(), answers.end());
  }
  Proof proof;
  proof.backend = backend;
  for (const Row* row : rows) {
    proof.outcomes.push_back(judge(*row, backend, controls, inside, root, machine.landlock_abi));
  }
  proof.capabilities = summarise(proof.outcomes, declared);
  add_gate(proof);
  proof.took_ms = (monotonic_nanos() - begin) / 1'000'000;
  return proof;
}

}  // namespace

bool Proof::proves(const std::string& capability) const {
  return std::any_of(capabilities.begin(), capabilities.end(), [&](const CapabilityProof& each) {
    return each.capability == capability && each.proved;
  });
}

std::vector<std::string> Proof::proved() const {
  std::vector<std::string> list;
  for (const CapabilityProof& each : capabilities) {
    if (each.proved) {
      list.push_back(each.capability);
    }
  }
  return list;
}

json::Value proof_document(const Proof& proof) {
  json::Value document = json::Value::object();
  document.set("schemaVersion", "boundary-proof/v1");
  document.set("backend", backend_name(proof.backend));
  document.set("revision", proof_revision);
  document.set("tookMs", proof.took_ms);
  json::Value capabilities = json::Value::array();
  for (const CapabilityProof& each : proof.capabilities) {
    json::Value one = json::Value::object();
    one.set("capability", each.capability);
    one.set("proved", each.proved);
    one.set("declared", each.declared);
    one.set("probes", each.probes);
    one.set("failed", words(each.failed));
    capabilities.push(std::move(one));
  }
  document.set("capabilities", std::move(capabilities));
  json::Value outcomes = json::Value::array();
  for (const ProbeOutcome& each : proof.outcomes) {
    json::Value one = json::Value::object();
    one.set("id", each.id);
    one.set("capability", each.capability);
    one.set("control", each.control);
    one.set("inside", each.inside);
    one.set("layers", each.layers);
    one.set("judged", each.judged);
    one.set("good", each.good);
    outcomes.push(std::move(one));
  }
  document.set("outcomes", std::move(outcomes));
  return document;
}

Result<Proof> prove(const Machine& machine, Backend backend, int cache_dirfd, bool fresh,
                    const std::function<void()>& before_proving) {
  const std::string name = cache_name(backend, machine);
  std::optional<json::Value> known;
  if (!fresh) {
    known = read_cache(cache_dirfd, name);
  }
  HR_TRY(subject, subject_of(machine, backend, known ? &known->get("programs") : nullptr));
  if (before_proving && !fresh && !(known && known->get("key").as_string() == subject.key)) {
    before_proving();
    known = read_cache(cache_dirfd, name);
  }
  Proof proof;
  if (known && known->get("key").as_string() == subject.key) {
    proof = proof_from(*known, backend);
    if (json::write(known->get("programs")) != json::write(subject.identities())) {
      proof.cache_name = name;  // the same content under new times: hashed once, not each time
      proof.cache_document = cache_document(proof, subject);
    }
  } else {
    HR_TRY(made, prove_now(machine, backend));
    proof = std::move(made);
    proof.cache_name = name;
    proof.cache_document = cache_document(proof, subject);
  }
  proof.init = subject.programs.front().identity;
  return proof;
}

void remember_proof(int cache_dirfd, const std::string& cache_name, const std::string& cache_document) {
  if (cache_dirfd >= 0 && !cache_document.empty()) {
    (void)write_file_atomic(cache_dirfd, cache_name, cache_document, 0600);
  }
}

Result<std::vector<ProvenBackend>> proof(const Machine& machine, const ProofRequest& request) {
  std::vector<Backend> candidates{Backend::native, Backend::landlock};
  if (request.backend != Backend::automatic) {
    candidates = {request.backend};
  }
  std::vector<ProvenBackend> list;
  for (const Backend backend : candidates) {
    if (!backend_usable(backend, machine)) {
      continue;  // compile() names what the machine lacks
    }
    ProvenBackend one;
    one.backend = backend;
    auto proved = prove(machine, backend, request.cache_dirfd, request.fresh, request.before_proving);
    if (proved.has_error()) {
      one.failed.push_back(proved.error().code + ": " + proved.error().detail);
      list.push_back(std::move(one));
      continue;
    }
    one.capabilities = proved.value().proved();
    one.init = proved.value().init;
    one.cache_name = proved.value().cache_name;
    one.cache_document = proved.value().cache_document;
    for (const CapabilityProof& each : proved.value().capabilities) {
      if (each.declared && !each.proved) {
        for (const std::string& id : each.failed) {
          one.failed.push_back(each.capability + ": " + id);
        }
        if (each.failed.empty()) {
          one.failed.push_back(each.capability + ": no probe could be judged");
        }
      }
    }
    const bool enough = std::all_of(request.required.begin(), request.required.end(), [&](const auto& name) {
      return std::binary_search(one.capabilities.begin(), one.capabilities.end(), name);
    });
    list.push_back(std::move(one));
    if (enough) {
      break;
    }
  }
  return list;
}

}  // namespace hitchrail::boundary
