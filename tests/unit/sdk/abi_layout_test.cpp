// abi_layout.c holds every size and offset at compile time; here: that it names all of them.
#include <catch2/catch.hpp>
#include <fstream>
#include <regex>
#include <set>
#include <string>

namespace {

std::string read(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string header() {
  return std::regex_replace(read(HITCHRAIL_SOURCE_DIR "/sdk/include/hitchrail/adapter.h"),
                            std::regex("/\\*[^*]*\\*+([^/*][^*]*\\*+)*/"), "");
}

std::set<std::string> members(const std::string& body) {
  std::set<std::string> out;
  static const std::regex member(R"((?:\(\*(\w+)\)\([^;]*|(\w+)(?:\[[^\]]*\])?)\s*;)");
  for (auto it = std::sregex_iterator(body.begin(), body.end(), member); it != std::sregex_iterator(); ++it) {
    out.insert((*it)[1].matched ? (*it)[1].str() : (*it)[2].str());
  }
  return out;
}

TEST_CASE("every struct and member of the ABI header has its place held") {
  const std::string text = header();
  const std::string held = read(HITCHRAIL_SOURCE_DIR "/tests/unit/sdk/abi_layout.c");
  static const std::regex structure(R"(typedef struct (hr_\w+) \{([^}]*)\} \1;)");
  std::size_t structs = 0;
  std::size_t all_members = 0;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), structure); it != std::sregex_iterator();
       ++it) {
    const std::string name = (*it)[1];
    ++structs;
    CHECK(held.find("SIZE(" + name + ",") != std::string::npos);
    for (const std::string& member : members((*it)[2])) {
      INFO(name << "." << member);
      ++all_members;
      CHECK(held.find("AT(" + name + ", " + member + ",") != std::string::npos);
    }
  }
  CHECK(structs == 26);
  CHECK(all_members == 191);
}

TEST_CASE("every number of the ABI header is held") {
  const std::string text = header();
  const std::string held = read(HITCHRAIL_SOURCE_DIR "/tests/unit/sdk/abi_layout.c");
  static const std::regex number(R"(#define (HR_\w+) \(?-?[0-9(]|(HR_EVENT_\w+) = [0-9]+)");
  std::size_t numbers = 0;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), number); it != std::sregex_iterator(); ++it) {
    const std::string name = (*it)[1].matched ? (*it)[1].str() : (*it)[2].str();
    INFO(name);
    ++numbers;
    CHECK((held.find("VALUE(" + name + ",") != std::string::npos || name.starts_with("HR_NOTE_DESC") ||
           name == "HR_SDK_VERSION"));
  }
  CHECK(numbers > 100);
}

TEST_CASE("the header is under 600 lines and includes nothing but stddef and stdint") {
  const std::string text = read(HITCHRAIL_SOURCE_DIR "/sdk/include/hitchrail/adapter.h");
  CHECK(std::count(text.begin(), text.end(), '\n') < 600);
  static const std::regex include(R"(#include ([<"][^>"]*[>"]))");
  std::set<std::string> found;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), include); it != std::sregex_iterator();
       ++it) {
    found.insert((*it)[1]);
  }
  CHECK(found == std::set<std::string>{"<stddef.h>", "<stdint.h>"});
}

}  // namespace
