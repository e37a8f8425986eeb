// What a harness writes and reads, with a runner that lives.

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "unit/shim/fixture.hpp"

using namespace shim_test;

static void require_clean_end(Run& run, std::int32_t code = 0) {
  REQUIRE(run.wait());
  const wire::ExitSlot slot = run.slot();
  REQUIRE(slot.state == wire::exit_ended);
  REQUIRE(slot.kind == wire::kind_code);
  REQUIRE(slot.value == code);
  REQUIRE(std::string(slot.cause).empty());
  REQUIRE(run.exists("finished-1"));
  REQUIRE_FALSE(run.exists("finished-2"));
  REQUIRE(run.no_process_left());
}

TEST_CASE("a short run is mapped in order, its exit recorded, its finisher started") {
  Run run({.script = "out one\nout two\nerr three\nexit 3"});
  REQUIRE(run.report.outcome == wire::start_ok);
  REQUIRE(run.report.shim_pid == run.pid);
  REQUIRE(run.report.leader_pid > 0);
  require_clean_end(run, 3);
  const std::string journal = run.journal();
  const auto at = [&](const std::string& what) {
    const auto found = journal.find(what);
    INFO(journal);
    REQUIRE(found != std::string::npos);
    return found;
  };
  REQUIRE(at(expected_line("1", 0, "one")) < at(expected_line("1", 4, "two")));
  REQUIRE(at("e1 eof 0 8") < at("kind 5 exit 1 3 0"));
  REQUIRE(at(expected_line("2", 0, "three")) < at("kind 5 exit"));
  REQUIRE(at("kind 5 exit") < at("kind 6"));
  const wire::ExitSlot slot = run.slot();
  REQUIRE(slot.source == wire::source_init);
  REQUIRE(slot.leader_pid == run.report.leader_pid);
  REQUIRE(slot.shim_start_ticks > 0);
  REQUIRE(slot.leader_start_ticks >= slot.shim_start_ticks);
  REQUIRE(run.slot("finished-1").state == wire::exit_ended);
}

TEST_CASE("the same run in a pid namespace and on pipes") {
  const std::string init = GENERATE("plain", "pidns");
  const std::uint32_t pipes = GENERATE(0u, static_cast<std::uint32_t>(wire::flag_pipes));
  Run run({.script = "out one\nspawn-double 60000\nhold-pipe 60000\nask 1\nexpect answer 1\nexit 0",
           .init = init,
           .flags = (init == "plain" ? wire::flag_no_pid_namespace : 0u) | pipes});
  REQUIRE(run.report.outcome == wire::start_ok);
  require_clean_end(run);
}

TEST_CASE("records of 300 KB and 5 MB arrive whole, in any split") {
  const std::string split = GENERATE("0", "4096", "1");
  Run run({.script = "record 300000 1\nsplit " + split + "\nrecord " + (split == "1" ? "20000" : "5000000") +
                     " 2\nsplit 0\nout tail\nexit 0"});
  require_clean_end(run);
  const auto lines = run.journal_lines();
  REQUIRE(lines.at(0).substr(0, 12) == "s1@0 299999 ");
  REQUIRE(lines.at(1).substr(0, 11) == "s1@300000 " + std::string(split == "1" ? "1" : "4"));
  REQUIRE(run.journal().find(" tail\n") != std::string::npos);
}

TEST_CASE("a runner that comes three seconds late loses nothing and the harness does not wait for it") {
  Run run({.script = "record 5000000 1\nout written\nexit 0", .runner = "late=3000"});
  const auto begin = std::chrono::steady_clock::now();
  // 5 MB are far more than a socket holds: the harness has ended while the runner still sleeps.
  for (int i = 0; i < 200 && run.slot().state != wire::exit_exited; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  REQUIRE(run.slot().state == wire::exit_exited);
  REQUIRE(std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(2500));
  require_clean_end(run);
  REQUIRE(run.journal().find(" written\n") != std::string::npos);
  REQUIRE(run.journal_lines().at(0).substr(0, 13) == "s1@0 4999999 ");
}

TEST_CASE("a full ring blocks the harness, says so once, and no byte is lost") {
  std::string script;
  for (int i = 0; i < 12; ++i) {
    script += "record 500000 " + std::to_string(i) + "\n";
  }
  Run run({.script = script + "out tail\nexit 0", .runner = "late=1200", .limits = limits(1 << 20)});
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const Reply reply = run.ask('s', wire::control_status);
  REQUIRE(reply.answered);
  REQUIRE(reply.status.ring_pending[0] >= 1u << 20);
  REQUIRE(reply.status.ring_pending[0] <= (1u << 20) + (64u << 10));
  REQUIRE(reply.status.leader_pid != 0);
  require_clean_end(run);
  const std::string journal = run.journal();
  REQUIRE(journal.find(" tail\n") != std::string::npos);
  REQUIRE(journal.find("e1 eof 0 6000005") != std::string::npos);
  REQUIRE(journal.find("i1 kind 7\n") != std::string::npos);
  std::size_t episodes = 0;
  for (std::size_t at = 0; (at = journal.find("kind 7\n", at)) != std::string::npos; ++at) {
    ++episodes;
  }
  REQUIRE(episodes <= 6);  // once an episode, not once a read
  REQUIRE(run.journal_lines().size() == 12 + 1 + 4 + episodes);
}

TEST_CASE("a hundred thousand single bytes on two streams in turn while nobody maps them") {
  Run run({.script = "alternate 100000\nexit 0", .runner = "late=1500"});
  require_clean_end(run);
  REQUIRE(run.journal_lines().size() == 2 * 2000 + 4);
  REQUIRE(run.journal().find("e1 eof 0 100000\n") != std::string::npos);
  REQUIRE(run.journal().find("e2 eof 0 100000\n") != std::string::npos);
}

TEST_CASE("bytes that cannot be stored wait, and arrive when there is room again") {
  Run run({.script = "out begin\nsleep 300\nrecord 8000000 1\nout tail\nexit 0"});
  REQUIRE(run.wait_journal("begin"));
  // A file size limit stands for memory that is short: writing to the ring fails at 1 MiB.
  rlimit old{};
  REQUIRE(prlimit(run.pid, RLIMIT_FSIZE, nullptr, &old) == 0);
  const rlimit low{1 << 20, old.rlim_max};
  REQUIRE(prlimit(run.pid, RLIMIT_FSIZE, &low, nullptr) == 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(900));
  const Reply reply = run.ask('s', wire::control_status);
  REQUIRE(reply.answered);
  REQUIRE(reply.status.leader_pid != 0);  // blocked in its write, not dead
  REQUIRE(prlimit(run.pid, RLIMIT_FSIZE, &old, nullptr) == 0);
  require_clean_end(run);
  REQUIRE(run.journal().find("s1@6 7999999 ") != std::string::npos);
  REQUIRE(run.journal().find(" tail\n") != std::string::npos);
}

TEST_CASE("a harness cannot forge its own records through proc on socket pairs, and could on pipes") {
  const bool pipes = GENERATE(false, true);
  Run run({.script = "forge parent\nexit 0",
           .flags = wire::flag_no_pid_namespace | (pipes ? wire::flag_pipes : 0u)});
  require_clean_end(run);
  const std::string journal = run.journal();
  REQUIRE((journal.find("FORGED") != std::string::npos) == pipes);
  REQUIRE((journal.find("forge write=0 read=0") != std::string::npos) == pipes);
  REQUIRE((journal.find("forge write=6 read=6") != std::string::npos) == !pipes);  // ENXIO
}

TEST_CASE("end of input comes after the initial input, and a harness may close its input early") {
  Run one({.script = "eof\nout seen\nexit 0", .flags = wire::flag_no_pid_namespace | wire::flag_close_input});
  require_clean_end(one);
  REQUIRE(one.journal().find(" seen\n") != std::string::npos);
  Run two({.script = "close 0\nask 1\nout on\nask 2\nsleep 100\nexit 0"});
  require_clean_end(two);
  REQUIRE(two.journal().find(" on\n") != std::string::npos);
}

TEST_CASE("the last bytes without a line feed, closed streams and binary bytes are kept") {
  Run run({.script = "raw 00ff0a\nclose 2\nunterminated rest\nexit 0"});
  require_clean_end(run);
  REQUIRE(run.journal().find("s1@0 2 ") != std::string::npos);
  REQUIRE(run.journal().find(" rest\n") != std::string::npos);
  REQUIRE(run.journal().find("e2 eof 0 0\n") < run.journal().find("e1 eof 0 7\n"));
}

TEST_CASE("a secret goes to the harness's input encoded and nowhere else") {
  Run run({.script = "out SECRET 0\nexpect k\"\\y\nout SECRET 1\nexpect k\\\"\\\\y\nout SECRET 2\nexpect "
                     "ayJceQ==\nout good\nexit 0",
           .secret = "k\"\\y"});
  require_clean_end(run);
  REQUIRE(run.journal().find(" good\n") != std::string::npos);
  REQUIRE(run.journal().find("k\"") == std::string::npos);
}

TEST_CASE("an unknown secret ends the attempt with its cause") {
  Run run({.script = "out SECRET 0\nsleep 60000"});
  REQUIRE(run.wait());
  REQUIRE(std::string(run.slot().cause) == "secret-unknown");
  REQUIRE(run.no_process_left());
}

TEST_CASE("files of the home become streams after the exit: newest match, no link, absent says so") {
  Run run({.script = "sleep 200\nexit 0",
           .file_patterns = {"sessions/*/r-*.jsonl", "last.txt", "nothing-*", "link.txt", "big",
                             "../etc/hostname"}});
  std::filesystem::create_directories(run.home + "/sessions/a");
  std::filesystem::create_directories(run.home + "/sessions/b");
  write_path(run.home + "/sessions/a/r-1.jsonl", "old\n");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  write_path(run.home + "/sessions/b/r-2.jsonl", "new\n");
  std::filesystem::create_directory_symlink("/etc", run.home + "/sessions/c");
  write_path(run.home + "/last.txt", "final");
  REQUIRE(symlink("/etc/hostname", (run.home + "/link.txt").c_str()) == 0);
  REQUIRE(mkfifo((run.home + "/sessions/b/r-3.jsonl").c_str(), 0600) == 0);
  write_path(run.home + "/big", std::string((1 << 20) + 5, 'x'));
  require_clean_end(run);
  const std::string journal = run.journal();
  INFO(journal);
  REQUIRE(journal.find(expected_line("8", 0, "new")) != std::string::npos);
  REQUIRE(journal.find("e8 eof 0 4\n") != std::string::npos);
  REQUIRE(journal.find(expected_line("9", 0, "final")) != std::string::npos);
  REQUIRE(journal.find("e10 eof 1 0\n") != std::string::npos);
  REQUIRE(journal.find("e11 eof 1 0\n") != std::string::npos);
  REQUIRE(journal.find("e12 eof 2 1048576\n") != std::string::npos);
  REQUIRE(journal.find("e13 eof 1 0\n") != std::string::npos);
  REQUIRE(journal.find("kind 5") < journal.find("e8 eof"));
  REQUIRE(journal.find("e13 eof") < journal.find("kind 6"));
}

TEST_CASE("nothing of a careless caller is held: descriptors, session, directory, mask, dispositions") {
  Run run({.script = "sleep 600\nexit 0"});
  const std::string proc = "/proc/" + std::to_string(run.pid);
  REQUIRE(getsid(run.pid) == run.pid);
  const std::string status = read_path(proc + "/status");
  REQUIRE(status.find("SigIgn:\t0000000000001000") != std::string::npos);  // SIGPIPE alone
  const std::string harness = read_path("/proc/" + std::to_string(run.report.leader_pid) + "/status");
  REQUIRE(harness.find("SigBlk:\t0000000000000000") != std::string::npos);
  if (geteuid() == 0) {  // the shim is not dumpable: others may not look
    REQUIRE(std::filesystem::read_symlink(proc + "/cwd") == "/");
    std::size_t high = 0;
    for (const auto& entry : std::filesystem::directory_iterator(proc + "/fd")) {
      const std::string target = std::filesystem::read_symlink(entry.path()).string();
      high += std::atoi(entry.path().filename().c_str()) >= 100 ? 1u : 0u;
      INFO(target);
      REQUIRE((std::atoi(entry.path().filename().c_str()) > 2 || target == "/dev/null"));
    }
    REQUIRE(high == 0);
    REQUIRE(read_path(proc + "/limits").find("Max core file size        0                    0") !=
            std::string::npos);
  } else {
    std::error_code error;
    std::filesystem::directory_iterator it(proc + "/fd", error);
    REQUIRE(error);
  }
  require_clean_end(run);
}

TEST_CASE("an idle run holds no ring page and does not wake up") {
  Run run({.script = "record 8000000 1\nout idle\nsleep 3000\nexit 0"});
  REQUIRE(run.wait_journal(" idle\n"));
  std::this_thread::sleep_for(std::chrono::milliseconds(1600));
  const auto switches = [&] {
    const std::string status = read_path("/proc/" + std::to_string(run.pid) + "/status");
    return std::atol(status.c_str() + status.find("\nvoluntary_ctxt_switches:") + 25);
  };
  const long before = switches();
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  REQUIRE(switches() - before <= 1);
  if (geteuid() == 0) {
    std::uint64_t blocks = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator("/proc/" + std::to_string(run.pid) + "/fd")) {
      struct stat info {};
      if (std::filesystem::read_symlink(entry.path()).string().find("hitchrail-ring") != std::string::npos &&
          stat(entry.path().c_str(), &info) == 0) {
        blocks += static_cast<std::uint64_t>(info.st_blocks);
      }
    }
    REQUIRE(blocks <= 16);  // at most the last, partly used page of each
  }
  require_clean_end(run);
}
