#include "render.hpp"

#include "hitchrail/adapter.hpp"
#include "json_view.hpp"

namespace hitchrail::codex_cli {
namespace {

constexpr std::size_t text_limit = 4u << 20;
constexpr int listed_files = 200;

using json::View;

std::string quoted(const View& value) {
  std::string out;
  if (value.is_object()) {
    // A path that is not text: {"base64": "..."}.
    return "base64 " + quoted(value.get("base64"));
  }
  std::string scratch;
  json::append_quoted(out, value.string(scratch));
  return out;
}

void heading(std::string& out, std::string_view title) {
  out += "\n## ";
  out += title;
  out += "\n\n";
}

void fact(std::string& out, std::string_view name, const View& value) {
  if (value.present() && !value.is_null()) {
    out += "- ";
    out += name;
    out += ": ";
    out += value.is_string() || value.is_object() ? quoted(value) : std::string(value.raw());
    out += '\n';
  }
}

void none_if_empty(std::string& out, bool empty) {
  if (empty) {
    out += "- None\n";
  }
}

// A list of texts; continuation lines of one text are indented so that they stay in its bullet.
void texts(std::string& out, std::string_view title, const View& list) {
  heading(out, title);
  bool empty = true;
  for (View::Walker walker(list); walker.next(); empty = false) {
    out += "- ";
    std::string scratch;
    for (const char c : walker.value().string(scratch)) {
      out += c;
      if (c == '\n') {
        out += "  ";
      }
    }
    out += '\n';
  }
  none_if_empty(out, empty);
}

void workspace(std::string& out, const View& space) {
  heading(out, "Workspace");
  fact(out, "Repository", space.get("repo"));
  fact(out, "Branch", space.get("branch"));
  fact(out, "Base branch", space.get("baseBranch"));
  fact(out, "Worktree", space.get("worktreePath"));
  const View baseline = space.get("baseline");
  fact(out, "HEAD at launch", baseline.get("headSha"));
  out += baseline.get("dirty").is_true() ? "- The worktree had uncommitted changes at launch\n"
                                         : "- The worktree was clean at launch\n";
  View::Walker files(baseline.get("files"));
  int count = 0;
  while (files.next()) {
    if (count == 0) {
      out += "\nFiles that were not clean at launch:\n\n";
    }
    if (count++ < listed_files) {
      out += "- " + files.value().get("status").string() + " " + quoted(files.value().get("path")) + "\n";
    }
  }
  if (count > listed_files) {
    out += "- and " + std::to_string(count - listed_files) + " more\n";
  }
}

void commit_policy(std::string& out, const View& policy) {
  heading(out, "Commit Policy");
  if (policy.equals("forbidden")) {
    out += "Do not create commits. Leave your changes in the worktree.\n";
  } else if (policy.equals("required")) {
    out +=
        "Commit your work on the current branch before you finish. A run without a commit is not complete.\n";
  } else {
    out += "You may commit on the current branch; you need not.\n";
  }
}

void described(std::string& out, std::string_view title, const View& list, std::string_view name,
               std::string_view text) {
  heading(out, title);
  bool empty = true;
  for (View::Walker walker(list); walker.next(); empty = false) {
    const View entry = walker.value();
    out += "- " + entry.get(name).string();
    out += entry.get("required").is_true() ? " (required): " : ": ";
    out += quoted(entry.get(text)) + "\n";
  }
  none_if_empty(out, empty);
}

void transport(std::string& out, const View& envelope) {
  heading(out, "Transport");
  fact(out, "Schema", envelope.get("schemaVersion"));
  fact(out, "Task envelope", envelope.get("digest"));
  fact(out, "Runtime manifest", envelope.get("launchManifest").get("digest"));
  fact(out, "Protocol", envelope.get("launchManifest").get("protocolVersion"));
  fact(out, "Task", envelope.get("subject").get("id"));
  fact(out, "Attempt", envelope.get("attempt").get("id"));
}

std::string document(const View& envelope, const std::string& message) {
  const View subject = envelope.get("subject");
  std::string out = "# Codex CLI Task Envelope\n";
  transport(out, envelope);
  heading(out, "Objective");
  out += quoted(subject.get("objective")) + "\n";
  texts(out, "Background", subject.get("background"));
  texts(out, "Constraints", subject.get("constraints"));
  workspace(out, envelope.get("workspace"));
  commit_policy(out, envelope.get("commitPolicy"));
  texts(out, "Acceptance Criteria", subject.get("acceptanceCriteria"));
  described(out, "Allowed Side Effects", envelope.get("allowedSideEffects"), "kind", "scope");
  described(out, "Expected Outputs", envelope.get("expectedOutputs"), "id", "description");
  described(out, "Verification Gates", envelope.get("verificationGates"), "id", "description");
  described(out, "Completion Evidence", envelope.get("completionContract").get("evidenceRequirements"), "id",
            "description");
  heading(out, "Completion");
  out +=
      "Your final message is the report; it is captured from the output of this process. Do not call any "
      "completion "
      "endpoint.\n";
  heading(out, "Operator Turn");
  out += message;
  return out;
}

}  // namespace

std::string render_task(std::string_view envelope_json, std::uint32_t mode) {
  if (!json::valid(envelope_json)) {
    throw sdk::Failure(HR_E_ARGUMENT, "envelope-invalid", "the task envelope is not JSON");
  }
  const View envelope(envelope_json);
  if (!envelope.get("schemaVersion").equals("task-envelope/v1")) {
    throw sdk::Failure(HR_E_ARGUMENT, "envelope-invalid", "the task envelope is not task-envelope/v1");
  }
  std::string message = envelope.get("subject").get("message").string();
  if (message.empty()) {
    throw sdk::Failure(HR_E_ARGUMENT, "envelope-without-message",
                       "subject.message of the task envelope is empty");
  }
  std::string text = mode == 0 ? document(envelope, message) : std::move(message);
  if (text.size() > text_limit) {
    throw sdk::Failure(HR_E_LIMIT, "envelope-too-large", "the task's text is over 4 MiB");
  }
  return text;
}

}  // namespace hitchrail::codex_cli
