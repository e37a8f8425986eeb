// Walks and reads of workspaces that were made to hurt.
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <thread>

#include "pathfs/edit.hpp"
#include "pathfs/walk.hpp"
#include "unit/pathfs/world.hpp"

namespace hitchrail::pathfs {
namespace {

using namespace test;

struct Root {
  explicit Root(const fs::path& below = fs::temp_directory_path()) : top(below) {
    fs::create_directories(top / "root");
    fd = Fd(::open((top / "root").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    REQUIRE(fd);
  }
  [[nodiscard]] std::string operator/(const std::string& name) const { return top / ("root/" + name); }
  Temporary top;
  Fd fd;
};

// Ends the program when something blocks: a test that hangs says nothing.
struct Deadline {
  explicit Deadline(unsigned seconds) { ::alarm(seconds); }
  ~Deadline() { ::alarm(0); }
};

FileType type_in(const FindResult& found, const std::string& path) {
  for (const Found& each : found.entries) {
    if (each.path == path) {
      return each.identity.type;
    }
  }
  return FileType::absent;
}

TEST_CASE("find reports every kind of entry, with any name, and follows no link") {
  const Deadline deadline(60);
  const Root root;
  fs::create_directories(root / "a/b");
  put(root / "a/b/file", "x");
  put(root / "a/new\nline", "x");
  put(root / "a/\x1b[31mred", "x");
  put(root / "a/\xff\xfe", "x");
  fs::create_symlink("..", root / "a/up");
  fs::create_symlink(".", root / "a/self");
  fs::create_symlink("/", root / "a/all");
  fs::create_symlink("loop2", root / "loop1");
  fs::create_symlink("loop1", root / "loop2");
  REQUIRE(::mkfifo((root / "a/fifo").c_str(), 0600) == 0);
  const Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string at = "/proc/self/fd/" + std::to_string(root.fd.get()) + "/socket";
  at.copy(static_cast<char*>(address.sun_path), sizeof address.sun_path - 1);
  REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  const bool device = ::mknod((root / "null").c_str(), S_IFCHR | 0666, (1 << 8) | 3) == 0;
  CHECK((device || ::geteuid() != 0 || errno == EPERM));

  const FindResult found = find(root.fd.get(), "").value();
  CHECK(found.entries.size() == (device ? 14U : 13U));
  CHECK(type_in(found, "a/b/file") == FileType::regular);
  CHECK(type_in(found, "a/new\nline") == FileType::regular);
  CHECK(type_in(found, "a/\x1b[31mred") == FileType::regular);
  CHECK(type_in(found, "a/\xff\xfe") == FileType::regular);
  CHECK(type_in(found, "a/all") == FileType::symlink);
  CHECK(type_in(found, "loop1") == FileType::symlink);
  CHECK(type_in(found, "a/fifo") == FileType::other);
  CHECK(type_in(found, "socket") == FileType::other);
  CHECK(std::is_sorted(found.entries.begin(), found.entries.end(),
                       [](const Found& one, const Found& two) { return one.path < two.path; }));
  CHECK(find(root.fd.get(), "a/b").value().entries.size() == 1);

  for (const Found& each : found.entries) {  // nothing blocks, whatever it is
    INFO(each.path);
    const std::string seen = code(read_beneath(root.fd.get(), each.path, 10));
    const FileType type = each.identity.type;
    CHECK(seen == (type == FileType::regular   ? ""
                   : type == FileType::symlink ? "symlink-rejected"
                                               : "not-regular-file"));
  }
}

TEST_CASE("find starts at no link and no file") {
  const Root root;
  put(root / "file", "x");
  fs::create_symlink("/etc", root / "link");
  CHECK(code(find(root.fd.get(), "link")) == "symlink-rejected");
  CHECK(code(find(root.fd.get(), "file")) == "not-directory");
  CHECK(code(find(root.fd.get(), "none")) == "not-found");
  CHECK(code(find(root.fd.get(), "..")) == "path-escape");
}

TEST_CASE("each bound of a walk is exact") {
  const Root root;
  for (int i = 0; i < 10; ++i) {
    fs::create_directories(root / ("d" + std::to_string(i)));
  }
  WalkLimits limits{64, 11, 10};  // the start is a directory, too
  CHECK(find(root.fd.get(), "", limits).has_value());
  limits.entries = 9;
  CHECK(code(find(root.fd.get(), "", limits)) == "walk-limit");
  limits = {64, 10, 10};
  CHECK(code(find(root.fd.get(), "", limits)) == "walk-limit");
  std::string deep = "d0";
  for (int i = 1; i < 64; ++i) {
    deep += "/d";
  }
  fs::create_directories(root / deep);  // 64 levels
  CHECK(find(root.fd.get(), "").has_value());
  fs::create_directories(root / (deep + "/d"));
  CHECK(code(find(root.fd.get(), "")) == "walk-limit");
}

TEST_CASE("100,000 entries: the default bound refuses them, a wider one sees each") {
  const Root root(fast_directory());
  for (int i = 0; i < 100; ++i) {
    const std::string directory = root / std::to_string(i);
    fs::create_directories(directory);
    const Fd at(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    for (int j = 0; j < 999; ++j) {
      REQUIRE(::mknodat(at.get(), std::to_string(j).c_str(), S_IFREG | 0600, 0) == 0);
    }
  }
  CHECK(code(find(root.fd.get(), "")) == "walk-limit");
  CHECK(find(root.fd.get(), "", {64, 1000, 100'000}).value().entries.size() == 100'000);
  CHECK(code(find(root.fd.get(), "", {64, 1000, 99'999})) == "walk-limit");
  const Fd one = open_directory_beneath(root.fd.get(), "7").value();
  CHECK(list_directory(one.get()).value().size() == 999);
  CHECK(code(list_directory(one.get(), 998)) == "walk-limit");
  CHECK(remove_tree_beneath(root.fd.get(), "7").has_value());
}

TEST_CASE("a path longer than the kernel takes at once is still walked, without links") {
  const Root root;
  const std::string name(200, 'n');
  std::string path;
  Fd at(::dup(root.fd.get()));
  for (int i = 0; i < 40; ++i) {  // 8,000 bytes
    REQUIRE(::mkdirat(at.get(), name.c_str(), 0700) == 0);
    at = Fd(::openat(at.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    path += (i == 0 ? "" : "/") + name;
  }
  REQUIRE(::symlinkat("/etc", at.get(), "away") == 0);
  CHECK(write_beneath(root.fd.get(), path + "/file", "deep").has_value());
  CHECK(read_beneath(root.fd.get(), path + "/file", 10).value() == "deep");
  CHECK(code(read_beneath(root.fd.get(), path + "/away/hostname", 100)) == "symlink-rejected");
  CHECK(find(root.fd.get(), "").value().entries.size() == 42);
  const auto too_long = read_beneath(root.fd.get(), std::string(256, 'x'), 10);
  CHECK(io_reason(too_long.error()) == "enametoolong");
  CHECK(remove_tree_beneath(root.fd.get(), name).has_value());
}

TEST_CASE("a directory that may not be entered is named, and the rest is found") {
  const Root root;
  fs::create_directories(root / "closed/below");
  put(root / "open", "x");
  REQUIRE(::chmod((root / "closed").c_str(), 0000) == 0);
  const FindResult found = find(root.fd.get(), "").value();
  CHECK(type_in(found, "open") == FileType::regular);
  CHECK(type_in(found, "closed") == FileType::directory);
  if (::geteuid() == 0) {  // nothing is closed to root
    CHECK(type_in(found, "closed/below") == FileType::directory);
  } else {
    CHECK(found.unreadable == std::vector<std::string>{"closed"});
    CHECK(io_reason(read_beneath(root.fd.get(), "closed/x", 10).error()) == "eacces");
    CHECK(io_reason(find(root.fd.get(), "closed").error()) == "eacces");
  }
  REQUIRE(::chmod((root / "closed").c_str(), 0700) == 0);
}

TEST_CASE("a directory that may be listed and not searched hides nothing") {
  const Root root;
  fs::create_directories(root / "listed");
  put(root / "listed/file", "x");
  fs::create_symlink("file", root / "listed/link");
  REQUIRE(::chmod((root / "listed").c_str(), 0400) == 0);
  const FindResult found = find(root.fd.get(), "").value();
  CHECK(type_in(found, "listed/file") == FileType::regular);
  CHECK(type_in(found, "listed/link") == FileType::symlink);
  REQUIRE(::chmod((root / "listed").c_str(), 0700) == 0);
}

TEST_CASE("a visitor skips and stops") {
  const Root root;
  fs::create_directories(root / "skipped/below");
  fs::create_directories(root / "kept/below");
  std::vector<std::string> seen;
  const Walked all = walk(root.fd.get(), "", {}, [&seen](const Visit& visit) {
                       seen.push_back(visit.path());
                       return visit.name == "skipped" ? Next::skip : Next::go_on;
                     }).value();
  std::sort(seen.begin(), seen.end());
  CHECK(seen == std::vector<std::string>{"kept", "kept/below", "skipped"});
  CHECK(all.entries == 3);
  CHECK(all.directories == 3);
  const Walked one = walk(root.fd.get(), "", {}, [](const Visit&) { return Next::stop; }).value();
  CHECK(one.stopped);
  CHECK(one.entries == 1);
}

TEST_CASE("a file that grows without end while it is read is too large, not endless") {
  const Deadline deadline(60);
  const Root root;
  put(root / "log", "start");
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    const Fd file(::open((root / "log").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
    const std::string block(1 << 16, 'x');
    for (int written = 0; !stop && written < 1000; ++written) {
      (void)!::write(file.get(), block.data(), block.size());
    }
  });
  std::string seen;
  for (int i = 0; i < 100'000 && seen.empty(); ++i) {
    seen = code(read_beneath(root.fd.get(), "log", 1 << 20));
  }
  CHECK(seen == "too-large");
  stop = true;
  writer.join();
}

TEST_CASE("a read that must be stable says when the file keeps changing") {
  const Deadline deadline(120);
  const Root root;
  constexpr std::size_t size = 64u << 20;  // so large that a write always comes in between
  put(root / "file", std::string(size, '1'));
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    const Fd file(::open((root / "file").c_str(), O_WRONLY | O_CLOEXEC));
    while (!stop) {
      (void)!::pwrite(file.get(), "2", 1, 0);
    }
  });
  std::string seen;
  for (int i = 0; i < 50 && seen.empty(); ++i) {
    const auto content = read_stable_beneath(root.fd.get(), "file", 2 * size);
    seen = content.has_error() ? io_reason(content.error()) : "";
  }
  stop = true;
  writer.join();
  CHECK(seen == "estale");
  const Content quiet = read_stable_beneath(root.fd.get(), "file", 2 * size).value();
  CHECK(quiet.bytes.size() == size);
  CHECK(quiet.bytes.front() == '2');
  CHECK(quiet.identity.size == size);
}

TEST_CASE("a file that is cut while it is read ends the read") {
  const Deadline deadline(60);
  const Root root;
  std::atomic<bool> stop{false};
  put(root / "file", std::string(100'000, 'x'));
  std::thread writer([&] {
    while (!stop) {
      (void)!::truncate((root / "file").c_str(), 0);
      (void)!::truncate((root / "file").c_str(), 100'000);
    }
  });
  for (int i = 0; i < 2'000; ++i) {
    const auto text = read_beneath(root.fd.get(), "file", 200'000);
    REQUIRE(text.has_value());
    REQUIRE(text.value().size() <= 100'000);
  }
  stop = true;
  writer.join();
}

TEST_CASE("every error is one of the closed set, with its name") {
  const std::vector<std::pair<Code, std::string>> all = {
      {Code::not_found, "not-found"},         {Code::symlink_rejected, "symlink-rejected"},
      {Code::not_directory, "not-directory"}, {Code::not_regular_file, "not-regular-file"},
      {Code::path_escape, "path-escape"},     {Code::too_large, "too-large"},
      {Code::walk_limit, "walk-limit"},       {Code::io, "io"}};
  for (const auto& [each, text] : all) {
    CHECK(code_text(each) == text);
    Error error;
    error.code = text;
    CHECK(code_of(error) == each);
  }
  Error other;
  other.code = "enoent";
  CHECK_FALSE(code_of(other).has_value());
}

}  // namespace
}  // namespace hitchrail::pathfs
