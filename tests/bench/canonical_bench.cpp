// Canonical form and digest of contract documents, beside jq and Python in the same run. The document is made
// here and has the shape of a task envelope with a baseline of many changed files. usage: canonical_bench
// [MEGABYTES]
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "bench/bench.hpp"
#include "core/canonical.hpp"
#include "core/json.hpp"
#include "support/scratch.hpp"

namespace {

using namespace hitchrail;

json::Value envelope(std::size_t wanted_bytes) {
  json::Value files = json::Value::array();
  for (std::size_t i = 0; files.items().size() * 260 < wanted_bytes; ++i) {
    const std::string hash = sha256_hex(std::to_string(i));
    files.push(json::Value::object(
        {{"path", "source/component-" + std::to_string(i % 97) + "/file-" + std::to_string(i) + ".cpp"},
         {"status", " M"},
         {"indexBlobHash", hash.substr(0, 40)},
         {"worktreeSha256", "sha256:" + hash},
         {"size", static_cast<std::int64_t>(i * 37 % 100'000)}}));
  }
  json::Value document = json::Value::object();
  document.set("schemaVersion", "task-envelope/v1");
  document.set("subject",
               json::Value::object({{"message", "Mend the \"parser\":\n\tit drops the last line. Grüße"}}));
  document.set("workspace",
               json::Value::object({{"baseline", json::Value::object({{"files", std::move(files)}})}}));
  if (seal_document(document).has_error()) {
    std::exit(1);
  }
  return document;
}

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void print(const char* name, const bench::Rate& rate, double ours) {
  std::printf("%-34s %8.1f MB/s  worst %8.1f   %5.2f x ours\n", name, rate.p50, rate.worst, rate.p50 / ours);
}

// The peer's first 64 characters of output are the digest: a peer that gives another one measured something
// else.
bench::Rate peer(const std::string& command, std::size_t bytes, const std::string& digest) {
  return bench::rate(bytes, 3, [&] {
    std::string answer;
    const double wall = seconds_of([&] {
      FILE* pipe = ::popen(command.c_str(), "r");
      std::array<char, 256> text{};
      if (pipe == nullptr || std::fgets(text.data(), text.size(), pipe) == nullptr || ::pclose(pipe) != 0) {
        std::fprintf(stderr, "failed: %s\n", command.c_str());
        std::exit(1);
      }
      answer = text.data();
    });
    if (answer.substr(0, 64) != digest) {
      std::fprintf(stderr, "another digest: %s\n", command.c_str());
      std::exit(1);
    }
    return bench::Spent{wall, wall};
  });
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t megabytes = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 20;
  const json::Value document = envelope(megabytes * 1'000'000);
  const std::string text = json::write(document);
  const std::string digest = document.get("digest").as_string().substr(7);
  test::TempDir at;
  test::spit(at / "document.json", text);
  const auto round = [&](const std::function<std::string()>& work) {
    return bench::rate(text.size(), 9, [&] {
      std::string found;
      const double wall = seconds_of([&] { found = work(); });
      if (found != "sha256:" + digest) {
        std::exit(1);
      }
      return bench::Spent{wall, wall};
    });
  };
  const bench::Rate ours = round([&] { return document_digest(document).value(); });
  const bench::Rate whole =
      round([&] { return document_digest(json::parse(text, json::Duplicates::refuse).value()).value(); });
  const bench::Rate hash = bench::rate(text.size(), 9, [&] {
    const double wall = seconds_of([&] { (void)sha256_hex(text); });
    return bench::Spent{wall, wall};
  });
  const std::string file = "'" + (at / "document.json") + "'";
  const bench::Rate jq = peer("jq -cSj 'del(.digest)' " + file + " | sha256sum", text.size(), digest);
  const bench::Rate python = peer(
      "python3 -c 'import sys,json,hashlib; d=json.load(open(sys.argv[1])); d.pop(\"digest\"); "
      "print(hashlib.sha256(json.dumps(d,sort_keys=True,ensure_ascii=False,separators=(\",\",\":\")).encode()"
      ")"
      ".hexdigest())' " +
          file,
      text.size(), digest);
  std::printf("document of %.1f MB; goal 120 MB/s for canonicalise and hash\n",
              static_cast<double>(text.size()) / 1e6);
  print("canonicalise and hash", ours, ours.p50);
  print("parse, canonicalise and hash", whole, ours.p50);
  print("SHA-256 alone", hash, ours.p50);
  print("jq -cS | sha256sum", jq, ours.p50);
  print("python3 json and hashlib", python, ours.p50);
  return 0;
}
