// Stage `attempt` and `spawn`: the first changes. Order (so that a crash at any point is decidable):
// directory built aside, home and private git filled, run.started durable, lease, directory published,
// placeholders, shim. What fails after publishing ends as a journaled run.failed, cause start-failed.

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "attempt/attempt.hpp"
#include "attempt/exit_slot.hpp"
#include "attempt/recover.hpp"
#include "attempt/spawn.hpp"
#include "boundary/recheck.hpp"
#include "core/file.hpp"
#include "core/ids.hpp"
#include "journal/journal.hpp"
#include "launch/documents.hpp"
#include "launch/home.hpp"
#include "launch/second_look.hpp"
#include "launch/stages.hpp"
#include "runner/config.hpp"
#include "workspace/gate_git.hpp"

namespace hitchrail::launch {

namespace {

json::Value header_json(const Request& request, const Prepared& prepared) {
  json::Value header = json::Value::object();
  header.set("agent", request.agent);
  header.set("profileId", prepared.profile.profile.id);
  header.set("adapter", prepared.profile.plugin.elf.note.provider_id);
  header.set("worktreeIdentity", prepared.worktree.worktree.identity());
  header.set("trustForeignOwner", request.trust_owner);
  header.set("boundaryBackend",
             prepared.boundary.compiled.backend == boundary::Backend::landlock ? "landlock" : "native");
  header.set("presetId", prepared.boundary.preset.id);
  header.set("presetDigest", prepared.boundary.preset.digest);
  header.set("presetEnforcement", prepared.boundary.preset.enforcement == boundary::Enforcement::required
                                      ? "required"
                                      : "advisory");
  header.set("startedByUid", current_person().uid);
  header.set("commitPolicy", prepared.task.envelope.get("commitPolicy"));
  header.set("taskEnvelopeDigest", prepared.task.envelope.get("digest"));
  header.set("providerRuntimeManifestDigest", prepared.probe.runtime_manifest.get("digest"));
  header.set("runLaunchManifestDigest", prepared.manifest.manifest.get("digest"));
  if (!prepared.gates.document.is_null()) {
    header.set("gatePlanDigest", prepared.gates.document.get("digest"));
    header.set("gatesTimeoutMs", prepared.gates.total_ms);
  }
  if (const json::Value* managed = prepared.worktree.manifest.find("worktreeManifestId")) {
    header.set("worktreeManifestId", *managed);
    header.set("ownershipLeaseId", prepared.worktree.manifest.get("ownershipLeaseId"));
  }
  if (!prepared.manifest.planned_digest.empty()) {
    header.set("plannedManifestDigest", prepared.manifest.planned_digest);
  }
  if (prepared.worktree.resumed) {
    header.set("resumedFrom", prepared.worktree.resumed->attempt_id);
  }
  return header;
}

attempt::NewAttempt new_attempt(const Request& request, const Prepared& prepared) {
  attempt::NewAttempt fresh;
  fresh.identity.attempt_id = prepared.task.attempt_id;
  fresh.identity.task_id = prepared.task.task_id;
  fresh.identity.provider = prepared.profile.profile.adapter_id;
  fresh.identity.adapter = prepared.profile.plugin.elf.note.provider_id;
  fresh.identity.agent = request.agent;
  fresh.identity.model = prepared.limits.model;
  fresh.worktree = prepared.worktree.worktree.root;
  fresh.created_unix_ms = prepared.task.created_unix_ms;
  fresh.header = header_json(request, prepared);
  if (prepared.boundary.login_file) {
    fresh.login_files.push_back(prepared.profile.profile.login_home_path);
  }
  return fresh;
}

Status write_started(int attempt_dirfd, const attempt::NewAttempt& fresh, const Prepared& prepared,
                     const SecretRedactor& redactor) {
  HR_TRY(writer, journal::Writer::create(attempt_dirfd, fresh.identity, fresh.header));
  writer.set_redactor(&redactor);
  json::Value fields = json::Value::object();
  fields.set("taskEnvelopeDigest", prepared.task.envelope.get("digest"));
  fields.set("runLaunchManifestDigest", prepared.manifest.manifest.get("digest"));
  fields.set("providerRuntimeManifestDigest", prepared.probe.runtime_manifest.get("digest"));
  const std::string text = json::write(fields);
  journal::Draft draft;
  draft.kind = "run.started";
  draft.origin.key = "run.started";
  draft.summary = "started";
  draft.fields_json = text;
  HR_CHECK(writer.append(draft, unix_millis_now()));
  HR_TRY(position, writer.commit());
  (void)position;
  return {};
}

SecretRedactor redactor_of(const PlanStage& plan) {
  SecretRedactor redactor;
  for (const auto& secret : plan.secrets) {
    redactor.add(secret.name, secret.value);
  }
  return redactor;
}

store::WorktreeLease lease_of(const Prepared& prepared) {
  const workspace::Worktree& worktree = prepared.worktree.worktree;
  store::WorktreeLease lease;
  lease.attempt_id = prepared.task.attempt_id;
  lease.canonical_path = worktree.root;
  lease.root = {worktree.root_id.device, worktree.root_id.inode};
  lease.git_dir = {worktree.git_dir_id.device, worktree.git_dir_id.inode};
  lease.acquired_unix_ms = unix_millis_now();
  return lease;
}

store::AttemptRow row_of(const Request& request, const Prepared& prepared) {
  store::AttemptRow row;
  row.attempt_id = prepared.task.attempt_id;
  row.task_id = prepared.task.task_id;
  row.provider = prepared.profile.profile.adapter_id;
  row.agent = request.agent;
  row.worktree = prepared.worktree.worktree.root;
  row.state = "starting";
  row.created_unix_ms = prepared.task.created_unix_ms;
  return row;
}

// What the shim inherits, opened before anything is published so that a missing program refuses cleanly.
struct Programs {
  Fd shim, init, runner, finish;
  Fd gate;  // of a run that has one
};
Result<Programs> open_programs(const Installation& installation, const boundary::Compiled& compiled) {
  Programs programs;
  HR_TRY(shim, open_program(installation, "hitchrail-shim"));
  HR_TRY(init, open_program(installation, "hitchrail-init"));
  HR_TRY(runner, open_program(installation, "hitchrail-runner"));
  HR_TRY(finish, open_program(installation, "hitchrail-finish"));
  programs.shim = std::move(shim);
  programs.init = std::move(init);
  programs.runner = std::move(runner);
  programs.finish = std::move(finish);
  if (compiled.gate) {
    HR_TRY(gate, open_program(installation, "hitchrail-gate"));
    programs.gate = std::move(gate);
  }
  return programs;
}

std::string spawn_document(const Prepared& prepared) {
  const plugins::LaunchPlan& plan = prepared.plan.planned.plan;
  auto parts = [](const std::vector<plugins::Part>& list) {
    attempt::PartList out;
    for (const auto& part : list) {
      if (part.kind == wire::part_secret) {
        out.add_secret(part.bytes, part.encoding);
      } else {
        out.add_bytes(part.bytes);
      }
    }
    return out;
  };
  attempt::SpawnDocument document;
  document.attempt_id(prepared.task.attempt_id);
  document.initial_outbox(parts(plan.initial_input));
  for (const auto& step : plan.stop) {
    document.stop_step(step.kind, step.signal, step.wait_ms, parts(step.parts));
  }
  for (const auto& file : plan.file_streams) {
    document.file_stream(file.stream, 0, file.pattern);
  }
  document.snapshot(prepared.plan.planned.snapshot);
  wire::Limits limits{};
  limits.run_wall_ms = prepared.limits.time_limit_s * 1000;
  document.limits(limits);
  std::uint32_t flags = 0;
  flags |= plan.close_input ? wire::flag_close_input : 0u;
  flags |= plan.needs_pipe ? wire::flag_pipes : 0u;
  flags |=
      prepared.boundary.compiled.backend == boundary::Backend::landlock ? wire::flag_no_pid_namespace : 0u;
  document.flags(flags);
  return document.bytes();
}

Status spawn(const Ground& ground, const Request& request, Prepared& prepared, const Programs& programs,
             const attempt::Directory& directory) {
  boundary::RunDirectories run;
  const boundary::RunDirectories planned = planned_directories(ground, directory.id());
  HR_TRY(home, boundary::resolve_root(planned.home->path));
  HR_TRY(temp, boundary::resolve_root(planned.temp->path));
  HR_TRY(git, boundary::resolve_root(planned.git->path));
  run.home = std::move(home);
  run.temp = std::move(temp);
  run.git = std::move(git);
  HR_CHECK(boundary::recheck(prepared.boundary.compiled, prepared.program.executable, run,
                             boundary::Recheck::names));
  HR_CHECK(boundary::make_placeholders(prepared.boundary.compiled, directory.fd()));
  HR_TRY(plan, boundary::flat_plan(prepared.boundary.compiled, run, prepared.plan.command));
  HR_TRY(plan_fd, sealed_memfd("init-plan", plan));
  HR_TRY(config_fd,
         sealed_memfd("runner-config", runner::to_json(runner::config_for(prepared.plan.planned.plan))));
  HR_TRY(secrets_fd, sealed_memfd("secrets", attempt::encode_secrets(prepared.plan.secrets)));
  HR_TRY(home_fd, open_at(directory.fd(), "home", O_RDONLY | O_DIRECTORY));
  attempt::SpawnRequest spawn;
  spawn.shim_program = programs.shim.get();
  spawn.document = spawn_document(prepared);
  spawn.attempt = directory.fd();
  spawn.init_program = programs.init.get();
  spawn.init_plan = plan_fd.get();
  spawn.runner_program = programs.runner.get();
  spawn.adapter = prepared.profile.plugin.fd.get();
  spawn.runner_config = config_fd.get();
  spawn.finish_program = programs.finish.get();
  spawn.secrets = secrets_fd.get();
  spawn.home = home_fd.get();
  Fd gate_policy;
  if (prepared.boundary.compiled.gate) {
    HR_TRY(sealed, sealed_memfd("gate-policy", prepared.boundary.compiled.gate->document));
    gate_policy = std::move(sealed);
    spawn.gate_program = programs.gate.get();
    spawn.gate_policy = gate_policy.get();
  }
  // As late as can be; init compares once more what it mounts and executes.
  HR_CHECK(second_look(ground, request, prepared, run));
  HR_TRY(spawned, attempt::spawn_shim(spawn));
  (void)spawned;
  return {};
}

// The attempt exists and its harness does not: its end is written down like any other.
void end_unstarted(const attempt::Directory& directory, const Programs& programs, const Error& error) {
  auto slot = attempt::read_exit_slot(directory.fd());
  if (slot.has_value() && slot.value().state == wire::exit_prepared) {
    wire::ExitSlot ended = slot.value();
    ended.state = wire::exit_ended;
    // What the second look refuses ends the run with its own code; what could not be done, as start-failed.
    const bool refused = error.kind == ErrorClass::refused;
    std::strncpy(ended.cause, refused ? error.code.c_str() : "start-failed", sizeof ended.cause - 1);
    const std::string detail = refused ? error.detail : error.code + ": " + error.detail;
    std::strncpy(ended.cause_detail, detail.c_str(), sizeof ended.cause_detail - 1);
    (void)attempt::write_exit_slot(directory.fd(), ended);
  }
  // A finisher that cannot run now is completed by any later start, stop or recover.
  (void)attempt::run_finisher(directory, programs.finish.get());
}

Status fill_directory(const Ground& ground, Prepared& prepared, int attempt_dirfd) {
  HR_TRY(home, open_at(attempt_dirfd, "home", O_RDONLY | O_DIRECTORY));
  HR_CHECK(fill_home(home.get(), prepared.plan, prepared.boundary, prepared.profile, prepared.worktree));
  HR_CHECK(fill_git(ground, prepared, attempt_dirfd));
  std::vector<const char*> given = {"home", "temp", "git"};
  if (!prepared.gates.document.is_null()) {
    HR_CHECK(workspace::keep_git_for_gates(prepared.worktree.worktree, attempt_dirfd));
    given.push_back(workspace::gate_git_name);
  }
  const boundary::Compiled& compiled = prepared.boundary.compiled;
  if (compiled.uid != ::geteuid() || compiled.gid != ::getegid()) {
    for (const char* name : given) {
      HR_TRY(tree, open_at(attempt_dirfd, name, O_RDONLY | O_DIRECTORY));
      HR_CHECK(give_tree(tree.get(), compiled.uid, compiled.gid));
    }
  }
  return {};
}

}  // namespace

Result<Started> stage_attempt(const Ground& ground, const Request& request, Prepared& prepared,
                              Timings& timings) {
  const std::int64_t begin_ns = monotonic_nanos();
  HR_TRY(home, store::StateHome::open(store::Access::write));
  HR_TRY(programs, open_programs(ground.installation, prepared.boundary.compiled));
  HR_CHECK(check_proved_init(prepared.boundary, programs.init.get()));
  HR_TRY(database, store::Store::open(home));
  attempt::NewAttempt fresh = new_attempt(request, prepared);
  HR_TRY(documents, attempt_documents(prepared));
  fresh.documents = std::move(documents);
  HR_TRY(builder, attempt::Builder::begin(home.fd(), fresh));
  HR_CHECK(fill_directory(ground, prepared, builder.fd()));
  const SecretRedactor redactor = redactor_of(prepared.plan);
  HR_CHECK(write_started(builder.fd(), fresh, prepared, redactor));
  HR_CHECK(stage_admission(ground, home, database, lease_of(prepared), row_of(request, prepared)));
  const std::string& attempt_id = fresh.identity.attempt_id;
  const auto give_back = [&] {
    (void)database.remove_attempt(attempt_id);
    release_ownership(home, prepared.worktree, attempt_id);
  };
  if (auto claimed =
          claim_ownership(ground, home, database, prepared.worktree, fresh.identity.task_id, attempt_id);
      claimed.has_error()) {
    give_back();
    return std::move(claimed).error();
  }
  if (auto recorded = record_selection(database, prepared.boundary.chosen, attempt_id);
      recorded.has_error()) {
    give_back();
    return std::move(recorded).error();
  }
  auto published = builder.publish();
  if (published.has_error()) {
    give_back();
    return std::move(published).error();
  }
  timings.add("attempt", monotonic_nanos() - begin_ns);
  const attempt::Directory& directory = published.value().directory;
  const Status spawned =
      timings.measure("spawn", [&] { return spawn(ground, request, prepared, programs, directory); });
  published.value().lock.release();
  if (spawned.has_error()) {
    end_unstarted(directory, programs, spawned.error());
    Error error = spawned.error();
    error.detail += " (attempt " + directory.id() + ")";
    return error;
  }
  Started started;
  started.attempt_id = directory.id();
  started.launch_manifest = prepared.manifest.manifest;
  started.timings = timings;
  return started;
}

}  // namespace hitchrail::launch
