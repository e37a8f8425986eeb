// The documents of the ABI: the schemas use a subset of draft 4 that the validator really checks, and the
// checker's code says the same as the schema.
#include <rapidjson/document.h>
#include <rapidjson/schema.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <set>

#include "plugins/check.hpp"
#include "profiles/profiles.hpp"
#include "runner/check_schema.hpp"

namespace {

using namespace hitchrail;

std::string read(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string schema_text(const std::string& name) {
  const std::string text = read(HITCHRAIL_SOURCE_DIR "/sdk/schemas/" + name + ".json");
  REQUIRE_FALSE(text.empty());
  return text;
}

// "" or the first keyword that is not of the subset: RapidJSON ignores those silently.
std::string lint(const rapidjson::Value& schema, const std::string& where) {
  static const std::set<std::string> allowed = {
      "$schema",    "title",    "description", "type",    "required",  "additionalProperties",
      "properties", "items",    "enum",        "pattern", "minLength", "maxLength",
      "minItems",   "maxItems", "uniqueItems", "minimum", "maximum"};
  if (!schema.IsObject()) {
    return where + " is no schema";
  }
  for (const auto& member : schema.GetObject()) {
    const std::string name = member.name.GetString();
    if (allowed.count(name) == 0) {
      return where + "/" + name;
    }
    if (name == "type" && !member.value.IsString()) {
      return where + "/type is not one name";
    }
    if (name == "additionalProperties" && !member.value.IsBool()) {
      return where + "/additionalProperties is not a boolean";
    }
    if (name == "items") {
      const std::string inside = lint(member.value, where + "/items");
      if (!inside.empty()) {
        return inside;
      }
    }
    if (name == "properties") {
      for (const auto& property : member.value.GetObject()) {
        const std::string inside = lint(property.value, where + "/" + property.name.GetString());
        if (!inside.empty()) {
          return inside;
        }
      }
    }
  }
  const bool object = schema.HasMember("type") && std::string(schema["type"].GetString()) == "object";
  return object && !schema.HasMember("additionalProperties") ? where + " is open" : "";
}

std::string lint_text(const std::string& text) {
  rapidjson::Document document;
  document.Parse(text.c_str());
  return document.HasParseError() ? "not JSON" : lint(document, "");
}

bool valid(const std::string& schema, const std::string& text) {
  rapidjson::Document document;
  document.Parse(schema_text(schema).c_str());
  REQUIRE_FALSE(document.HasParseError());
  const rapidjson::SchemaDocument compiled(document);
  rapidjson::SchemaValidator validator(compiled);
  rapidjson::Document instance;
  instance.Parse(text.c_str());
  return !instance.HasParseError() && instance.Accept(validator);
}

TEST_CASE("the schemas of the SDK keep to the subset") {
  for (const char* name : {"probe-request.v1", "probe-result.v1", "launch-request.v1", "task-envelope.v1",
                           "render-context.v1"}) {
    INFO(name);
    CHECK(lint_text(schema_text(name)).empty());
  }
}

TEST_CASE("the linter refuses every keyword that the validator would ignore or that is not draft 4") {
  for (const char* keyword : {"$ref",
                              "$id",
                              "const",
                              "if",
                              "then",
                              "else",
                              "contains",
                              "propertyNames",
                              "format",
                              "oneOf",
                              "anyOf",
                              "allOf",
                              "not",
                              "patternProperties",
                              "dependencies",
                              "definitions",
                              "$defs",
                              "examples",
                              "default",
                              "multipleOf",
                              "exclusiveMinimum",
                              "unevaluatedProperties",
                              "minContains",
                              "additionalItems",
                              "maxlength"}) {
    INFO(keyword);
    CHECK_FALSE(lint_text("{\"type\":\"string\",\"" + std::string(keyword) + "\":{}}").empty());
    CHECK_FALSE(lint_text("{\"type\":\"array\",\"items\":{\"" + std::string(keyword) + "\":{}}}").empty());
    CHECK_FALSE(lint_text("{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{\"a\":{\"" +
                          std::string(keyword) + "\":{}}}}")
                    .empty());
  }
  CHECK_FALSE(lint_text(R"({"type":["string","null"]})").empty());
  CHECK_FALSE(lint_text(R"({"type":"object"})").empty());
  CHECK_FALSE(lint_text(R"({"type":"object","additionalProperties":{"type":"string"}})").empty());
}

std::string capability(const std::string& members) {
  return R"({"providerVersion":"1","protocolVersion":"p/v1","capabilities":[)" + members + "]}";
}

TEST_CASE("the checker's code and the schema of a probe's result agree") {
  const std::string one = R"({"id":"run.start","state":"supported","reason":"r"})";
  std::string many;
  for (int i = 0; i < 129; ++i) {
    many += (i == 0 ? "" : ",") + one;
  }
  const std::map<std::string, bool> examples = {
      {capability(one), true},
      {capability(""), false},
      {capability(many), false},
      {capability(R"({"id":"Run","state":"supported","reason":"r"})"), false},
      {capability(R"({"id":"r","state":"supported","reason":"r"})"), false},
      {capability(R"({"id":"run.start","state":"maybe","reason":"r"})"), false},
      {capability(R"({"id":"run.start","state":"supported","reason":""})"), false},
      {capability(R"({"id":"run.start","state":"supported"})"), false},
      {capability(R"({"id":"run.start","state":"supported","reason":"r","source":"x"})"), false},
      {R"({"providerVersion":"1","capabilities":[)" + one + "]}", false},
      {R"({"providerVersion":"","protocolVersion":"p","capabilities":[)" + one + "]}", false},
      {R"({"providerVersion":"1","protocolVersion":"1p","capabilities":[)" + one + "]}", false},
      {R"({"providerVersion":"1","protocolVersion":"p v","capabilities":[)" + one + "]}", false},
      {R"({"providerVersion":1,"protocolVersion":"p","capabilities":[)" + one + "]}", false},
      {R"({"providerVersion":"1","protocolVersion":"p","state":"degraded","models":["a","b"],"providerBuild":"x","diagnostics":["d"],"capabilities":[)" +
           one + "]}",
       true},
      {R"({"providerVersion":"1","protocolVersion":"p","state":"failed","capabilities":[)" + one + "]}",
       false},
      {R"({"providerVersion":"1","protocolVersion":"p","models":["a","a"],"capabilities":[)" + one + "]}",
       false},
      {R"({"providerVersion":"1","protocolVersion":"p","models":"a","capabilities":[)" + one + "]}", false},
      {R"({"providerVersion":"1","protocolVersion":"p","diagnostics":[""],"capabilities":[)" + one + "]}",
       false},
      {R"({"providerVersion":"1","protocolVersion":"p","extra":1,"capabilities":[)" + one + "]}", false},
      {R"({"providerVersion":")" + std::string(201, 'v') + R"(","protocolVersion":"p","capabilities":[)" +
           one + "]}",
       false},
      {"[]", false},
      {"nonsense", false},
  };
  for (const auto& [text, good] : examples) {
    INFO(text.substr(0, 200));
    CHECK(valid("probe-result.v1", text) == good);
    CHECK(runner::probe_result_fault(text).empty() == good);
  }
}

TEST_CASE("the checker's standard launch request is one") {
  CHECK(valid("launch-request.v1", std::string(plugins::standard_launch_request())));
}

TEST_CASE("launch requests out of the schema are refused") {
  const std::string good =
      R"({"schemaVersion":"launch-request/v1","profileId":"p","providerVersion":"1","worktree":"/w",)"
      R"("home":"/h","temp":"/t","providerSandbox":"own")";
  CHECK(valid("launch-request.v1", good + "}"));
  CHECK(valid(
      "launch-request.v1",
      good +
          R"(,"model":"m","conversation":{"id":"c"},"credentials":["API_KEY"],"gateEndpoints":[{"name":"g","url":"http://127.0.0.1:1"}]})"));
  CHECK_FALSE(valid("launch-request.v1", good + R"(,"conversation":{}})"));
  CHECK(valid("launch-request.v1", good + R"(,"providerOptions":{"reasoning":"high"}})"));
  CHECK_FALSE(valid("launch-request.v1", good + R"(,"credentials":["lower"]})"));
  CHECK_FALSE(valid("launch-request.v1", good + R"(,"task":"x"})"));
  CHECK_FALSE(valid("launch-request.v1", R"({"profileId":"p"})"));
}

TEST_CASE("the example's profile is a sound support profile") {
  const auto profile = profiles::load_profile(HITCHRAIL_SOURCE_DIR "/sdk/examples/echo-c/echo-c.yaml");
  if (profile.has_error()) {
    INFO(profile.error().object << ": " << profile.error().detail);
    CHECK_FALSE(profile.has_error());
  }
}

}  // namespace
