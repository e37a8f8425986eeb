// The program: parses the command line, calls one command, gives its exit code (architecture: 0 done, 1 the
// run or check failed, 2 usage, 3 refused by policy, 4 the environment cannot, 5 internal).

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
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
  auto* task =
      app->add_option("--task", options.task_file, "Read the message from FILE (- for standard input)")
          ->type_name("FILE");
  message->excludes(task);
  app->add_option("--sandbox", options.sandbox, "Sandbox preset (default: workspace)")->type_name("PRESET");
  app->add_option("--backend", options.backend, "Boundary backend: native or landlock (default: the best)");
  app->add_option("--model", options.model, "Model the provider shall use");
  app->add_option("--resume", options.resume, "Continue the conversation of this attempt")
      ->type_name("ATTEMPT")
      ->each([&options](const std::string&) { options.has_resume = true; });
  app->add_option("--provider-option", options.provider_options,
                  "Provider setting of the profile, repeatable")
      ->type_name("KEY=VALUE");
  app->add_option("--executable", options.executable, "Use this program instead of the profile's")
      ->type_name("FILE");
  app->add_flag("--trust-owner", options.trust_owner, "Accept a work tree that another user owns");
  app->add_option("--time-limit", options.time_limit_s, "End the run after this many seconds")
      ->check(CLI::Range(1, 31'536'000));
  app->add_flag("--timings", options.timings, "Print what each stage cost, on stderr");
}

struct Commands {
  RunOptions run, preview;
  RunsOptions runs;
  PluginsOptions plugins;
  DoctorOptions doctor;
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
  preview->footer(
      "Examples:\n  hitchrail preview --agent codex -m 'Fix the failing test'\n"
      "  hitchrail preview --agent codex --task task.md --json | jq .manifest.digest");
  add_runs(app, commands);
  add_plugins(app, commands);
  auto* doctor = app.add_subcommand("doctor", "Say what is wrong with this machine and how to mend it");
  add_common(doctor, commands.doctor.common);
  doctor->add_option("--agent", commands.doctor.agent, "Only this profile");
  doctor->footer("Examples:\n  hitchrail doctor\n  hitchrail doctor --agent codex --json");
  app.add_subcommand("version", "Print the version")
      ->footer("Examples:\n  hitchrail version\n  hitchrail --version");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : 2;
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
  if (doctor->parsed()) {
    return doctor_command(commands.doctor);
  }
  out(version_text);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
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
    return report(fault, false);
  }
}
