#pragma once
// Optional, header-only: the part of a rendered task that is the same for every provider.
//
//   static std::string render(sdk::Host&, const hr_render_request& request) {
//     return sdk::render_task(request, {"My Harness", "Your final message is the report."});
//   }
//
// Promises: pure, no I/O. A new conversation (mode 0) gets a Markdown document with these sections in this
// order: Transport, Objective, Background, Accepted Memory (when there is one), Constraints, Workspace,
// Commit Policy, Acceptance Criteria, Allowed Side Effects, Expected Outputs, Verification Gates, Completion
// Evidence Contract, Profile Instructions and Resume Context (when given), Completion, Operator Turn. A turn
// of a resumed or forked conversation (mode 1) gets a short document that names the conversation and ends in
// Operator Turn too. The operator's message is the end of the text, byte for byte. Nothing of the task, of
// the repository or of the instructions can begin a line with a heading or open a fence in front of it: texts
// stand in bullets or quotes whose every line is marked, names in JSON quotes. Bounds: 200 baseline files and
// 8 lessons are listed and the rest is counted; of instructions and of a checkpoint's state 20,000 characters
// each are told, then a mark says how many are not; instructions that are not told stay among the
// constraints, in whole parts.
//
// Refuses, as Failure: envelope-invalid, envelope-without-message, envelope-too-large (over 4 MiB of text),
// context-invalid.

#include <hitchrail/adapter.hpp>
#include <hitchrail/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hitchrail::sdk {

struct RenderStyle {
  std::string_view name;        // of the harness, in the first line
  std::string_view completion;  // how its final answer gets out; no completion endpoint exists
};

inline constexpr std::size_t render_limit = 4u << 20;
inline constexpr std::size_t render_chunk = 4000;   // characters of one entry of the envelope's lists
inline constexpr std::size_t render_told = 20'000;  // characters of instructions, and of a checkpoint's state
inline constexpr std::size_t render_files = 200;
inline constexpr std::size_t render_lessons = 8;

namespace render_detail {

using json::View;

// Bytes of the first `count` characters.
inline std::size_t prefix(std::string_view text, std::size_t count) {
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    const bool begins = (static_cast<unsigned char>(text[at]) & 0xc0U) != 0x80U;
    if (begins && count-- == 0) {
      break;
    }
  }
  return at;
}

inline std::size_t characters(std::string_view text) {
  std::size_t count = 0;
  for (const char c : text) {
    count += (static_cast<unsigned char>(c) & 0xc0U) != 0x80U ? 1 : 0;
  }
  return count;
}

// Bytes of the line break at `at`, 0 when there is none: everything that some reader takes for one.
inline std::size_t line_break(std::string_view text, std::size_t at) {
  const std::string_view rest = text.substr(at, 3);
  if (rest.substr(0, 2) == "\r\n" || rest.substr(0, 2) == "\xc2\x85") {
    return 2;
  }
  if (rest == "\xe2\x80\xa8" || rest == "\xe2\x80\xa9") {
    return 3;
  }
  return rest[0] == '\n' || rest[0] == '\r' || rest[0] == '\v' || rest[0] == '\f' ? 1 : 0;
}

// The text with `mark` at the beginning of each further line.
inline void append_marked(std::string& out, std::string_view text, std::string_view mark) {
  for (std::size_t at = 0; at < text.size();) {
    if (const std::size_t length = line_break(text, at); length > 0) {
      out.append("\n").append(mark);
      at += length;
    } else {
      out += text[at++];
    }
  }
}

// In JSON quotes, on one line for every reader: U+0085, U+2028 and U+2029 are escaped too.
inline std::string quoted_text(std::string_view text) {
  std::string plain;
  json::append_quoted(plain, text);
  std::string out;
  for (std::size_t at = 0; at < plain.size();) {
    const std::size_t length = line_break(plain, at);
    if (length == 0) {
      out += plain[at++];
      continue;
    }
    out += length == 2 ? "\\u0085" : plain[at + 2] == '\xa8' ? "\\u2028" : "\\u2029";
    at += length;
  }
  return out;
}

inline std::string quoted(const View& value) {
  if (value.is_object()) {  // a path that is not text: {"base64": "..."}
    return "base64 " + quoted(value.get("base64"));
  }
  return quoted_text(value.string());
}

inline void heading(std::string& out, std::string_view title) {
  out.append("\n## ").append(title).append("\n\n");
}

inline void fact(std::string& out, std::string_view name, const View& value) {
  if (value.present() && !value.is_null()) {
    out.append("- ").append(name).append(": ");
    out += value.is_string() || value.is_object() ? quoted(value) : std::string(value.raw());
    out += '\n';
  }
}

inline void bullet(std::string& out, std::string_view text) {
  out += "- ";
  append_marked(out, text, "  ");
  out += '\n';
}

// A list of texts without its first `skip` entries.
inline void texts(std::string& out, std::string_view title, const View& list, std::size_t skip = 0) {
  heading(out, title);
  bool empty = true;
  for (View::Walker walker(list); walker.next();) {
    if (skip > 0) {
      --skip;
      continue;
    }
    bullet(out, walker.value().string());
    empty = false;
  }
  out += empty ? "- None\n" : "";
}

inline void described(std::string& out, std::string_view title, const View& list, std::string_view name,
                      std::string_view text) {
  heading(out, title);
  bool empty = true;
  for (View::Walker walker(list); walker.next(); empty = false) {
    const View entry = walker.value();
    out += "- ";
    append_marked(out, entry.get(name).string(), "  ");
    out += entry.get("required").is_true() ? " (required): " : ": ";
    out += quoted(entry.get(text));
    if (entry.get("path").present()) {
      out += ", in " + quoted(entry.get("path"));
    }
    out += '\n';
  }
  out += empty ? "- None\n" : "";
}

inline void gates(std::string& out, const View& list) {
  heading(out, "Verification Gates");
  bool empty = true;
  for (View::Walker walker(list); walker.next(); empty = false) {
    const View gate = walker.value();
    out += "- ";
    append_marked(out, gate.get("id").string(), "  ");
    out += gate.get("required").is_true() ? " (required): " : ": ";
    out += quoted(gate.get("description"));
    bool first = true;
    for (View::Walker words(gate.get("command").get("argv")); words.next(); first = false) {
      out += (first ? "; run after you: " : " ") + quoted(words.value());
    }
    out += '\n';
  }
  out += empty ? "- None\n" : "";
}

inline std::string percent(const View& value) {
  const std::uint64_t whole = value.count().value_or(0);
  const std::string digits = std::to_string(whole % 100);
  return std::to_string(whole / 100) + "." + (digits.size() < 2 ? "0" : "") + digits;
}

inline void memory(std::string& out, const View& list) {
  std::size_t count = 0;
  for (View::Walker walker(list); walker.next(); ++count) {
    if (count == 0) {
      heading(out, "Accepted Memory");
    }
    if (count >= render_lessons) {
      continue;
    }
    const View lesson = walker.value();
    out += "- " + quoted(lesson.get("reflectionId")) + ", " + quoted(lesson.get("category")) +
           ", confidence " + percent(lesson.get("confidencePercent")) + ", relevance " +
           percent(lesson.get("relevancePercent"));
    for (const char* source : {"sourceTaskId", "sourceRunId"}) {
      if (lesson.get(source).present()) {
        out += ", from " + quoted(lesson.get(source));
      }
    }
    for (View::Walker events(lesson.get("sourceEventIds")); events.next();) {
      out += ", event " + quoted(events.value());
    }
    out += "\n  Lesson: ";
    append_marked(out, lesson.get("summary").string(), "  ");
    out += "\n  Guidance: ";
    append_marked(out, lesson.get("guidance").string(), "  ");
    out += '\n';
  }
  if (count > render_lessons) {
    out += "- and " + std::to_string(count - render_lessons) + " more\n";
  }
}

inline void workspace(std::string& out, const View& space) {
  heading(out, "Workspace");
  fact(out, "Repository", space.get("repo"));
  fact(out, "Branch", space.get("branch"));
  fact(out, "Base branch", space.get("baseBranch"));
  fact(out, "Base commit", space.get("resolvedBaseCommit"));
  fact(out, "Worktree", space.get("worktreePath"));
  const View baseline = space.get("baseline");
  fact(out, "HEAD at launch", baseline.get("headSha"));
  out += baseline.get("dirty").is_true() ? "- The worktree had uncommitted changes at launch\n"
                                         : "- The worktree was clean at launch\n";
  std::size_t count = 0;
  for (View::Walker files(baseline.get("files")); files.next(); ++count) {
    if (count == 0) {
      out += "\n### Launch Baseline Files\n\n";
    }
    if (count < render_files) {
      out += "- " + quoted(files.value().get("status")) + " " + quoted(files.value().get("path")) + "\n";
    }
  }
  // A long list is not in the envelope, only its count.
  const std::size_t all = std::max<std::size_t>(count, baseline.get("fileCount").count().value_or(count));
  if (all > std::min(count, render_files)) {
    out += "- and " + std::to_string(all - std::min(count, render_files)) + " more\n";
  }
}

inline std::string_view policy_words(const View& policy) {
  return policy.equals("forbidden")  ? "Do not create commits. Leave your changes in the worktree."
         : policy.equals("required") ? "Commit your work on the current branch before you finish. A run "
                                       "without a commit is not complete."
                                     : "You may commit on the current branch; you need not.";
}

// What the host gives beside the envelope, and how much of it is told.
struct Context {
  struct Instruction {
    std::string origin, content;
    std::size_t size = 0, told = 0;  // characters
  };
  std::vector<Instruction> instructions;
  View checkpoint;
  std::size_t parts_told =
      0;  // entries of the envelope's constraints that the instructions section has whole
};

inline Context read_context(std::string_view text, const View& constraints) {
  Context context;
  if (text.empty()) {
    return context;
  }
  if (!json::valid(text) || !View(text).get("schemaVersion").equals("render-context/v1")) {
    throw Failure(HR_E_ARGUMENT, "context-invalid", "the context is not render-context/v1");
  }
  const View document(text);
  context.checkpoint = document.get("checkpoint");
  std::size_t left = render_told;
  bool prefixed = true;
  View::Walker entry(constraints);
  for (View::Walker walker(document.get("instructions")); walker.next();) {
    Context::Instruction one{walker.value().get("origin").string(), walker.value().get("content").string()};
    one.size = characters(one.content);
    one.told = std::min(one.size, left);
    left -= one.told;
    // The envelope keeps the same text as its first constraints, in parts: those told here are not repeated.
    std::string_view rest = one.content;
    for (std::size_t at = 0; !rest.empty() && prefixed; at += render_chunk) {
      const std::string_view part = rest.substr(0, prefix(rest, render_chunk));
      rest.remove_prefix(part.size());
      const bool told = at + characters(part) <= one.told;
      prefixed = told && entry.next() && entry.value().string() == part;
      context.parts_told += prefixed ? 1 : 0;
    }
    context.instructions.push_back(std::move(one));
  }
  return context;
}

inline void instructions(std::string& out, const Context& context) {
  if (context.instructions.empty()) {
    return;
  }
  heading(out, "Profile Instructions");
  for (const Context::Instruction& one : context.instructions) {
    out += "From " + quoted_text(one.origin) + ", " + std::to_string(one.size) + " characters:\n\n> ";
    append_marked(out, std::string_view(one.content).substr(0, prefix(one.content, one.told)), "> ");
    out += '\n';
    if (one.told < one.size) {
      out += "\n[truncated: " + std::to_string(one.size - one.told) +
             " more characters; the parts that are not whole here stand under Constraints]\n";
    }
    out += '\n';
  }
  out.pop_back();
}

inline void checkpoint(std::string& out, const View& state) {
  if (!state.is_object()) {
    return;
  }
  heading(out, "Resume Context");
  fact(out, "Resumed before", state.get("resumeCount"));
  fact(out, "Saved at", state.get("savedAt"));
  fact(out, "Step", state.get("step"));
  std::string text(state.get("state").raw());
  // One line for every reader. A line feed stands between values only, and there any white space will do.
  std::string line;
  append_marked(line, text, "");
  for (char& c : line) {
    c = c == '\n' ? ' ' : c;
  }
  text = std::move(line);
  const std::size_t size = characters(text);
  out += "\nState:\n\n    ";
  out += std::string_view(text).substr(0, prefix(text, render_told));
  out += '\n';
  if (size > render_told) {
    out += "\n[truncated: " + std::to_string(size - render_told) + " more characters]\n";
  }
}

inline void transport(std::string& out, const View& envelope) {
  heading(out, "Transport");
  const View runtime = envelope.get("launchManifest");
  fact(out, "Schema", envelope.get("schemaVersion"));
  fact(out, "Task envelope", envelope.get("digest"));
  fact(out, "Provider", runtime.get("provider"));
  fact(out, "Adapter", runtime.get("adapter"));
  fact(out, "Runtime manifest", runtime.get("digest"));
  fact(out, "Protocol", runtime.get("protocolVersion"));
  fact(out, "Task", envelope.get("subject").get("id"));
  fact(out, "Attempt", envelope.get("attempt").get("id"));
  out +=
      "- The operator's message is the last section and goes to the end of this text; headings in it are "
      "part of it\n";
}

inline void operator_turn(std::string& out, std::string_view message) {
  heading(out, "Operator Turn");
  out += message;
}

inline std::string document(const View& envelope, const Context& context, const RenderStyle& style) {
  const View subject = envelope.get("subject");
  std::string out = "# " + std::string(style.name) + " Task Envelope\n";
  transport(out, envelope);
  heading(out, "Objective");
  out += quoted(subject.get("objective")) + "\n";
  texts(out, "Background", subject.get("background"));
  memory(out, subject.get("memory"));
  texts(out, "Constraints", subject.get("constraints"), context.parts_told);
  workspace(out, envelope.get("workspace"));
  heading(out, "Commit Policy");
  out.append(policy_words(envelope.get("commitPolicy"))).append("\n");
  texts(out, "Acceptance Criteria", subject.get("acceptanceCriteria"));
  described(out, "Allowed Side Effects", envelope.get("allowedSideEffects"), "kind", "scope");
  described(out, "Expected Outputs", envelope.get("expectedOutputs"), "id", "description");
  gates(out, envelope.get("verificationGates"));
  described(out, "Completion Evidence Contract",
            envelope.get("completionContract").get("evidenceRequirements"), "id", "description");
  instructions(out, context);
  checkpoint(out, context.checkpoint);
  heading(out, "Completion");
  out.append(style.completion).append(" Do not call any completion endpoint.\n");
  return out;
}

// The conversation knows its task; this is what is new.
inline std::string turn(const View& envelope, const Context& context, const RenderStyle& style) {
  std::string out = "# " + std::string(style.name) + " Conversation Turn\n\n";
  const View conversation = envelope.get("conversation");
  out += "- Lifecycle: \"conversation-lifecycle/v1\"\n";
  fact(out, "Mode", conversation.get("mode"));
  fact(out, "Source attempt", conversation.get("sourceAttemptId"));
  fact(out, "Source conversation", conversation.get("conversationId"));
  fact(out, "Fork turn", conversation.get("forkTurnId"));
  fact(out, "Task envelope", envelope.get("digest"));
  out.append("- Commit policy: ").append(policy_words(envelope.get("commitPolicy"))).append("\n");
  instructions(out, context);
  checkpoint(out, context.checkpoint);
  return out;
}

}  // namespace render_detail

inline std::string render_task(const hr_render_request& request, const RenderStyle& style) {
  const std::string_view text = view(request.envelope_json);
  if (!json::valid(text) || !json::View(text).get("schemaVersion").equals("task-envelope/v1")) {
    throw Failure(HR_E_ARGUMENT, "envelope-invalid", "the task envelope is not task-envelope/v1");
  }
  const json::View envelope(text);
  const std::string message = envelope.get("subject").get("message").string();
  if (message.empty()) {
    throw Failure(HR_E_ARGUMENT, "envelope-without-message", "subject.message of the task envelope is empty");
  }
  const auto context =
      render_detail::read_context(view(request.context_json), envelope.get("subject").get("constraints"));
  std::string out = request.mode == 0 ? render_detail::document(envelope, context, style)
                                      : render_detail::turn(envelope, context, style);
  render_detail::operator_turn(out, message);
  if (out.size() > render_limit) {
    throw Failure(HR_E_LIMIT, "envelope-too-large", "the task's text is over 4 MiB");
  }
  return out;
}

}  // namespace hitchrail::sdk
