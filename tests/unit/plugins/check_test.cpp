#include "plugins/check.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <vector>

#include "core/fd.hpp"
#include "plugins/check_steps.hpp"
#include "support/scratch.hpp"
#include "zoo.hpp"

namespace {

using namespace hitchrail;
using plugins::Finding;
using plugins::Outcome;

constexpr std::uint32_t step_ms = 1500;

plugins::CheckReport check(const std::string& path) {
  const Fd runner(::open(test::runner_path().c_str(), O_RDONLY | O_CLOEXEC));
  plugins::CheckOptions options;
  options.runner_fd = runner.get();
  options.step_ms = step_ms;
  auto report = plugins::check_plugin(path, options);
  if (report.has_error()) {
    INFO(report.error().code << ": " << report.error().detail);
    REQUIRE_FALSE(report.has_error());
  }
  return std::move(*report);
}

std::vector<Finding> faults(const plugins::CheckReport& report) {
  std::vector<Finding> out;
  for (const Finding& finding : report.findings) {
    if (finding.outcome != Outcome::passed && finding.outcome != Outcome::skipped) {
      out.push_back(finding);
    }
  }
  return out;
}

struct Animal {
  const char* name;
  const char* id;
  Outcome outcome;
  const char* detail;  // part of it
};

const Animal zoo_table[] = {
    {"thread_in_probe", "probe.begin", Outcome::failed, "start a process or thread"},
    {"fork_in_launch", "launch.plan", Outcome::failed, "forbidden system call clone"},
    {"sleeps_in_map_events", "pair.open.map_events", Outcome::timed_out, "1500 ms in map_events"},
    {"exits_in_launch", "launch.plan", Outcome::crashed, "exit code 0 in launch"},
    {"aborts_in_render", "render.text", Outcome::crashed, "SIGABRT in render"},
    {"segfault_in_on_exit", "pair.open.on_exit", Outcome::crashed, "SIGSEGV in on_exit"},
    {"kills_itself_in_on_end", "pair.exited.on_end", Outcome::crashed, "SIGKILL in on_end"},
    {"closes_descriptors", "probe.walk", Outcome::failed, "closed descriptor 0"},
    {"throws_in_map_events", "pair.open.map_events", Outcome::failed,
     "exception cross the border: across the border"},
    {"writes_10_mib", "pair.planned.snapshot", Outcome::failed, "wrote 10485760 bytes to stdout"},
    {"prints_in_on_end", "pair.exited.on_end", Outcome::failed, "wrote 8 bytes to stdout"},
    {"abort_in_constructor", "load", Outcome::crashed, "SIGABRT in load"},
    {"constructor_hangs", "load", Outcome::timed_out, "1500 ms in load"},
    {"constructor_connects", "load", Outcome::failed, "forbidden system call socket"},
    {"undefined_symbol", "load", Outcome::failed, "undefined symbol: zoo_is_nowhere"},
    {"socket_in_on_timer", "pair.open.on_timer", Outcome::failed, "forbidden system call socket"},
    {"control_in_planned", "pair.planned.control", Outcome::failed,
     "HR_OK in state planned, expected HR_E_STATE"},
    {"snapshot_after_end", "pair.ended.snapshot", Outcome::failed, "HR_E_STATE in state ended"},
    {"no_launch_hook", "table", Outcome::failed, "required members are not set: launch"},
    {"other_provider", "table", Outcome::failed, "\"somebody-else\", the note \"echo-c\""},
    {"other_abi_in_table", "table", Outcome::failed, "table says ABI 2.0, the note 1.0"},
    {"small_table", "table", Outcome::failed, "struct_size 64"},
    {"null_table", "table", Outcome::failed, "returned NULL"},
    {"plan_differs", "launch.same", Outcome::failed, "second plan differs"},
    {"plan_out_of_bounds", "launch.plan", Outcome::failed, "record cap over 16 MiB"},
    {"task_in_arguments", "launch.arguments", Outcome::failed, "in an argument"},
    {"emits_in_reattach", "reattach.quiet", Outcome::failed, "emit is not allowed in reattach"},
    {"bad_probe_result", "probe.walk", Outcome::failed, "lacks providerVersion"},
    {"no_probe_step", "probe.begin", Outcome::failed, "asked for no step"},
    {"no_verdict", "end.verdict", Outcome::failed, "called finish 0 times"},
    {"snapshot_differs", "snapshot.same", Outcome::failed, "differs from the first"},
    {"render_differs", "render.pure", Outcome::failed, "second text differs"},
    {"remembers_records", "records.same", Outcome::failed, "gave other callbacks"},
    {"recurses", "records.any", Outcome::crashed, "SIGSEGV in map_events"},
    {"not_utf8", "records.any", Outcome::failed, "not UTF-8"},
    // Judged as bytes: behind each is a constructor that would abort if any code of it ran.
    {"second_export", "elf.exports", Outcome::failed, "zoo_second_export"},
    {"no_note", "elf.note", Outcome::failed, "found no Hitchrail note"},
    {"large_note", "elf.note", Outcome::failed, "1048576 bytes"},
    {"two_notes", "elf.note", Outcome::failed, "found 2 Hitchrail notes"},
    {"runpath", "elf.dynamic", Outcome::failed, "DT_RUNPATH"},
    {"rpath", "elf.dynamic", Outcome::failed, "DT_RPATH"},
    {"auditor", "elf.dynamic", Outcome::failed, "DT_AUDIT"},
    {"interposer", "elf.dynamic", Outcome::failed, "DT_FLAGS_1 0x400"},
    {"text_relocation", "elf.dynamic", Outcome::failed, "TEXTREL"},
    {"executable_stack", "elf.code", Outcome::failed, "executable stack"},
    {"foreign_library", "elf.dependencies", Outcome::failed, "libcrypto.so"},
};

TEST_CASE("a sound adapter passes every check and nothing is skipped") {
  const auto report = check(test::zoo("sound"));
  for (const Finding& finding : report.findings) {
    INFO(finding.id << ": " << finding.detail);
    CHECK(finding.outcome == Outcome::passed);
  }
  CHECK(report.passed());
  CHECK(report.provider == "echo-c");
  CHECK(report.digest.starts_with("sha256:"));
}

TEST_CASE("every (state, hook) pair of the table is a check of its own") {
  const auto report = check(test::zoo("sound"));
  std::size_t pairs = 0;
  for (const Finding& finding : report.findings) {
    pairs += finding.id.starts_with("pair.") ? 1 : 0;
  }
  CHECK(pairs == plugins::state_count * plugins::pair_hooks.size());
  CHECK(plugins::check_steps().size() == plugins::step_count);
}

TEST_CASE("each broken adapter gives exactly one finding, within the time limit, and leaves no process") {
  // Whatever an adapter's process could leave behind would become a child of this one.
  REQUIRE(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
  for (const Animal& animal : zoo_table) {
    DYNAMIC_SECTION(animal.name) {
      const auto begin = std::chrono::steady_clock::now();
      const auto report = check(test::zoo(animal.name));
      const auto took = std::chrono::steady_clock::now() - begin;
      const auto found = faults(report);
      for (const Finding& finding : found) {
        UNSCOPED_INFO(finding.id << " " << plugins::outcome_name(finding.outcome) << ": " << finding.detail);
      }
      REQUIRE(found.size() == 1);
      CHECK(found[0].id == animal.id);
      CHECK(found[0].outcome == animal.outcome);
      CHECK(found[0].detail.find(animal.detail) != std::string::npos);
      CHECK_FALSE(report.passed());
      // One hang costs one limit; the rest of the check is milliseconds, with room for a busy machine.
      CHECK(took < std::chrono::milliseconds(step_ms) + std::chrono::seconds(10));
      errno = 0;
      CHECK((::waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD));
    }
  }
}

TEST_CASE("no code of a file that is wrong as bytes is run") {
  for (const Animal& animal : zoo_table) {
    if (std::string_view(animal.id).starts_with("elf.")) {
      const auto report = check(test::zoo(animal.name));
      INFO(animal.name);
      for (const Finding& finding : report.findings) {
        if (finding.id == "load") {
          CHECK(finding.outcome == Outcome::skipped);
        }
      }
    }
  }
}

TEST_CASE("a step that could not be reached is skipped, says why, and the check does not pass") {
  const auto report = check(test::zoo("writes_10_mib"));
  std::size_t skipped = 0;
  for (const Finding& finding : report.findings) {
    if (finding.outcome == Outcome::skipped) {
      ++skipped;
      CHECK(finding.detail.find("snapshot") != std::string::npos);
    }
  }
  CHECK(skipped > 0);
  CHECK_FALSE(report.passed());
}

TEST_CASE("a crash in one hook does not hide what the others do") {
  const auto report = check(test::zoo("aborts_in_render"));
  for (const Finding& finding : report.findings) {
    if (finding.id == "end.verdict" || finding.id == "records.same") {
      CHECK(finding.outcome == Outcome::passed);
    }
  }
}

TEST_CASE("every check is in the author's table with its sentence") {
  std::ifstream in(HITCHRAIL_SOURCE_DIR "/docs/authors/checker.md");
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  for (const Finding& finding : check(test::zoo("sound")).findings) {
    if (!finding.id.starts_with("pair.")) {
      INFO(finding.id);
      CHECK(page.find("| `" + finding.id + "` | " + finding.sentence + " |") != std::string::npos);
    }
  }
}

TEST_CASE(
    "a library in a folder that others can write, and a file that is none, are findings before anything "
    "else") {
  const test::TempDir root;
  const std::string path = std::string(root.path()) + "/sound.so";
  std::filesystem::copy_file(test::zoo("sound"), path);
  REQUIRE(::chmod(root.path().c_str(), 0777) == 0);
  auto found = faults(check(path));
  REQUIRE(found.size() == 1);
  CHECK(found[0].id == "file");
  REQUIRE(::chmod(root.path().c_str(), 0755) == 0);
  CHECK(check(path).passed());

  std::ofstream(path) << "#!/bin/sh\n";
  found = faults(check(path));
  REQUIRE(found.size() == 1);
  CHECK(found[0].id == "elf.file");
  found = faults(check(std::string(root.path()) + "/none.so"));
  REQUIRE(found.size() == 1);
  CHECK(found[0].id == "file");
}

TEST_CASE("the checker works for an ordinary user") {
  const int code = test::in_ordinary_child([] { return check(test::zoo("sound")).passed() ? 0 : 1; });
  CHECK(code == 0);
}

TEST_CASE("the checker runs nothing where it cannot confine") {
  plugins::CheckOptions options;
  const Fd not_a_runner(::open("/bin/true", O_RDONLY | O_CLOEXEC));
  options.runner_fd = not_a_runner.get();
  const auto report = plugins::check_plugin(test::zoo("sound"), options);
  REQUIRE(report.has_error());
  CHECK(report.error().code == "checker-not-confined");
  CHECK(report.error().kind == ErrorClass::environment);
}

}  // namespace
