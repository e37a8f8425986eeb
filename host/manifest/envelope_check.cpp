// Reading an envelope back: every member, its type and its bounds, and the digest. Strict: what the builder
// never writes is refused.

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "core/canonical.hpp"
#include "manifest/envelope_parts.hpp"
#include "manifest/fields.hpp"
#include "manifest/gate_command.hpp"
#include "manifest/task_bounds.hpp"

namespace hitchrail::manifest {
namespace {

using Names = std::initializer_list<std::string_view>;

constexpr std::size_t kId = 160;

// Walks a document by member names; keeps the first violation, with the member's dotted name.
class Reader {
 public:
  // The members of an object: all of `required`, and no other than those and `optional`.
  bool object(const std::string& name, const json::Value& value, Names required, Names optional = {}) {
    if (!value.is_object()) {
      return fail(name, "an object is needed");
    }
    const auto listed = [](Names names, std::string_view key) {
      return std::find(names.begin(), names.end(), key) != names.end();
    };
    for (const std::string_view key : required) {
      if (value.find(key) == nullptr) {
        return fail(name + "." + std::string(key), "the member is missing");
      }
    }
    for (const auto& [key, member] : value.members()) {
      if (!listed(required, key) && !listed(optional, key)) {
        return fail(name + "." + key, "the member is unknown");
      }
    }
    return good();
  }
  void text(const std::string& name, const json::Value& value, std::size_t max) {
    value.is_string() ? (void)fields_.text(name, value.as_string(), max)
                      : (void)fail(name, "a text is needed");
  }
  void characters(const std::string& name, const json::Value& value, std::size_t max) {
    text(name, value, max * 4);
    if (good() && cut_code_points(value.as_string(), max) != value.as_string()) {
      fail(name, "at most " + std::to_string(max) + " characters");
    }
  }
  void path(const std::string& name, const json::Value& value, std::size_t max = bounds::scope) {
    auto text = path_text(value);
    text.has_error() || text->empty() || text->size() > max ? (void)fail(name, "a path is needed") : void();
  }
  void boolean(const std::string& name, const json::Value& value) {
    if (!value.is_bool()) {
      fail(name, "true or false is needed");
    }
  }
  void integer(const std::string& name, const json::Value& value, std::int64_t min, std::int64_t max) {
    const auto number = value.as_int();
    if (!number || *number < min || *number > max) {
      fail(name, "a whole number from " + std::to_string(min) + " to " + std::to_string(max) + " is needed");
    }
  }
  void one_of(const std::string& name, const json::Value& value,
              const std::vector<std::string_view>& choices) {
    fields_.one_of(name, value.as_string(), choices);
  }
  void digest(const std::string& name, const json::Value& value) {
    const std::string& text = value.as_string();
    fields_.hex64(name,
                  text.substr(0, 7) == "sha256:" ? std::string_view(text).substr(7) : std::string_view());
  }
  template <class Each>
  void list(const std::string& name, const json::Value& value, std::size_t max, const Each& each) {
    if (!value.is_array()) {
      fail(name, "a list is needed");
      return;
    }
    fields_.at_most(name, value.items().size(), max);
    for (std::size_t i = 0; i < value.items().size() && good(); ++i) {
      each(name + "[" + std::to_string(i) + "]", value.items()[i]);
    }
  }
  // The ids of a list's entries are unique.
  void ids(const std::string& name, const json::Value& list) {
    std::set<std::string> seen;
    for (const json::Value& entry : list.items()) {
      const std::string& id = entry.get("id").as_string();
      if (!valid_task_id(id)) {
        fail(name + ".id", "not an id");
      } else if (!seen.insert(id).second) {
        fail(name + ".id", "`" + id + "` stands twice");
      }
    }
  }
  bool fail(const std::string& name, std::string detail) {
    fields_.fail(name.substr(0, 1) == "." ? name.substr(1) : name, std::move(detail));
    return false;
  }
  [[nodiscard]] bool good() const { return fields_.status().has_value(); }
  [[nodiscard]] Status status() const { return fields_.status(); }

 private:
  Fields fields_;
};

void check_memory(Reader& in, const std::string& name, const json::Value& memory) {
  if (!in.object(name, memory,
                 {"reflectionId", "sourceEventIds", "category", "summary", "guidance", "confidencePercent",
                  "relevancePercent", "retrievalCount", "retrievedAt"},
                 {"sourceTaskId", "sourceRunId"})) {
    return;
  }
  for (const char* key : {"reflectionId", "category", "retrievedAt"}) {
    in.text(name + "." + key, memory.get(key), kId);
  }
  for (const char* key : {"sourceTaskId", "sourceRunId"}) {
    if (memory.find(key) != nullptr) {
      in.text(name + "." + key, memory.get(key), kId);
    }
  }
  in.list(name + ".sourceEventIds", memory.get("sourceEventIds"), bounds::source_events,
          [&](const std::string& at, const json::Value& id) { in.text(at, id, kId); });
  in.text(name + ".summary", memory.get("summary"), bounds::chunk);
  in.text(name + ".guidance", memory.get("guidance"), bounds::chunk);
  in.integer(name + ".confidencePercent", memory.get("confidencePercent"), 0, 100);
  in.integer(name + ".relevancePercent", memory.get("relevancePercent"), 0, 100);
  in.integer(name + ".retrievalCount", memory.get("retrievalCount"), 0, 1'000'000'000);
}

void check_subject(Reader& in, const json::Value& subject) {
  if (!in.object("subject", subject,
                 {"id", "title", "objective", "message", "background", "constraints", "acceptanceCriteria"},
                 {"memory"})) {
    return;
  }
  in.text("subject.id", subject.get("id"), kId);
  in.characters("subject.title", subject.get("title"), bounds::short_characters);
  in.characters("subject.objective", subject.get("objective"), bounds::short_characters);
  in.text("subject.message", subject.get("message"), max_task_bytes);
  const auto entry = [&](const std::string& at, const json::Value& text) {
    in.characters(at, text, bounds::chunk);
  };
  in.list("subject.background", subject.get("background"), bounds::background, entry);
  in.list("subject.constraints", subject.get("constraints"), bounds::constraints, entry);
  in.list("subject.acceptanceCriteria", subject.get("acceptanceCriteria"), bounds::criteria, entry);
  if (subject.find("memory") != nullptr) {
    in.list("subject.memory", subject.get("memory"), bounds::memory,
            [&](const std::string& at, const json::Value& memory) { check_memory(in, at, memory); });
  }
}

void check_workspace(Reader& in, const json::Value& space) {
  if (!in.object("workspace", space, {"workspaceId", "worktreeId", "worktreePath", "baseline"},
                 {"worktreeManifestId", "ownershipLeaseId", "ownershipAttemptId", "repo", "branch",
                  "baseBranch", "resolvedBaseCommit", "baseResolutionSource"})) {
    return;
  }
  for (const char* key : {"workspaceId", "worktreeId"}) {
    in.text(std::string("workspace.") + key, space.get(key), kId);
  }
  for (const char* key :
       {"worktreeManifestId", "ownershipLeaseId", "ownershipAttemptId", "resolvedBaseCommit"}) {
    if (space.find(key) != nullptr) {
      in.text(std::string("workspace.") + key, space.get(key), 240);
    }
  }
  for (const char* key : {"repo", "branch", "baseBranch"}) {
    if (space.find(key) != nullptr) {
      in.path(std::string("workspace.") + key, space.get(key), max_name_bytes);
    }
  }
  if (space.find("baseResolutionSource") != nullptr) {
    in.one_of("workspace.baseResolutionSource", space.get("baseResolutionSource"),
              {"remote", "local", "local-stale", "legacy-adopted"});
  }
  in.path("workspace.worktreePath", space.get("worktreePath"));
  // The baseline's own members are workspace/'s; what the renderers read is checked.
  const json::Value& baseline = space.get("baseline");
  if (!baseline.is_object()) {
    in.fail("workspace.baseline", "an object is needed");
    return;
  }
  in.boolean("workspace.baseline.dirty", baseline.get("dirty"));
  in.text("workspace.baseline.capturedAt", baseline.get("capturedAt"), kId);
}

void check_described(Reader& in, const std::string& at, const json::Value& entry,
                     const std::vector<std::string_view>& kinds) {
  in.one_of(at + ".kind", entry.get("kind"), kinds);
  in.text(at + ".description", entry.get("description"), bounds::text);
  in.boolean(at + ".required", entry.get("required"));
}

void check_effects(Reader& in, const json::Value& document) {
  in.list("allowedSideEffects", document.get("allowedSideEffects"), bounds::effects,
          [&](const std::string& at, const json::Value& effect) {
            if (in.object(at, effect, {"kind", "scope"})) {
              in.one_of(at + ".kind", effect.get("kind"),
                        {"filesystem-write", "process-execute", "network-egress", "git-commit",
                         "external-write", "artifact-write", "task-mutate"});
              in.path(at + ".scope", effect.get("scope"));
            }
          });
}

void check_outputs(Reader& in, const json::Value& document) {
  const json::Value& outputs = document.get("expectedOutputs");
  in.list("expectedOutputs", outputs, bounds::outputs, [&](const std::string& at, const json::Value& output) {
    if (!in.object(at, output, {"id", "kind", "description", "required"}, {"path"})) {
      return;
    }
    check_described(in, at, output, {"text", "file", "artifact", "commit", "other"});
    if (output.find("path") != nullptr) {
      in.path(at + ".path", output.get("path"));
      if (in.good() && !valid_output_path(path_text(output.get("path")).value())) {
        in.fail(at + ".path", "not a path below the worktree");
      }
    }
  });
  in.ids("expectedOutputs", outputs);
}

void check_gates(Reader& in, const json::Value& document) {
  const json::Value& gates = document.get("verificationGates");
  in.list("verificationGates", gates, bounds::gates, [&](const std::string& at, const json::Value& gate) {
    if (!in.object(at, gate, {"id", "description", "required", "evidenceRequired"}, {"command"})) {
      return;
    }
    in.text(at + ".description", gate.get("description"), bounds::text);
    in.boolean(at + ".required", gate.get("required"));
    in.boolean(at + ".evidenceRequired", gate.get("evidenceRequired"));
    const json::Value& command = gate.get("command");
    if (gate.find("command") == nullptr || !in.object(at + ".command", command, {"argv", "timeoutMs"})) {
      return;
    }
    in.list(at + ".command.argv", command.get("argv"), bounds::argv,
            [&](const std::string& each, const json::Value& argument) {
              in.text(each, argument, bounds::argument);
            });
    if (command.get("argv").items().empty()) {
      in.fail(at + ".command.argv", "at least one is needed");
    }
    std::vector<std::string> argv;
    for (const json::Value& argument : command.get("argv").items()) {
      argv.push_back(argument.as_string());
    }
    if (!argv.empty() && !names_program(argv)) {
      in.fail(at + ".command.argv", "it names no program");
    }
    in.integer(at + ".command.timeoutMs", command.get("timeoutMs"), bounds::min_timeout_ms,
               bounds::max_timeout_ms);
  });
  in.ids("verificationGates", gates);
}

void check_contract(Reader& in, const json::Value& document) {
  const json::Value& contract = document.get("completionContract");
  if (!in.object("completionContract", contract, {"schemaVersion", "evidenceRequirements"})) {
    return;
  }
  in.one_of("completionContract.schemaVersion", contract.get("schemaVersion"), {"completion-result/v1"});
  const json::Value& list = contract.get("evidenceRequirements");
  in.list("completionContract.evidenceRequirements", list, bounds::evidence,
          [&](const std::string& at, const json::Value& one) {
            if (in.object(at, one, {"id", "kind", "description", "required"})) {
              check_described(in, at, one,
                              {"provider-output", "process-exit", "stream-event", "callback", "verification",
                               "file-change", "artifact", "commit", "other"});
            }
          });
  in.ids("completionContract.evidenceRequirements", list);
}

void check_links(Reader& in, const json::Value& document) {
  const json::Value& attempt = document.get("attempt");
  if (in.object("attempt", attempt, {"id", "createdAt"})) {
    in.text("attempt.id", attempt.get("id"), kId);
    in.text("attempt.createdAt", attempt.get("createdAt"), kId);
  }
  const json::Value& runtime = document.get("launchManifest");
  if (in.object("launchManifest", runtime,
                {"schemaVersion", "digest", "provider", "adapter", "protocolVersion"})) {
    in.one_of("launchManifest.schemaVersion", runtime.get("schemaVersion"), {"provider-runtime-manifest/v1"});
    in.digest("launchManifest.digest", runtime.get("digest"));
    for (const char* key : {"provider", "adapter", "protocolVersion"}) {
      in.text(std::string("launchManifest.") + key, runtime.get(key), kId);
    }
  }
  const json::Value& conversation = document.get("conversation");
  if (document.find("conversation") != nullptr &&
      in.object("conversation", conversation, {"mode", "sourceAttemptId", "conversationId"},
                {"forkTurnId"})) {
    in.one_of("conversation.mode", conversation.get("mode"), {"resume", "fork"});
    in.text("conversation.sourceAttemptId", conversation.get("sourceAttemptId"), kId);
    in.text("conversation.conversationId", conversation.get("conversationId"), kId);
    if (conversation.find("forkTurnId") != nullptr) {
      in.text("conversation.forkTurnId", conversation.get("forkTurnId"), kId);
    }
  }
}

// What members say of one another.
void check_policy(Reader& in, const json::Value& document) {
  in.one_of("commitPolicy", document.get("commitPolicy"), {"forbidden", "allowed", "required"});
  const auto any = [&](const char* list, const char* key, const char* value, bool required) {
    const auto& items = document.get(list).items();
    return std::any_of(items.begin(), items.end(), [&](const json::Value& item) {
      return item.get(key).as_string() == value && (!required || item.get("required").as_bool());
    });
  };
  const std::string& policy = document.get("commitPolicy").as_string();
  const bool effect = any("allowedSideEffects", "kind", "git-commit", false);
  const bool output = any("expectedOutputs", "kind", "commit", true);
  if (policy == "required" && (!effect || !output)) {
    in.fail("commitPolicy", "a commit is required, and side effects or outputs do not have it");
  }
  if (policy == "forbidden" && (effect || output)) {
    in.fail("commitPolicy", "commits are forbidden, and side effects or outputs have one");
  }
  if (!any("expectedOutputs", "id", "completion-summary", false)) {
    in.fail("expectedOutputs", "completion-summary is missing");
  }
}

}  // namespace

Status check_task_envelope(const json::Value& document) {
  HR_CHECK(
      check_shape(document, "task-envelope/v1",
                  {"schemaVersion", "subject", "attempt", "workspace", "commitPolicy", "allowedSideEffects",
                   "expectedOutputs", "verificationGates", "launchManifest", "completionContract", "digest"},
                  {"conversation"}));
  Reader in;
  check_subject(in, document.get("subject"));
  check_links(in, document);
  check_workspace(in, document.get("workspace"));
  check_effects(in, document);
  check_outputs(in, document);
  check_gates(in, document);
  check_contract(in, document);
  check_policy(in, document);
  return in.status();
}

}  // namespace hitchrail::manifest
