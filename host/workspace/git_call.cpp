#include "workspace/git_call.hpp"

#include <algorithm>
#include <array>

#include "core/text.hpp"

namespace hitchrail::workspace {
namespace {

// Given by environment, these win over the repository's own configuration. checkStat: the boundary may map
// user ids, and then an index would never match. Commit graphs and pack indexes over packs may lie about
// ancestry.
constexpr std::array<std::pair<const char*, const char*>, 14> kConfig = {
    {{"core.fsmonitor", "false"},
     {"core.hooksPath", "/dev/null"},
     {"core.checkStat", "minimal"},
     {"core.trustctime", "false"},
     {"core.untrackedCache", "false"},
     {"core.commitGraph", "false"},
     {"core.multiPackIndex", "false"},
     {"core.excludesFile", "/dev/null"},
     {"core.attributesFile", "/dev/null"},
     {"submodule.recurse", "false"},
     {"gc.auto", "0"},
     {"maintenance.auto", "false"},
     {"log.showSignature", "false"},
     {"safe.directory", "*"}}};

std::string command_text(const GitCall& call) {
  std::string out = "git";
  for (const std::string& arg : call.args) {
    out += " " + escape_visible(arg);
  }
  return out;
}

}  // namespace

GitCall git_call(const std::string& git_dir, const std::string& worktree) {
  GitCall call;
  call.worktree = worktree;
  call.env = {{"GIT_DIR", git_dir},
              {"GIT_WORK_TREE", worktree},
              {"GIT_CONFIG_NOSYSTEM", "1"},
              {"GIT_CONFIG_GLOBAL", "/dev/null"},
              {"GIT_ATTR_NOSYSTEM", "1"},
              {"GIT_OPTIONAL_LOCKS", "0"},
              {"GIT_NO_REPLACE_OBJECTS", "1"},
              {"GIT_ALLOW_PROTOCOL", "none"},
              {"GIT_TERMINAL_PROMPT", "0"},
              {"GIT_PAGER", "cat"},
              {"GIT_EDITOR", "false"},
              {"GIT_COMMITTER_NAME", "Hitchrail"},
              {"GIT_COMMITTER_EMAIL", "hitchrail@localhost"},
              {"LC_ALL", "C"}};
  call.env.emplace_back("GIT_CONFIG_COUNT", std::to_string(kConfig.size()));
  for (std::size_t i = 0; i < kConfig.size(); ++i) {
    call.env.emplace_back("GIT_CONFIG_KEY_" + std::to_string(i), kConfig[i].first);
    call.env.emplace_back("GIT_CONFIG_VALUE_" + std::to_string(i), kConfig[i].second);
  }
  return call;
}

Error git_failed(const GitCall& call, const GitOutcome& outcome) {
  const std::string how = outcome.signal != 0 ? "ended by signal " + std::to_string(outcome.signal)
                                              : "exit " + std::to_string(outcome.exit_code);
  return Error{ErrorClass::environment,
               "git-failed",
               "run git",
               command_text(call),
               how + ": " + escape_cut(outcome.error, 400),
               "run it by hand in the worktree to see what is wrong with the repository"};
}

bool is_answer_of_git(const Error& error) {
  return error.code == "git-timeout" || error.code == "git-output" || error.code == "git-failed" ||
         error.code == "git-output-invalid" || error.code.starts_with("worktree-");
}

Result<GitOutcome> run_git(const GitRunner& git, const GitCall& call) {
  HR_TRY(outcome, git(call));
  if (outcome.timed_out) {
    return Error{
        ErrorClass::environment,
        "git-timeout",
        "run git",
        command_text(call),
        "no answer within " + std::to_string(call.timeout.count()) + " ms",
        "a FIFO named .gitignore or .gitattributes, or a filter of the repository, can be the cause"};
  }
  if (outcome.output_truncated) {
    return Error{ErrorClass::refused,
                 "git-output",
                 "run git",
                 command_text(call),
                 "it printed more than " + std::to_string(call.max_output) + " bytes",
                 "commit, remove or ignore untracked files"};
  }
  if (outcome.signal != 0) {
    return git_failed(call, outcome);
  }
  return outcome;
}

Result<std::string> git_output(const GitRunner& git, const GitCall& call) {
  HR_TRY(outcome, run_git(git, call));
  if (outcome.exit_code != 0) {
    return git_failed(call, outcome);
  }
  return std::move(outcome.output);
}

std::string quote_path(std::string_view path) {
  std::string out = "\"";
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      out += '\\';
      out += static_cast<char>('0' + (byte >> 6));
      out += static_cast<char>('0' + ((byte >> 3) & 7));
      out += static_cast<char>('0' + (byte & 7));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string empty_tree(std::string_view object_format) {
  return object_format == "sha256" ? "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
                                   : "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
}

std::string zero_oid(std::string_view object_format) {
  return std::string(object_format == "sha256" ? 64 : 40, '0');
}

bool next_field(std::string_view& rest, std::string_view& field) {
  if (rest.empty()) {
    return false;
  }
  const std::size_t end = std::min(rest.find('\0'), rest.size());
  field = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return true;
}

}  // namespace hitchrail::workspace
