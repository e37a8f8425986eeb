// The flat plan is read by a program that trusts none of it.
#include "init/plan.hpp"

#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "boundary/boundary.hpp"
#include "kernel/world.hpp"

using namespace hitchrail;
using namespace hitchrail::boundary;
using hitchrail::test::World;

namespace {

std::string some_plan(Backend backend) {
  const World world;
  Options options;
  options.backend = backend;
  auto compiled = compile(world.preset(), world.roots(), World::machine(), options);
  REQUIRE(compiled.has_value());
  REQUIRE(make_placeholders(compiled.value(), world.attempt()).has_value());
  Command command;
  command.executable = resolve_executable(resolve_trusted("/bin/sh").value().path).value();
  command.argv = {"sh", "-c", "true"};
  command.env = {{"A", "b"}};
  auto plan = flat_plan(compiled.value(), world.run(), command);
  REQUIRE(plan.has_value());
  return plan.value();
}

plan::Header header_of(const std::string& bytes) {
  plan::Header header{};
  std::memcpy(&header, bytes.data(), sizeof header);
  return header;
}

const char* check_with(std::string bytes, const plan::Header& header) {
  std::memcpy(bytes.data(), &header, sizeof header);
  return plan::check(bytes.data(), bytes.size());
}

}  // namespace

TEST_CASE("a written plan is accepted, cut at any length it is not") {
  for (const Backend backend : {Backend::native, Backend::landlock}) {
    const std::string plan = some_plan(backend);
    CHECK(plan::check(plan.data(), plan.size()) == nullptr);
    for (std::size_t size = 0; size < plan.size(); ++size) {
      const std::string cut = plan.substr(0, size);
      if (plan::check(cut.data(), cut.size()) == nullptr) {
        FAIL("accepted at " << size);
      }
    }
  }
}

TEST_CASE("offsets, counts and references out of bounds are named") {
  const std::string plan = some_plan(Backend::native);
  plan::Header header = header_of(plan);
  header.version = 99;
  CHECK(check_with(plan, header) == std::string("version"));
  header = header_of(plan);
  header.steps.count = 0xffffffff;
  CHECK(check_with(plan, header) == std::string("steps"));
  header = header_of(plan);
  header.env.offset = static_cast<std::uint32_t>(plan.size());
  CHECK(check_with(plan, header) == std::string("arguments"));
  header = header_of(plan);
  header.filter.offset += 4;
  CHECK(check_with(plan, header) == std::string("filter"));
  header = header_of(plan);
  header.cwd.step = header.steps.count;
  CHECK(check_with(plan, header) == std::string("place step"));
  header = header_of(plan);
  header.flags |= 1u << 30;
  CHECK(check_with(plan, header) == std::string("flags"));
  header = header_of(plan);
  header.flags &= ~static_cast<std::uint32_t>(plan::mount_namespace);
  CHECK(check_with(plan, header) != nullptr);
}

TEST_CASE("a step may only refer to earlier steps and to one plain name") {
  const std::string plan = some_plan(Backend::native);
  const plan::Header header = header_of(plan);
  const auto change = [&](auto&& edit) {
    std::string bytes = plan;
    for (std::uint32_t i = 1; i < header.steps.count; ++i) {
      plan::Step step{};
      char* at = bytes.data() + header.steps.offset + i * sizeof step;
      std::memcpy(&step, at, sizeof step);
      if (step.kind == plan::step_directory) {
        edit(step, i);
        std::memcpy(at, &step, sizeof step);
        break;
      }
    }
    return plan::check(bytes.data(), bytes.size());
  };
  CHECK(change([](plan::Step& step, std::uint32_t i) { step.parent = i; }) == std::string("step reference"));
  CHECK(change([](plan::Step& step, std::uint32_t) { step.name.size = 0; }) != nullptr);
  CHECK(change([](plan::Step& step, std::uint32_t) { step.name = step.text; }) == std::string("step name"));
  CHECK(change([](plan::Step& step, std::uint32_t) { step.kind = 77; }) == std::string("step kind"));
  CHECK(change([](plan::Step& step, std::uint32_t) { step.mode = 04755; }) == std::string("step mode"));
  // A throw-away layer: a host path below it, and a bound above it.
  const auto layer = [&](std::uint64_t size, std::uint32_t flags) {
    return change([&](plan::Step& step, std::uint32_t) {
      step.kind = plan::step_layer;
      step.size = size;
      step.flags = flags;
    });
  };
  CHECK(layer(1, 0) == std::string("step source"));
}

TEST_CASE("a damaged plan is judged without reading past its end") {
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const std::string plan = some_plan(Backend::native);
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    // Exactly as large as the plan, so that the sanitizer sees a read beyond it.
    std::vector<char> bytes(plan.begin(), plan.end());
    for (unsigned i = 0; i < 1 + random() % 8; ++i) {
      bytes[random() % (round % 2 == 0 ? sizeof(plan::Header) : bytes.size())] = static_cast<char>(random());
    }
    accepted += plan::check(bytes.data(), bytes.size()) == nullptr ? 1 : 0;
  }
  CHECK(accepted < 20000);
}
