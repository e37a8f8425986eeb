#include <catch2/catch.hpp>

#include "core/canonical.hpp"
#include "kernel/world.hpp"
#include "launch/gate_plans.hpp"

using namespace hitchrail;
using hitchrail::test::World;

namespace {

json::Value envelope(const char* gates) {
  return json::Value::object({{"verificationGates", json::parse(gates, json::Duplicates::refuse).value()}});
}

struct Plan {
  World world;
  boundary::Machine machine = World::machine();
  boundary::Compiled compiled = boundary::compile(world.preset(), world.roots(), World::machine(),
                                                  {.backend = boundary::Backend::native})
                                    .value();

  [[nodiscard]] launch::GatePlan of(const char* gates) const {
    auto plan = launch::plan_gates(envelope(gates), compiled, machine, world.run(), 5000);
    REQUIRE(plan.has_value());
    return std::move(plan).value();
  }
};

const char* const required = R"([{"id":"a","description":"d","required":true,"evidenceRequired":true,
  "command":{"argv":["true"],"timeoutMs":1000}}])";
const char* const optional = R"([{"id":"a","description":"d","required":false,"evidenceRequired":true,
  "command":{"argv":["true"],"timeoutMs":1000}}])";
const char* const ticked = R"([{"id":"a","description":"d","required":true,"evidenceRequired":true}])";

}  // namespace

TEST_CASE("a task without gates has no plan") {
  const Plan plan;
  CHECK(plan.of("[]").document.is_null());
}

TEST_CASE("a gate plan is sealed and holds the gates, their bounds and the policy of the run") {
  const Plan plan;
  const auto made = plan.of(required);
  CHECK(made.blockers.empty());
  CHECK(verify_document(made.document).has_value());
  CHECK(made.document.get("totalTimeoutMs").as_int() == 5000);
  CHECK(made.document.get("gates").items().at(0).get("command").get("argv").items().size() == 1);
  CHECK(made.document.get("boundary").get("worktree").as_string() == plan.world.worktree());
}

TEST_CASE(
    "a boundary that cannot be had blocks a required gate, warns of others, and gates without a command need "
    "none") {
  Plan plan;
  plan.machine.user_namespaces = false;
  const auto blocked = plan.of(required);
  REQUIRE(blocked.blockers.size() == 1);
  CHECK(blocked.blockers[0].code == "gate-boundary-unavailable");
  CHECK(blocked.blockers[0].detail.find("backend-unavailable") == 0);
  const auto warned = plan.of(optional);
  CHECK(warned.blockers.empty());
  REQUIRE(warned.warnings.size() == 1);
  CHECK(warned.warnings[0].code == "gate-boundary-unavailable");
  CHECK(plan.of(ticked).blockers.empty());
  CHECK(plan.of(ticked).warnings.empty());
}

TEST_CASE("where no overlay can be mounted preview says that gates only read") {
  Plan plan;
  plan.machine.overlay = false;
  const auto made = plan.of(required);
  CHECK(made.blockers.empty());
  REQUIRE(made.warnings.size() == 1);
  CHECK(made.warnings[0].code == "gates-read-only");
}
