#pragma once
// Streams as `codex exec --json` prints them, for the benchmarks: the project's own recordings repeated, and
// a made one whose record sizes are those of longer sessions (most records small, most bytes in messages and
// command output).

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "support/scratch.hpp"

namespace hitchrail::bench {

inline std::string recorded_stream(std::size_t bytes) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(HITCHRAIL_SOURCE_DIR) +
                                                               "/plugins/codex-cli/fixtures")) {
    if (std::filesystem::exists(entry.path() / "stdout.jsonl")) {
      files.push_back(entry.path() / "stdout.jsonl");
    }
  }
  std::sort(files.begin(), files.end());
  std::string once;
  for (const auto& file : files) {
    const std::string text = test::slurp(file);
    once += text.substr(0, text.rfind('\n') + 1);
  }
  std::string out;
  while (!once.empty() && out.size() < bytes) {
    out += once;
  }
  return out;
}

class MadeStream {
 public:
  std::string make(std::size_t bytes) {
    std::string out = R"({"type":"thread.started","thread_id":"0190b8f0-1111-7000-8000-000000000001"})"
                      "\n"
                      R"({"type":"turn.started"})"
                      "\n";
    while (out.size() < bytes) {
      item(out);
    }
    return out +
           R"({"type":"turn.completed","usage":{"input_tokens":1,"cached_input_tokens":0,"output_tokens":2}})"
           "\n";
  }

 private:
  std::uint64_t next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return state_ >> 33;
  }
  // Text like a program's output: words, escaped line feeds, now and then a character beyond ASCII or a
  // quote.
  std::string text(std::size_t size) {
    static constexpr const char* words[] = {"error ",  "src/main.cpp ",   "the ",          "build\\n",
                                            "passed ", "\\\"quoted\\\" ", "\xe2\x9c\x93 ", "function ",
                                            "0x7ffd ", "return\\t"};
    std::string out;
    while (out.size() < size) {
      out += words[next() % 10];
    }
    return out;
  }
  void item(std::string& out) {
    const std::string id = "item_" + std::to_string(number_++);
    const std::uint64_t kind = next() % 10;
    if (kind < 5) {
      const std::string command = "/bin/bash -lc '" + text(30) + "'";
      out += R"({"type":"item.started","item":{"id":")" + id + R"(","type":"command_execution","command":")" +
             command +
             R"(","aggregated_output":"","exit_code":null,"status":"in_progress"}})"
             "\n";
      const std::size_t size = next() % 40 == 0 ? 200'000 : next() % 6 == 0 ? 20'000 : 200 + next() % 3000;
      out += R"({"type":"item.completed","item":{"id":")" + id +
             R"(","type":"command_execution","command":")" + command + R"(","aggregated_output":")" +
             text(size) +
             R"(","exit_code":0,"status":"completed"}})"
             "\n";
    } else if (kind < 7) {
      out += R"({"type":"item.completed","item":{"id":")" + id + R"(","type":"reasoning","text":")" +
             text(100 + next() % 600) + "\"}}\n";
    } else if (kind < 9) {
      out += R"({"type":"item.completed","item":{"id":")" + id + R"(","type":"agent_message","text":")" +
             text(200 + next() % 4000) + "\"}}\n";
    } else {
      out +=
          R"({"type":"item.completed","item":{"id":")" + id +
          R"(","type":"file_change","changes":[{"path":"/w/src/a.cpp","kind":"update"},{"path":"/w/b.txt","kind":"add"}],"status":"completed"}})"
          "\n";
    }
  }

  std::uint64_t state_ = 20260102;
  std::uint64_t number_ = 0;
};

}  // namespace hitchrail::bench
