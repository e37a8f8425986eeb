// Every probe of the product's table (host/probe/table.cpp): without a boundary (it must get through, else
// the test shows nothing), in both backends, and below each layer alone.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <string_view>

#include "boundary/probe_world.hpp"
#include "init/plan.hpp"
#include "kernel/world.hpp"
#include "probe/table.hpp"

namespace hitchrail::test {
namespace {

using boundary::Answers;
using boundary::Backend;
using boundary::ProbeWorld;
using probe::Control;
using probe::Kind;
using probe::Row;
using probe::Setting;

std::vector<const Row*> all_rows() {
  std::vector<const Row*> rows;
  for (unsigned i = 0; i < probe::group_count; ++i) {
    for (unsigned j = 0; j < probe::groups[i].count; ++j) {
      rows.push_back(&probe::groups[i].rows[j]);
    }
  }
  return rows;
}

std::string run_probe_list() {
  const std::string command = boundary::probe_path().value() + " list";
  std::FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string text;
  char buffer[4096];
  std::size_t got = 0;
  while ((got = std::fread(buffer, 1, sizeof buffer, pipe)) > 0) {
    text.append(buffer, got);
  }
  CHECK(pclose(pipe) == 0);
  return text;
}

template <class Predicate>
std::vector<std::string> ids(Predicate wanted) {
  std::vector<std::string> list;
  for (const Row* row : all_rows()) {
    if (wanted(*row)) {
      list.emplace_back(row->id);
    }
  }
  return list;
}

enum class Layers { all, capabilities, namespaces, landlock, seccomp };

void keep_layers(std::string& bytes, Layers layers) {
  plan::Header header{};
  std::memcpy(&header, bytes.data(), sizeof header);
  if (layers == Layers::capabilities || layers == Layers::namespaces || layers == Layers::seccomp) {
    header.landlock_fs = header.landlock_scoped = 0;
    header.rules.count = 0;
  }
  if (layers == Layers::capabilities || layers == Layers::namespaces || layers == Layers::landlock) {
    header.filter.count = 0;
  }
  std::memcpy(bytes.data(), &header, sizeof header);
}

std::string answer(const Answers& answers, const std::string& id) {
  const auto found = answers.find(id);
  return found != answers.end() ? found->second : "none";
}

ProbeWorld::Setup setup(Backend backend, Setting setting) {
  return {backend, setting == Setting::host_network, setting == Setting::no_network, false};
}

// All probes at once, as the product does it: what is refused does not disturb the next one.
Answers together(Backend backend) {
  Answers all;
  auto world = ProbeWorld::make();
  INFO((world.has_error() ? world.error().detail : ""));
  REQUIRE(world.has_value());
  for (const Setting setting : {Setting::host_network, Setting::no_network}) {
    const auto list = ids([&](const Row& row) { return row.setting == setting; });
    auto answers = world.value()->run(World::machine(), setup(backend, setting), list);
    INFO((answers.has_error()
              ? answers.error().code + " " + answers.error().object + ": " + answers.error().detail
              : ""));
    REQUIRE(answers.has_value());
    all.insert(answers.value().begin(), answers.value().end());
  }
  return all;
}

// One probe in a world of its own.
std::string alone(const Row& row, Backend backend, Layers layers) {
  auto world = ProbeWorld::make();
  REQUIRE(world.has_value());
  auto answers = world.value()->run(World::machine(), setup(backend, row.setting), {row.id},
                                    [&](std::string& plan) { keep_layers(plan, layers); });
  if (answers.has_error() && answers.error().code == "init-lost") {
    return "through";  // the probe killed init
  }
  INFO((answers.has_error()
            ? answers.error().code + " " + answers.error().object + ": " + answers.error().detail
            : ""));
  REQUIRE(answers.has_value());
  return answer(answers.value(), row.id);
}

struct Alone {
  char letter;
  Backend backend;
  Layers layers;
};
constexpr Alone single_layers[] = {{'C', Backend::landlock, Layers::capabilities},
                                   {'N', Backend::native, Layers::namespaces},
                                   {'L', Backend::landlock, Layers::landlock},
                                   {'S', Backend::landlock, Layers::seccomp}};

bool suffices(const Row& row, char letter, bool root) {
  return std::strchr(probe::expected(row, root).alone, letter) != nullptr;
}

// "refused ENOENT" for "ENOENT".
std::string whole(const char* expected) {
  const std::string_view text = expected;
  return text == "through" || text.rfind("killed ", 0) == 0 ? std::string(text)
                                                            : "refused " + std::string(text);
}

// Absent from many kernels, or from the file system (an overlay cannot leave a device behind): where it is,
// nothing can be shown, and the row is only about the answer inside.
bool may_be_absent(const Row& row) {
  const std::string_view id = row.id;
  return id == "port_access" || id == "x32_number" || id == "crypto_socket" || id == "local_socket_family" ||
         id == "device_by_rename" || id == "kernel_message_device" || id == "network_device";
}

bool whole_landlock() {
  return World::machine().landlock_abi >= 6;
}

const Answers& controls() {
  static const Answers answers = [] {
    auto found = boundary::run_controls(ids([](const Row&) { return true; }));
    INFO((found.has_error() ? found.error().detail : ""));
    REQUIRE(found.has_value());
    return std::move(found).value();
  }();
  return answers;
}

}  // namespace

TEST_CASE(
    "the table is of every probe the program has, once, with at least 120 attacks on native and 40 on "
    "landlock") {
  std::set<std::string> known;
  unsigned native = 0;
  unsigned landlock = 0;
  for (const Row* row : all_rows()) {
    INFO(row->id);
    CHECK(known.insert(row->id).second);
    CHECK(std::strlen(row->sentence) > 10);
    const auto& names = boundary::capability_names();
    CHECK(std::find(names.begin(), names.end(), row->capability) != names.end());
    CHECK(probe::find(row->id) == row);
    if (row->kind == Kind::attack) {
      native += std::string_view(row->root.native) != "through" ? 1 : 0;
      landlock += std::string_view(row->root.landlock) != "through" ? 1 : 0;
    }
  }
  CHECK(native >= 120);
  CHECK(landlock >= 40);
  std::set<std::string> built;
  const std::string list = run_probe_list();
  for (std::size_t at = 0; at < list.size(); at = list.find('\n', at) + 1) {
    built.insert(list.substr(at, list.find('\n', at) - at));
  }
  CHECK(built == known);
}

TEST_CASE("every attack works without a boundary, and so does everything that must work") {
  const bool root = geteuid() == 0;
  for (const Row* row : all_rows()) {
    INFO(row->id);
    const std::string control = answer(controls(), row->id);
    if (may_be_absent(*row)) {
      CHECK(control.rfind("broken", 0) != 0);
    } else if (root || row->control == Control::works) {
      CHECK(control == "through");
    } else if (row->control == Control::needs_root) {
      CHECK(control.rfind("refused ", 0) == 0);  // else the row would claim too little
    }
  }
}

TEST_CASE("each backend gives every attack its exact answer, and lets work what must") {
  const bool root = geteuid() == 0;
  for (const Backend backend : World::backends()) {
    if (backend == Backend::landlock && !whole_landlock()) {
      WARN("this kernel's Landlock is older than ABI 6: the landlock column is not judged");
      continue;
    }
    const Answers answers = together(backend);
    for (const Row* row : all_rows()) {
      const probe::Expected& expected = probe::expected(*row, root);
      const bool native = backend == Backend::native;
      INFO(row->id << (native ? " native" : " landlock"));
      const std::string found = answer(answers, row->id);
      if (native && World::machine().landlock_abi < row->scope_abi) {
        // Without scopes: init shrugs off the signal, the host's abstract names are open.
        CHECK((found == "refused no effect" || found == "through"));
        CHECK((std::string_view(row->id) != "signal_parent" || found == "refused no effect"));
        continue;
      }
      if (row->control == Control::machine && answer(controls(), row->id) != "through") {
        // A device, say, that this machine does not have: there is nothing to refuse in a certain way.
        CHECK(found != "through");
        continue;
      }
      CHECK(found == whole(native ? expected.native : expected.landlock));
    }
  }
}

TEST_CASE("each layer alone stops exactly what the table says") {
  if (!whole_landlock()) {
    WARN("this kernel's Landlock is older than ABI 6: single layers are not judged");
    return;
  }
  const bool root = geteuid() == 0;
  for (const Alone& layer : single_layers) {
    for (const Setting setting : {Setting::host_network, Setting::no_network}) {
      // What the layer stops does not disturb the next one and is asked together; what gets through, alone.
      const auto judged = [&](const Row& row) {
        return row.kind == Kind::attack && row.setting == setting && answer(controls(), row.id) == "through";
      };
      const auto held = ids([&](const Row& row) { return judged(row) && suffices(row, layer.letter, root); });
      auto world = ProbeWorld::make();
      REQUIRE(world.has_value());
      auto answers = world.value()->run(World::machine(), setup(layer.backend, setting), held,
                                        [&](std::string& plan) { keep_layers(plan, layer.layers); });
      REQUIRE(answers.has_value());
      for (const std::string& id : held) {
        INFO(id << " below " << layer.letter);
        CHECK(answer(answers.value(), id) != "through");
        CHECK(answer(answers.value(), id) != "none");
        CHECK(answer(answers.value(), id).rfind("broken", 0) != 0);
      }
      for (const Row* row : all_rows()) {
        if (judged(*row) && !suffices(*row, layer.letter, root)) {
          INFO(row->id << " below " << layer.letter);
          CHECK(alone(*row, layer.backend, layer.layers) == "through");
        }
      }
    }
  }
}

// The table of docs/operators/boundary.md.
std::string guide() {
  std::string text = "| probe | tries | native | landlock | alone |\n|---|---|---|---|---|\n";
  const auto cell = [](const char* answer) {
    const std::string_view word = answer;
    return word == "through" ? std::string("**through**") : std::string(word);
  };
  for (unsigned i = 0; i < probe::group_count; ++i) {
    const probe::Group& group = probe::groups[i];
    text += std::string("| **") + group.title + "** (`" + group.rows[0].capability + "`) | | | | |\n";
    for (unsigned j = 0; j < group.count; ++j) {
      const Row& row = group.rows[j];
      text += std::string("| `") + row.id + "` | " + row.sentence + " | " + cell(row.root.native) + " | " +
              cell(row.root.landlock) + " | " + row.root.alone + " |\n";
    }
  }
  return text;
}

TEST_CASE("the operator guide has this very table") {
  const char* copy = std::getenv("HITCHRAIL_TEST_DOCS");
  const std::string docs = copy != nullptr ? copy : HITCHRAIL_SOURCE_DIR "/docs";
  std::ifstream file(docs + "/operators/boundary.md");
  std::ostringstream text;
  text << file.rdbuf();
  REQUIRE(file.good());
  const bool same = text.str().find(guide()) != std::string::npos;
  if (!same) {
    std::ofstream(HITCHRAIL_BINARY_DIR "/attack-table.md") << guide();  // what it should be
  }
  CHECK(same);
}

TEST_CASE("a probe that is unknown, or that does not answer, is no success") {
  auto found = boundary::run_controls({"no_such_probe", "read_outside"});
  REQUIRE(found.has_value());
  CHECK(answer(found.value(), "no_such_probe") == "broken unknown");
  CHECK(answer(found.value(), "read_outside") == "through");
  CHECK(boundary::parse_answers("a through\nb refused EP").size() == 1);  // a line that was cut
}

}  // namespace hitchrail::test
