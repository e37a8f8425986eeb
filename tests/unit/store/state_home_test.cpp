#include "store/state_home.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "support/scratch.hpp"

using namespace hitchrail;
using namespace hitchrail::test;
using store::Access;
using store::StateHome;

namespace {

std::string code(const Result<StateHome>& result) {
  return result.has_error() ? result.error().code : "";
}
std::string open_write(const std::string& path) {
  return code(StateHome::open_path(path, Access::write));
}

}  // namespace

TEST_CASE("the path comes from HITCHRAIL_HOME, then XDG_STATE_HOME, then HOME") {
  ::setenv("HITCHRAIL_HOME", "/h", 1);
  ::setenv("XDG_STATE_HOME", "/x", 1);
  ::setenv("HOME", "/u", 1);
  CHECK(store::state_home_path().value() == "/h");
  ::setenv("HITCHRAIL_HOME", "relative", 1);
  CHECK(store::state_home_path().error().code == "state-directory-unset");
  ::unsetenv("HITCHRAIL_HOME");
  CHECK(store::state_home_path().value() == "/x/hitchrail");
  ::setenv("XDG_STATE_HOME", "relative", 1);
  CHECK(store::state_home_path().value() == "/u/.local/state/hitchrail");
  ::unsetenv("HOME");
  CHECK(store::state_home_path().error().code == "state-directory-unset");
}

TEST_CASE("an absent state directory is made for writing, with its parents, and never for reading") {
  TempDir at;
  const std::string path = at / "a/b/state";
  CHECK(code(StateHome::open_path(path, Access::read)) == "state-directory-absent");
  struct stat info {};
  CHECK(::stat((at / "a").c_str(), &info) != 0);
  CHECK(open_write(path) == "");
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0700);
  CHECK(list_directory(StateHome::open_path(path, Access::read).value().fd()).value().empty());
}

TEST_CASE("a link anywhere in the path is refused and nothing is made behind it") {
  TempDir at;
  REQUIRE(::mkdir((at / "real").c_str(), 0700) == 0);
  REQUIRE(::symlink("real", (at / "link").c_str()) == 0);
  CHECK(open_write(at / "link") == "state-directory-unsafe");
  CHECK(open_write(at / "link/state") == "state-directory-unsafe");
  CHECK(open_write(at / "real/../real") == "state-directory-unset");
  CHECK(list_directory(open_at(at.fd(), "real", O_RDONLY | O_DIRECTORY).value().get()).value().empty());
  spit(at / "file", "x");
  CHECK(open_write(at / "file") == "state-directory-unsafe");
}

TEST_CASE("a shared state directory, or one below a directory open to everybody, is refused") {
  TempDir at;
  REQUIRE(::mkdir((at / "state").c_str(), 0700) == 0);
  for (const mode_t mode : {0701u, 0710u, 0740u, 0770u, 0777u}) {
    REQUIRE(::chmod((at / "state").c_str(), mode) == 0);
    CHECK(open_write(at / "state") == "state-directory-shared");
  }
  REQUIRE(::chmod((at / "state").c_str(), 0700) == 0);
  CHECK(open_write(at / "state") == "");
  REQUIRE(::chmod(at.path().c_str(), 0777) == 0);
  CHECK(open_write(at / "state") == "state-directory-unsafe");
  REQUIRE(::chmod(at.path().c_str(), 01777) == 0);
  CHECK(open_write(at / "state") == "");
}

TEST_CASE("a directory on the way need not be readable") {
  TempDir at;
  REQUIRE(::mkdir((at / "closed").c_str(), 0700) == 0);
  REQUIRE(::mkdir((at / "closed/state").c_str(), 0700) == 0);
  REQUIRE(::chmod((at / "closed").c_str(), 0311) == 0);
  CHECK(open_write(at / "closed/state") == "");
  REQUIRE(::chmod((at / "closed").c_str(), 0700) == 0);
}

TEST_CASE("a foreign state directory is refused") {
  // Somebody else's directory exists for everybody: root's for a user, and root can give one away.
  if (::geteuid() == 0) {
    TempDir at;
    REQUIRE(::mkdir((at / "state").c_str(), 0700) == 0);
    REQUIRE(::chown((at / "state").c_str(), 65534, 65534) == 0);
    CHECK(open_write(at / "state") == "state-directory-foreign");
  } else {
    CHECK(code(StateHome::open_path("/usr", Access::read)) == "state-directory-foreign");
  }
}

TEST_CASE("a read-only and a full file system are told apart, and nothing is left on them") {
  const std::string said = on_small_disk(4 << 20, [](const std::string& mount_point) -> std::string {
    const std::string path = mount_point + "/state";
    if (open_write(path) != "") {
      return "could not make it: " + open_write(path);
    }
    fill_disk(mount_point);
    if (open_write(path) != "state-directory-full") {
      return "full: " + open_write(path);
    }
    ::unlink((mount_point + "/filler").c_str());
    if (::mount("none", mount_point.c_str(), nullptr, MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV,
                nullptr) != 0) {
      return "remount";
    }
    if (open_write(path) != "state-directory-read-only" ||
        open_write(mount_point + "/other") != "state-directory-read-only") {
      return "read-only: " + open_write(path) + ", " + open_write(mount_point + "/other");
    }
    return code(StateHome::open_path(path, Access::read));
  });
  CHECK(said == "");
}

TEST_CASE("a directory below the state home is ours and 0700 too") {
  TempDir at;
  auto home = StateHome::open_path(at / "state", Access::write);
  REQUIRE(home.has_value());
  CHECK(home.value().directory("attempts", Access::read).error().code == "state-directory-absent");
  CHECK(home.value().directory("attempts", Access::write).has_value());
  REQUIRE(::chmod((at / "state/attempts").c_str(), 0755) == 0);
  CHECK(home.value().directory("attempts", Access::read).error().code == "state-directory-shared");
  REQUIRE(::symlink("attempts", (at / "state/link").c_str()) == 0);
  CHECK(home.value().directory("link", Access::write).error().code == "state-directory-unsafe");
}
