#pragma once
// The operator's task, as it was given: by -m, on standard input, or in a file (docs/operators/tasks.md).
//
// Promises: what stands in a TaskSpec was read strictly and whole; nothing is ever cut. parse_task takes the
// bytes of a task in one of its forms and refuses, with FILE:LINE:COLUMN or FILE and the field, what is not
// exactly a task; check_task refuses what no launch could carry, before anything else is looked at. Codes
// begin with `task-` in every form (docs/operators/errors.md). Makes no Linux call: core/input_file.hpp reads
// the bytes.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.hpp"
#include "core/result.hpp"

namespace hitchrail::manifest {

inline constexpr std::size_t max_task_bytes = 1u << 20;  // of a task file, and of the operator's message

struct SideEffect {
  std::string kind;   // filesystem-write, process-execute, network-egress, git-commit, external-write,
                      // artifact-write, task-mutate
  std::string scope;  // at most 4096 bytes; a path (relative ones are below the worktree) or a phrase
};

// A check the finisher makes after the agent. Without argv nobody runs it: its result is `skipped`.
struct Gate {
  std::string id;  // a letter or digit, then letters, digits, "." "_" "-"; at most 120
  std::string description;
  std::vector<std::string> argv;
  std::uint64_t timeout_ms = 600'000;
  bool required = true;
  bool evidence_required = true;
};

struct ExpectedOutput {
  std::string id;
  std::string kind = "file";  // text, file, artifact, commit, other
  std::string description;
  std::string path;  // file, artifact: below the worktree, normal form ("dist/report.txt"); "" otherwise
  bool required = true;
};

struct EvidenceRequirement {
  std::string id;
  std::string kind;  // of evidence: provider-output, process-exit, stream-event, callback, verification,
                     // file-change, artifact, commit, other
  std::string description;
  bool required = true;
};

// A lesson of an earlier run that the operator accepted. Percentages, since documents hold integers only.
struct Memory {
  std::string reflection_id;
  std::string source_task_id, source_run_id;  // "" = not known
  std::vector<std::string> source_event_ids;
  std::string category, summary, guidance;
  std::int64_t confidence_percent = 0, relevance_percent = 0;
  std::int64_t retrieval_count = 0;
  std::string retrieved_at;  // RFC 3339, UTC
};

// Text that goes to the harness beside the task, and where it came from.
struct InstructionText {
  std::string origin;  // "task file task.yaml", "file rules.md"
  std::string content;
};

// Where an earlier run of the same work stood.
struct Checkpoint {
  std::int64_t resume_count = 0;
  std::string saved_at;  // RFC 3339, UTC
  std::string step;
  json::Value state;  // an object
};

struct TaskSpec {
  std::string message;  // the operator's text, byte for byte
  std::string title;    // "" = the first line of the message
  std::vector<std::string> background, constraints, acceptance_criteria;
  std::string commit_policy;                            // forbidden, allowed, required; "" = not said
  std::optional<std::vector<SideEffect>> side_effects;  // nothing = the defaults of the launch
  std::vector<ExpectedOutput> expected_outputs;
  std::vector<Gate> gates;
  std::uint64_t gates_timeout_ms = 1'800'000;  // of all gates together
  std::vector<EvidenceRequirement> evidence;
  std::vector<Memory> memory;
  std::vector<InstructionText> instructions;  // in their order; --instructions come after the file's
  std::optional<Checkpoint> checkpoint;
  std::vector<std::string> readiness_required;  // ids of readiness checks that must pass
  json::Value budget;                           // an object as written, or null
  std::string phase;                            // "" = none
};

enum class TaskForm { automatic, text, yaml, json, markdown };
// automatic: by the name (.yaml .yml .json .md .markdown), else text; a Markdown file without front matter is
// text. `name` stands in errors and in the origin of instructions.
Result<TaskSpec> parse_task(std::string_view bytes, TaskForm form, const std::string& name);

Status check_task_message(std::string_view message);
Status check_task(const TaskSpec& task);

// render-context/v1 (sdk/schemas/render-context.v1.json) for the adapter; "" when there is nothing beside the
// envelope.
std::string render_context(const TaskSpec& task);

// The command line, else the task, else `allowed`.
std::string effective_commit_policy(std::string_view command_line, const TaskSpec& task);

}  // namespace hitchrail::manifest
