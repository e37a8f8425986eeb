#include "launch/documents.hpp"

#include <algorithm>

#include "boundary/boundary.hpp"
#include "core/canonical.hpp"
#include "core/json.hpp"

namespace hitchrail::launch {

namespace {

// Texts that stand in the evidence only as SHA-256: paths of the operator, names of a preset, relays.
json::Value preimages(const boundary::Compiled& compiled, const workspace::Worktree& worktree,
                      const std::string& remote) {
  std::vector<std::string> texts = boundary::digested_texts(compiled);
  texts.insert(texts.end(), {worktree.root, worktree.git_dir, worktree.common_dir});
  if (!remote.empty()) {
    texts.push_back(remote);
  }
  if (compiled.gate) {
    const std::vector<std::string> relays = gate::relay_texts(*compiled.gate);
    texts.insert(texts.end(), relays.begin(), relays.end());
  }
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  json::Value list = json::Value::array();
  for (const std::string& text : texts) {
    list.push(json::Value::object({{"digest", sha256_prefixed(text)}, {"text", path_value(text)}}));
  }
  return json::Value::object({{"schemaVersion", "evidence-preimages/v1"}, {"texts", std::move(list)}});
}

}  // namespace

Result<std::vector<std::pair<std::string, std::string>>> attempt_documents(const Prepared& prepared) {
  const boundary::Compiled& compiled = prepared.boundary.compiled;
  std::vector<std::pair<std::string, std::string>> out = {
      {"runtime-manifest.json", json::write(prepared.probe.runtime_manifest)},
      {"task-envelope.json", json::write(prepared.task.envelope)},
      {"launch-manifest.json", json::write(prepared.manifest.manifest)},
      {"values.json", json::write(prepared.manifest.values)},
      {"transport.json", json::write(prepared.task.transport)},
      {"preset.json", json::write(prepared.boundary.chosen.preset->document)},
      {"profile.json", json::write(prepared.profile.profile.configuration)},
      {"policy.json", json::write(compiled.policy)},
      {"workspace-trust.json", json::write(prepared.trust.inventory.document)},
      {"preimages.json",
       json::write(preimages(compiled, prepared.worktree.worktree, prepared.trust.identity.remote))}};
  HR_TRY(filter,
         boundary::seccomp_filter({compiled.inet_sockets, compiled.unix_sockets, compiled.nested_allowed}));
  out.emplace_back("filter.bpf", std::move(filter));
  HR_TRY(baseline, workspace::baseline_document(prepared.worktree.baseline));
  out.emplace_back(workspace::baseline_document_name, json::write(baseline));
  if (!prepared.boundary.phase.sources.is_null()) {
    out.emplace_back("phase-sources.json", json::write(prepared.boundary.phase.sources));
  }
  if (!prepared.gates.document.is_null()) {
    out.emplace_back("gate-plan.json", json::write(prepared.gates.document));
  }
  if (compiled.gate) {
    out.emplace_back("egress.json", json::write(compiled.gate->evidence));
  }
  return out;
}

}  // namespace hitchrail::launch
