#include <cstdio>

#include "cli/launch_notes.hpp"
#include "cli/launch_options.hpp"
#include "cli/options.hpp"
#include "cli/print.hpp"
#include "launch/launch.hpp"
#include "manifest/manifest.hpp"

namespace hitchrail::cli {

namespace {

// A member as words: strings as they are, lists joined, everything else as JSON.
std::string words(const json::Value& value) {
  if (value.is_string()) {
    return value.as_string();
  }
  if (!value.is_array()) {
    return json::write(value);
  }
  std::string text;
  for (const auto& item : value.items()) {
    text += (text.empty() ? "" : " ") + words(item);
  }
  return text.empty() ? "none" : text;
}

void print_program(const launch::Preview& preview) {
  const json::Value& runtime = preview.launch_manifest.get("runtime");
  line("would run   " + words(runtime.get("command")) + " " + words(runtime.get("args")));
  line("provider    " + preview.runtime_manifest.get("providerVersion").as_string() + " through adapter " +
       preview.runtime_manifest.get("adapter").as_string());
  line("work tree   " + words(runtime.get("worktree")));
  line("environment " + words(runtime.get("environmentKeys")));
}

void print_policy(const json::Value& manifest) {
  const json::Value& sandbox = manifest.get("sandbox");
  line("boundary    preset " + sandbox.get("presetId").as_string() + " (" +
       sandbox.get("enforcement").as_string() + "), backend " + sandbox.get("backend").as_string() +
       ", network " + sandbox.get("effective").get("network").as_string());
  const json::Value& credentials = manifest.get("credentials");
  line("credentials " + words(manifest.get("runtime").get("credentialReferences")) + " (isolation " +
       credentials.get("credentialIsolation").as_string() + ")");
  for (const auto& reference : credentials.get("references").items()) {
    if (reference.get("risk").as_string() == "high-risk") {
      line("HIGH RISK   " + reference.get("reference").as_string() +
           " is handed over although the harness does not need it to start");
    }
  }
  if (const json::Value* trust = manifest.find("workspaceTrust")) {
    line("trust       " + trust->get("status").as_string());
  }
  if (const json::Value* phase = manifest.find("phase")) {
    line("phase       " + words(phase->get("identity").get("phase")) + " " +
         phase->get("status").as_string());
  }
}

void print_gates(const json::Value& manifest) {
  const json::Value& readiness = manifest.get("readiness");
  std::string text = readiness.get("ready").as_bool() ? "ready" : "not ready";
  text += readiness.get("overridden").as_bool() ? ", overridden" : "";
  line("readiness   " + text + " (" + words(readiness.get("passed")) + " of " +
       words(readiness.get("total")) + " checks)");
  const json::Value& budget = manifest.get("budget");
  if (budget.get("enabled").as_bool()) {
    for (const auto& [metric, limit] : budget.get("limits").members()) {
      line("budget      " + metric + " " + words(limit));
    }
  }
  if (const json::Value* limit = manifest.get("runtime").find("timeLimitSeconds")) {
    line("time limit  " + words(*limit) + " s");
  }
}

void print_drift(const launch::Preview& preview) {
  if (const json::Value* parent = preview.launch_manifest.find("parent")) {
    std::string sections;
    for (const auto& change : parent->get("changes").items()) {
      sections += " " + change.get("field").as_string();
    }
    line("parent      " + parent->get("attemptId").as_string() +
         (sections.empty() ? ": the same launch" : ": differs in" + sections));
  }
  for (const auto& section : preview.drift) {
    line("DRIFT       " + section.field + ": " + section.before + " -> " + section.after);
    for (const auto& member : section.members) {
      line("            " + member.path + ": " + member.before + " -> " + member.after);
    }
  }
}

void print_preview(const launch::Preview& preview) {
  const json::Value& manifest = preview.launch_manifest;
  print_program(preview);
  print_policy(manifest);
  print_gates(manifest);
  for (const auto& instruction : manifest.get("instructions").items()) {
    line("instruction " + instruction.get("kind").as_string() + " " + words(instruction.get("byteLength")) +
         " bytes, " + instruction.get("digest").as_string() + ", " + instruction.get("origin").as_string());
  }
  line("task        " + std::to_string(preview.request_text.size()) + " bytes to the provider");
  print_drift(preview);
  const json::Value& enforcement = manifest.get("enforcement");
  for (const auto& warning : enforcement.get("warnings").items()) {
    line("warning     " + warning.get("code").as_string() + ": " + warning.get("detail").as_string());
  }
  for (const auto& blocker : enforcement.get("blockers").items()) {
    line("BLOCKED     " + blocker.get("code").as_string() + ": " + blocker.get("detail").as_string());
    line("            remedy: " + blocker.get("remediation").as_string());
  }
  line("digest      " + manifest.get("digest").as_string());
}

void print_json(const launch::Preview& preview) {
  json::Value value = json::Value::object();
  value.set("manifest", preview.launch_manifest);
  value.set("runtimeManifest", preview.runtime_manifest);
  value.set("taskEnvelope", preview.task_envelope);
  value.set("controls", manifest::derive_controls(preview.runtime_manifest));
  if (!preview.planned_digest.empty()) {
    value.set("plannedManifestDigest", preview.planned_digest);
    value.set("differences", launch::manifest_differences(preview.drift));
  }
  out_json(value);
}

Result<int> preview(const RunOptions& options) {
  HR_TRY(request, launch_request(options));
  HR_TRY(preview, launch::preview(request));
  if (!options.output.empty()) {
    HR_CHECK(launch::keep_manifest(options.output, preview));
  }
  if (options.timings) {
    print_timings(preview.timings);
  }
  print_notices(preview.notices);
  if (options.common.json) {
    print_json(preview);
  } else {
    print_preview(preview);
  }
  // Blockers and drift are data here; the exit code still says that a run would be refused.
  const bool refused = launch::enforceable(preview.launch_manifest).has_error() || !preview.drift.empty();
  return refused ? exit_code(ErrorClass::refused) : 0;
}

}  // namespace

int preview_command(const RunOptions& options) {
  const Result<int> result = preview(options);
  std::fflush(stdout);
  return result.has_error() ? report(result.error(), options.common.json) : result.value();
}

}  // namespace hitchrail::cli
