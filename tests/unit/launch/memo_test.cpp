#include "launch/memo.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "core/file.hpp"

using namespace hitchrail;

namespace {

struct Home {
  Home() {
    char name[] = "/var/tmp/hitchrail-memo-XXXXXX";
    path = ::mkdtemp(name);
    home.emplace(store::StateHome::open_path(path, store::Access::write).value());
  }
  ~Home() {
    const auto slash = path.rfind('/');
    Fd parent(::open(path.substr(0, slash).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    (void)remove_tree_at(parent.get(), path.substr(slash + 1));
  }
  std::string path;
  std::optional<store::StateHome> home;
};

std::string only_file(const std::string& folder) {
  Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  auto names = list_directory(fd.get()).value();
  REQUIRE(names.size() == 1);
  return folder + "/" + names[0];
}

}  // namespace

TEST_CASE("a memo gives back what was remembered under the whole key") {
  Home home;
  REQUIRE_FALSE(launch::recall(*home.home, "program", "a").has_value());
  REQUIRE(launch::remember(*home.home, "program", "a", "value").has_value());
  REQUIRE(launch::recall(*home.home, "program", "a")->as_string() == "value");
  REQUIRE_FALSE(launch::recall(*home.home, "program", "b").has_value());
  REQUIRE_FALSE(launch::recall(*home.home, "probe", "a").has_value());
}

TEST_CASE("a memo that was torn or edited is forgotten, not believed") {
  Home home;
  REQUIRE(launch::remember(*home.home, "program", "a", "value").has_value());
  const std::string file = only_file(home.path + "/memo");
  struct stat status {};
  REQUIRE(::stat(file.c_str(), &status) == 0);
  REQUIRE((status.st_mode & 0777) == 0600);
  SECTION("torn") {
    REQUIRE(::truncate(file.c_str(), status.st_size / 2) == 0);
  }
  SECTION("edited") {
    Fd fd(::open(file.c_str(), O_RDWR | O_CLOEXEC));
    auto text = read_all(fd.get(), 1u << 16).value();
    text.replace(text.find("\"value\":\"value\""), 15, "\"value\":\"other\"");
    REQUIRE(pwrite_all(fd.get(), text, 0).has_value());
  }
  REQUIRE_FALSE(launch::recall(*home.home, "program", "a").has_value());
}

TEST_CASE("a memo that is a link is not followed") {
  Home home;
  REQUIRE(launch::remember(*home.home, "program", "a", "value").has_value());
  const std::string file = only_file(home.path + "/memo");
  REQUIRE(::rename(file.c_str(), (home.path + "/elsewhere").c_str()) == 0);
  REQUIRE(::symlink((home.path + "/elsewhere").c_str(), file.c_str()) == 0);
  REQUIRE_FALSE(launch::recall(*home.home, "program", "a").has_value());
}
