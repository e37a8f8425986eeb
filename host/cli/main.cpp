// The program: parses the command line, calls one command, gives its exit code (architecture: 0 done, 1 the
// run or check failed, 2 usage, 3 refused by policy, 4 the environment cannot, 5 internal).

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>

#include "cli/options.hpp"
#include "cli/print.hpp"

#ifndef HITCHRAIL_VERSION
#error "the build gives HITCHRAIL_VERSION"
#endif

namespace {

using namespace hitchrail::cli;

std::string not_empty(const std::string& text) {
  return text.empty() ? "the name is empty" : "";
}

constexpr const char* version_text = "hitchrail " HITCHRAIL_VERSION "\n";

void add_common(CLI::App* app, Common& common) {
  app->add_flag("--json", common.json, "Print JSON on stdout");
  app->add_option("--plugin-dir", common.plugin_dirs, "Also look for adapters here")->type_name("DIR");
  app->add_option("--profile-dir", common.profile_dirs, "Also look for profiles here (harness/, sandbox/)")
      ->type_name("DIR");
}

void add_launch(CLI::App* app, RunOptions& options) {
  add_common(app, options.common);
  app->add_option("--agent", options.agent, "Support profile to run, e.g. codex")->required();
  app->add_option("--worktree", options.worktree, "Git work tree to run in (default: the current folder)")
      ->type_name("DIR");
  auto* message = app->add_option("-m,--message", options.message, "What the agent shall do");
  message->each([&options](const std::string&) { options.has_message = true; });
  auto* task = app->add_option("--task", options.task_file,
                               "Read the task from FILE: YAML, JSON, Markdown or text (- for standard input)")
                   ->type_name("FILE");
  message->excludes(task);
  app->add_option("--task-form", options.task_form, "Form of the task (default: by the file's name)")
      ->check(CLI::IsMember({"text", "yaml", "json", "markdown"}))
      ->needs(task);
  app->add_option("--instructions", options.instructions,
                  "Text the agent is given beside the task, repeatable (- for standard input)")
      ->type_name("FILE");
  app->add_option("--commits", options.commits, "Whether the agent may, must or must not commit")
      ->check(CLI::IsMember({"forbidden", "allowed", "required"}));
  app->add_option("--sandbox", options.sandbox, "Sandbox preset (default: workspace)")
      ->type_name("PRESET")
      ->each([&options](const std::string&) { options.sandbox_given = true; });
  app->add_option("--phase", options.phase,
                  "What this run is for, and no more: explore, plan, implement, verify or publish");
  app->add_option("--plan-artifact", options.plan_artifact, "Where the plan of --phase plan shall stand")
      ->type_name("PATH");
  app->add_option("--backend", options.backend, "Boundary backend: native or landlock (default: the best)");
  app->add_option("--model", options.model, "Model the provider shall use");
  app->add_option("--resume", options.resume, "Continue the conversation of this attempt")
      ->type_name("ATTEMPT")
      ->each([&options](const std::string&) { options.has_resume = true; });
  app->add_option("--provider-option", options.provider_options,
                  "Provider setting of the profile, repeatable")
      ->type_name("KEY=VALUE");
  app->add_option("--relay", options.relays,
                  "Upstream on this machine or network that the run reaches through its gate, repeatable")
      ->type_name("ADDRESS:PORT");
  app->add_option("--executable", options.executable, "Use this program instead of the profile's")
      ->type_name("FILE");
  app->add_flag("--trust-owner", options.trust_owner, "Accept a work tree that another user owns");
  app->add_option("--time-limit", options.time_limit_s, "End the run after this many seconds")
      ->check(CLI::Range(1, 31'536'000));
  app->add_option("--budget", options.budget,
                  "Limit of the run, e.g. runtimeSeconds=600, or enforcement=advisory; repeatable")
      ->type_name("KEY=VALUE");
  app->add_option("--override-readiness", options.override_reason,
                  "Start although the task is not ready, and say why (at least 8 characters)")
      ->type_name("REASON")
      ->each([&options](const std::string&) { options.has_override = true; });
  app->add_option("--manifest", options.manifest_file,
                  "Exactly the launch of this manifest (preview --output), or refuse with each difference")
      ->type_name("FILE")
      ->check(not_empty);
  auto* parent = app->add_option("--parent", options.parent, "Compare with the launch of this attempt")
                     ->type_name("ATTEMPT")
                     ->check(not_empty);
  app->add_flag("--refuse-drift", options.refuse_drift, "Refuse when anything differs from --parent")
      ->needs(parent);
  app->add_flag("--timings", options.timings, "Print what each stage cost, on stderr");
}

struct Commands {
  RunOptions run, preview;
  RunsOptions runs;
  PluginsOptions plugins;
  DoctorOptions doctor;
  SandboxOptions explain, exec;
  PresetOptions presets;
  TrustOptions trust;
  SandboxProbeOptions sandbox_probe;
  WorktreesOptions worktrees;
  int (*chosen_worktrees)(const WorktreesOptions&) = nullptr;
  int (*chosen_presets)(const PresetOptions&) = nullptr;
  int (*chosen_trust)(const TrustOptions&) = nullptr;
  Common cache;
  int (*chosen_cache)(const Common&) = nullptr;
  int (*chosen_sandbox)(const Commands&) = nullptr;
  int (*chosen_runs)(const RunsOptions&) = nullptr;
  int (*chosen_plugins)(const PluginsOptions&) = nullptr;
};

void add_runs(CLI::App& app, Commands& commands) {
  auto* runs = app.add_subcommand("runs", "List, show, follow, stop and recover runs");
  runs->require_subcommand(1);
  auto add = [&](const char* name, const char* text, int (*call)(const RunsOptions&), bool needs_id) {
    auto* sub = runs->add_subcommand(name, text);
    add_common(sub, commands.runs.common);
    auto* id = sub->add_option("attempt", commands.runs.attempt, "Attempt id or a unique prefix of it");
    if (needs_id) {
      id->required();
    }
    sub->callback([&commands, call] { commands.chosen_runs = call; });
    return sub;
  };
  add("list", "List runs", runs_list, false)
      ->footer("Examples:\n  hitchrail runs list\n  hitchrail runs list --json | jq '.runs[].status'");
  add("show", "Show one run", runs_show, true)
      ->footer(
          "Examples:\n  hitchrail runs show attempt_1a\n  hitchrail runs show attempt_1a --json | jq "
          ".completion");
  auto* events = add("events", "Print a run's journal", runs_events, true);
  events->add_option("--after", commands.runs.after, "Only events after this sequence");
  events->add_flag("--follow", commands.runs.follow, "Wait for more until the run has ended");
  events->footer(
      "Examples:\n  hitchrail runs events attempt_1a --follow\n  hitchrail runs events attempt_1a --after 20 "
      "--json");
  auto* stop = add("stop", "Stop a run", runs_stop, true);
  stop->add_flag("--kill", commands.runs.kill, "End the whole tree at once");
  stop->footer("Examples:\n  hitchrail runs stop attempt_1a\n  hitchrail runs stop attempt_1a --kill");
  add("recover", "Finish runs whose supervisor died (all, or one)", runs_recover, false)
      ->footer("Examples:\n  hitchrail runs recover\n  hitchrail runs recover attempt_1a");
}

void add_cache(CLI::App& app, Commands& commands) {
  auto* cache = app.add_subcommand("cache", "Show or empty the probe cache (never evidence)");
  cache->require_subcommand(1);
  auto add = [&](const char* name, const char* text, int (*call)(const Common&)) {
    auto* sub = cache->add_subcommand(name, text);
    add_common(sub, commands.cache);
    sub->callback([&commands, call] { commands.chosen_cache = call; });
    return sub;
  };
  add("show", "List what is kept between launches", cache_show)
      ->footer("Examples:\n  hitchrail cache show\n  hitchrail cache show --json | jq .bytes");
  add("clear", "Forget everything: the next launch probes, hashes and proves anew", cache_clear)
      ->footer("Examples:\n  hitchrail cache clear\n  hitchrail cache clear --json");
}

void add_plugins(CLI::App& app, Commands& commands) {
  auto* plugins = app.add_subcommand("plugins", "List, show, enable, disable and check adapters");
  plugins->require_subcommand(1);
  auto add = [&](const char* name, const char* text, int (*call)(const PluginsOptions&),
                 const char* argument) {
    auto* sub = plugins->add_subcommand(name, text);
    add_common(sub, commands.plugins.common);
    if (argument != nullptr) {
      sub->add_option(argument, commands.plugins.name)->required();
    }
    sub->callback([&commands, call] { commands.chosen_plugins = call; });
    return sub;
  };
  add("list", "List adapters and their state", plugins_list, nullptr)
      ->footer("Examples:\n  hitchrail plugins list\n  hitchrail plugins list --json");
  add("show", "Show one adapter", plugins_show, "provider")
      ->footer("Examples:\n  hitchrail plugins show codex-cli\n  hitchrail plugins show codex-cli --json");
  add("enable", "Enable an adapter and pin its digest", plugins_enable, "provider")
      ->footer(
          "Examples:\n  hitchrail plugins enable my-harness\n  hitchrail plugins enable ./my-harness.so");
  add("disable", "Disable an adapter", plugins_disable, "provider")
      ->footer("Examples:\n  hitchrail plugins disable my-harness\n  hitchrail plugins disable codex-cli");
  add("check", "Check an adapter file without enabling it", plugins_check, "file")
      ->footer(
          "Examples:\n  hitchrail plugins check ./my-harness.so\n  hitchrail plugins check ./my-harness.so "
          "--json");
}

void add_worktree_creation(CLI::App* sub, WorktreesOptions& options) {
  sub->add_option("path", options.name, "Where it shall lie (default: beside the repository)")
      ->type_name("PATH");
  sub->add_option("--repository", options.repository,
                  "Git work tree it is made from (default: the current folder)")
      ->type_name("DIR");
  sub->add_option("--base", options.base, "Branch or commit it starts from (default: what is checked out)")
      ->type_name("BRANCH|COMMIT");
  sub->add_option("--branch", options.branch, "Name of its new branch")->type_name("NAME");
  sub->add_flag("--fetch", options.fetch, "Ask the origin for the base first; reaches the network");
  sub->add_option("--accept-stale-base", options.stale_reason,
                  "Start from what is here, although the base has a remote; the reason is recorded")
      ->type_name("REASON")
      ->each([&options](const std::string&) { options.has_stale_reason = true; });
  sub->add_option("--lease", options.lease_s,
                  "How long a run owns it without renewal, in seconds (default: 30 days)")
      ->type_name("SECONDS");
  sub->add_flag("--trust-owner", options.trust_owner, "Accept a repository that another user owns");
}

void add_worktrees(CLI::App& app, Commands& commands) {
  auto* worktrees = app.add_subcommand("worktrees", "Make, list, remove and prune git work trees for runs");
  worktrees->require_subcommand(1);
  auto add = [&](const char* name, const char* text, int (*call)(const WorktreesOptions&)) {
    auto* sub = worktrees->add_subcommand(name, text);
    add_common(sub, commands.worktrees.common);
    sub->callback([&commands, call] { commands.chosen_worktrees = call; });
    return sub;
  };
  auto* create = add("create", "Make a linked git work tree on a new branch", worktrees_create);
  add_worktree_creation(create, commands.worktrees);
  create->footer(
      "Examples:\n  hitchrail worktrees create --branch fix-login ../repo-fix\n"
      "  hitchrail worktrees create --base main --fetch --json");
  auto* list = add("list", "List work trees that hitchrail made, with their size", worktrees_list);
  list->add_flag("--all", commands.worktrees.all, "Also those that were removed");
  list->footer("Examples:\n  hitchrail worktrees list\n  hitchrail worktrees list --all --json");
  auto* remove = add("remove", "Remove a work tree and its registration", worktrees_remove);
  remove->add_option("worktree", commands.worktrees.name, "Id, unique prefix of it, or path")->required();
  remove
      ->add_option("--force", commands.worktrees.force,
                   "Remove although something speaks against it; recorded")
      ->type_name("REASON")
      ->each([&commands](const std::string&) { commands.worktrees.has_force = true; });
  remove->footer(
      "Examples:\n  hitchrail worktrees remove ../repo-fix\n"
      "  hitchrail worktrees remove 1aB2 --force 'the experiment failed'");
  auto* prune = add("prune", "Clear up what killed commands and removed folders left", worktrees_prune);
  prune->add_flag("--dry-run", commands.worktrees.dry_run, "Only say what would be pruned");
  prune->footer("Examples:\n  hitchrail worktrees prune --dry-run\n  hitchrail worktrees prune");
}

void add_policy(CLI::App* sub, SandboxOptions& options) {
  add_common(sub, options.common);
  sub->add_option("--preset", options.preset, "Sandbox preset (default: workspace)")->type_name("PRESET");
  sub->add_option("--worktree", options.worktree, "Directory to work in (default: the current folder)")
      ->type_name("DIR");
  sub->add_option("--backend", options.backend, "Boundary backend: native or landlock (default: the best)");
  sub->add_option("--read", options.read, "Also grant this path read-only, repeatable")->type_name("PATH");
  sub->add_option("--relay", options.relays, "Let this literal address through the gate, repeatable")
      ->type_name("ADDRESS:PORT");
  sub->add_option("--allow-host", options.hosts, "Let this name through the gate, repeatable")
      ->type_name("NAME[:PORT]");
  sub->add_flag("--trust-owner", options.trust_owner, "Accept a directory that another user owns");
}

void add_presets(CLI::App* sandbox, Commands& commands) {
  auto* presets = sandbox->add_subcommand("presets", "List, show, add, disable and enable sandbox presets");
  presets->require_subcommand(1);
  auto add = [&](const char* name, const char* text, int (*call)(const PresetOptions&),
                 const char* argument) {
    auto* sub = presets->add_subcommand(name, text);
    add_common(sub, commands.presets.common);
    if (argument != nullptr) {
      sub->add_option(argument, commands.presets.name)->required();
    }
    sub->callback([&commands, call] { commands.chosen_presets = call; });
    return sub;
  };
  add("list", "List presets and their state", presets_list, nullptr)
      ->footer("Examples:\n  hitchrail sandbox presets list\n  hitchrail sandbox presets list --json");
  add("show", "Show one preset and who decided on it", presets_show, "preset")
      ->footer(
          "Examples:\n  hitchrail sandbox presets show workspace\n  hitchrail sandbox presets show mine "
          "--json");
  add("add", "Check a preset file, keep it and record who added it", presets_add, "file")
      ->footer(
          "Examples:\n  hitchrail sandbox presets add ./mine.yaml\n  hitchrail sandbox presets add "
          "./mine.yaml "
          "--json");
  add("disable", "Refuse every launch that names this preset", presets_disable, "preset")
      ->footer(
          "Examples:\n  hitchrail sandbox presets disable permissive\n  hitchrail sandbox presets disable "
          "mine");
  add("enable", "Allow a disabled preset again", presets_enable, "preset")
      ->footer(
          "Examples:\n  hitchrail sandbox presets enable permissive\n  hitchrail sandbox presets enable "
          "mine");
}

void add_sandbox(CLI::App& app, Commands& commands) {
  auto* sandbox = app.add_subcommand("sandbox", "Prove, explain and use the boundary");
  sandbox->require_subcommand(1);
  auto* explain = sandbox->add_subcommand("explain", "Each path a command would see, its access, and why");
  add_policy(explain, commands.explain);
  explain->footer(
      "Examples:\n  hitchrail sandbox explain\n  hitchrail sandbox explain --preset repo-contained --json -- "
      "claude");
  explain->callback([&commands] {
    commands.chosen_sandbox = [](const Commands& all) { return sandbox_explain(all.explain); };
  });
  auto* exec = sandbox->add_subcommand("exec", "Run one command in the boundary of a preset");
  add_policy(exec, commands.exec);
  exec->add_option("--env", commands.exec.environment, "Variable for the command, repeatable")
      ->type_name("NAME[=VALUE]");
  exec->add_flag("--import", commands.exec.import_commits, "Import the command's commits as a run's");
  exec->footer(
      "Examples:\n  hitchrail sandbox exec -- make test\n"
      "  hitchrail sandbox exec --preset repo-contained --worktree ../repo --env API_KEY -- ./check.sh "
      "--all");
  exec->callback(
      [&commands] { commands.chosen_sandbox = [](const Commands& all) { return sandbox_exec(all.exec); }; });
  auto* probe = sandbox->add_subcommand("probe", "Prove on this machine what each backend holds");
  add_common(probe, commands.sandbox_probe.common);
  probe->add_option("--backend", commands.sandbox_probe.backend, "Only native or landlock (default: both)");
  probe->add_flag("--fresh", commands.sandbox_probe.fresh, "Run every probe, whatever is remembered");
  probe->footer(
      "Examples:\n  hitchrail sandbox probe\n  hitchrail sandbox probe --backend native --fresh --json");
  probe->callback([&commands] {
    commands.chosen_sandbox = [](const Commands& all) { return sandbox_probe_command(all.sandbox_probe); };
  });
  add_presets(sandbox, commands);
}

void add_trust(CLI::App& app, Commands& commands) {
  auto* trust = app.add_subcommand("trust", "Say what of a repository a harness may take as its own");
  trust->require_subcommand(1);
  auto add = [&](const char* name, const char* text, int (*call)(const TrustOptions&), bool grants) {
    auto* sub = trust->add_subcommand(name, text);
    TrustOptions& options = commands.trust;
    add_common(sub, options.common);
    sub->add_option("--worktree", options.worktree, "Git work tree (default: the current folder)")
        ->type_name("DIR");
    sub->add_option("--agent", options.agent, "As this harness reads it; a decision is then for it alone");
    sub->add_flag("--trust-owner", options.trust_owner, "Accept a work tree that another user owns");
    if (call != trust_show) {
      sub->add_option("--reason", options.reason, "Kept with the decision");
      sub->add_option("--expires", options.expires, "For how long, e.g. 30d, 12h, 45m")
          ->type_name("DURATION");
    }
    if (grants) {
      sub->add_option("--inventory", options.inventory, "What was looked at, as `trust show` names it")
          ->type_name("DIGEST");
    }
    sub->callback([&commands, call] { commands.chosen_trust = call; });
    return sub;
  };
  add("show", "What the repository holds, and who decided what on it", trust_show, false)
      ->footer(
          "Examples:\n  hitchrail trust show --agent codex\n  hitchrail trust show --json | jq "
          "'.entries[].relativePath'");
  add("allow", "Let the harness take all of exactly this inventory", trust_allow, true)
      ->footer(
          "Examples:\n  hitchrail trust allow --agent codex --inventory sha256:…\n  hitchrail trust allow "
          "--inventory sha256:… --reason reviewed --expires 30d");
  add("restrict", "Let it run on exactly this inventory, read-only and without configuration", trust_restrict,
      true)
      ->footer(
          "Examples:\n  hitchrail trust restrict --inventory sha256:…\n  hitchrail trust restrict --agent "
          "codex "
          "--inventory sha256:… --expires 1d");
  add("revoke", "Forget every earlier decision", trust_revoke, false)
      ->footer("Examples:\n  hitchrail trust revoke\n  hitchrail trust revoke --agent codex --reason moved");
  add("deny", "Refuse every run on this repository", trust_deny, false)
      ->footer("Examples:\n  hitchrail trust deny\n  hitchrail trust deny --agent codex --expires 7d");
}

// Errors of `sandbox exec` itself, so that they are none of the command's codes.
constexpr int wrapper_error = 125;

bool is_exec(int argc, char** argv) {
  return argc > 2 && std::strcmp(argv[1], "sandbox") == 0 && std::strcmp(argv[2], "exec") == 0;
}

// What stands behind the first -- of a sandbox command is another program's, and no business of our parser's.
int cut_command(int argc, char** argv, Commands& commands) {
  if (argc < 3 || std::strcmp(argv[1], "sandbox") != 0) {
    return argc;
  }
  for (int i = 2; i < argc; ++i) {
    if (std::strcmp(argv[i], "--") == 0) {
      commands.exec.command.assign(argv + i + 1, argv + argc);
      commands.explain.command = commands.exec.command;
      return i;
    }
  }
  return argc;
}

// Before the command line could be read; what stands behind `--` is another program's.
bool asks_for_json(int argc, char** argv) {
  for (int i = 1; i < argc && std::strcmp(argv[i], "--") != 0; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) {
      return true;
    }
  }
  return false;
}

int parse_and_run(int argc, char** argv) {
  CLI::App app{"Runs coding-agent harnesses inside a boundary, with evidence."};
  app.name("hitchrail");
  app.require_subcommand(1);
  app.set_version_flag("--version", "hitchrail " HITCHRAIL_VERSION);
  Commands commands;
  auto* run = app.add_subcommand("run", "Run an agent on a git work tree");
  add_launch(run, commands.run);
  run->add_flag("--detach", commands.run.detach, "Print the attempt id and leave the run alive");
  run->footer(
      "Examples:\n  hitchrail run --agent codex -m 'Fix the failing test'\n"
      "  hitchrail run --agent codex --worktree ../repo --task task.md --json");
  auto* preview = app.add_subcommand("preview", "Show what run would do, and change nothing");
  add_launch(preview, commands.preview);
  preview
      ->add_option("--output", commands.preview.output, "Also keep the launch manifest in a new FILE (0600)")
      ->type_name("FILE")
      ->check(not_empty);
  preview->footer(
      "Examples:\n  hitchrail preview --agent codex -m 'Fix the failing test'\n"
      "  hitchrail preview --agent codex --task task.md --output plan.json && \\\n"
      "    hitchrail run --agent codex --task task.md --manifest plan.json");
  add_runs(app, commands);
  add_plugins(app, commands);
  add_cache(app, commands);
  add_sandbox(app, commands);
  add_trust(app, commands);
  add_worktrees(app, commands);
  auto* doctor = app.add_subcommand("doctor", "Say what is wrong with this machine and how to mend it");
  add_common(doctor, commands.doctor.common);
  doctor->add_option("--agent", commands.doctor.agent, "Only this profile");
  doctor->footer("Examples:\n  hitchrail doctor\n  hitchrail doctor --agent codex --json");
  app.add_subcommand("version", "Print the version")
      ->footer("Examples:\n  hitchrail version\n  hitchrail --version");
  try {
    app.parse(cut_command(argc, argv, commands), argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // help, version
      return app.exit(error);
    }
    const hitchrail::Error mistake{
        hitchrail::ErrorClass::usage, "usage", "read the command line", "hitchrail", error.what(),
        "hitchrail COMMAND --help"};
    const int code = report(mistake, asks_for_json(argc, argv));
    return is_exec(argc, argv) ? wrapper_error : code;
  }
  if (run->parsed()) {
    return run_command(commands.run);
  }
  if (preview->parsed()) {
    return preview_command(commands.preview);
  }
  if (commands.chosen_runs != nullptr) {
    return commands.chosen_runs(commands.runs);
  }
  if (commands.chosen_plugins != nullptr) {
    return commands.chosen_plugins(commands.plugins);
  }
  if (commands.chosen_sandbox != nullptr) {
    return commands.chosen_sandbox(commands);
  }
  if (commands.chosen_cache != nullptr) {
    return commands.chosen_cache(commands.cache);
  }
  if (commands.chosen_trust != nullptr) {
    return commands.chosen_trust(commands.trust);
  }
  if (commands.chosen_worktrees != nullptr) {
    return commands.chosen_worktrees(commands.worktrees);
  }
  if (commands.chosen_presets != nullptr) {
    return commands.chosen_presets(commands.presets);
  }
  if (doctor->parsed()) {
    return doctor_command(commands.doctor);
  }
  out(version_text);
  return 0;
}

}  // namespace

// A closed one would be given to the next file that is opened, the state directory say, and handed on to a
// command as its stream. Filled with what can be read only, so that output still fails and is not swallowed.
static void fill_standard_descriptors() {
  while (true) {
    const int fd = ::open("/dev/null", O_RDONLY);
    if (fd < 0 || fd > STDERR_FILENO) {
      if (fd >= 0) {
        ::close(fd);
      }
      return;
    }
  }
}

int main(int argc, char** argv) {
  fill_standard_descriptors();
  if (argc == 2 && std::strcmp(argv[1], "version") == 0) {
    return std::fputs(version_text, stdout) < 0 || std::fflush(stdout) != 0 ? 1 : 0;
  }
  // A reader that went away shows as a failed write, not as a death by SIGPIPE in the middle of a launch.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit shows as EFBIG
  ::umask(022);  // modes are said where files are made; a strange mask must not take them away
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::prctl(PR_SET_DUMPABLE, 0);
  try {
    const int code = parse_and_run(argc, argv);
    // What a full disk or a closed descriptor swallowed was not said: that is no success.
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      std::fputs("error[output-failed]: standard output could not be written\n", stderr);
      return code == 0 ? 1 : code;
    }
    return code;
  } catch (const std::exception& error) {
    hitchrail::Error fault{hitchrail::ErrorClass::internal,
                           "internal",
                           "run",
                           "hitchrail",
                           error.what(),
                           "please report this with the command you ran"};
    const int code = report(fault, false);
    return is_exec(argc, argv) ? wrapper_error : code;
  }
}
