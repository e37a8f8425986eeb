#include <catch2/catch.hpp>

#include "launch/launch.hpp"

using namespace hitchrail;

TEST_CASE("a manifest that is not enforceable refuses with its first blocker") {
  auto manifest = json::parse(R"({"enforcement":{"enforceable":false,"blockers":[
    {"code":"root-too-wide","field":"sandbox","detail":"why","remediation":"how"},{"code":"second"}]}})",
                              json::Duplicates::refuse)
                      .value();
  const Status status = launch::enforceable(manifest);
  REQUIRE(status.has_error());
  REQUIRE(status.error().code == "root-too-wide");
  REQUIRE(status.error().kind == ErrorClass::refused);
  REQUIRE(status.error().remedy == "how");
}

TEST_CASE("a manifest that says nothing about enforcement is refused") {
  REQUIRE(launch::enforceable(json::Value::object()).has_error());
}
