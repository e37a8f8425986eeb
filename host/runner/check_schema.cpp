#include "runner/check_schema.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <span>

#include "core/json.hpp"

namespace hitchrail::runner {
namespace {

std::size_t code_points(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u; }));
}

std::string text_fault(const json::Value& value, std::string_view name, std::size_t least, std::size_t most) {
  if (!value.is_string()) {
    return std::string(name) + " is not a string";
  }
  const std::size_t size = code_points(value.as_string());
  return size < least || size > most ? std::string(name) + " has " + std::to_string(size) + " characters"
                                     : "";
}

std::string members_fault(const json::Value& object, std::span<const std::string_view> required,
                          std::span<const std::string_view> optional, std::string_view where) {
  if (!object.is_object()) {
    return std::string(where) + " is not an object";
  }
  for (const std::string_view name : required) {
    if (object.find(name) == nullptr) {
      return std::string(where) + " lacks " + std::string(name);
    }
  }
  for (const auto& [name, value] : object.members()) {
    const auto known = [&name](std::span<const std::string_view> list) {
      return std::find(list.begin(), list.end(), name) != list.end();
    };
    if (!known(required) && !known(optional)) {
      return std::string(where) + " has the unknown member " + name;
    }
  }
  return "";
}

bool in_set(std::string_view text, std::string_view first, std::string_view rest) {
  return !text.empty() && first.find(text[0]) != std::string_view::npos &&
         text.find_first_not_of(rest, 1) == std::string_view::npos;
}

constexpr std::string_view lower = "abcdefghijklmnopqrstuvwxyz";
constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

std::string texts_fault(const json::Value& list, std::string_view name, std::size_t most_items,
                        std::size_t most) {
  if (!list.is_array() || list.items().size() > most_items) {
    return std::string(name) + " is not a list of at most " + std::to_string(most_items);
  }
  for (const json::Value& item : list.items()) {
    std::string fault = text_fault(item, name, 1, most);
    if (!fault.empty()) {
      return fault;
    }
  }
  return "";
}

std::string capability_fault(const json::Value& capability) {
  static constexpr std::array<std::string_view, 3> required = {"id", "state", "reason"};
  static constexpr std::array<std::string_view, 4> states = {"supported", "advisory", "unsupported",
                                                             "unknown"};
  std::string fault = members_fault(capability, required, {}, "a capability");
  if (fault.empty()) {
    fault = text_fault(capability.get("id"), "a capability's id", 2, 80);
  }
  if (fault.empty() &&
      !in_set(capability.get("id").as_string(), lower, "abcdefghijklmnopqrstuvwxyz0123456789.-")) {
    fault = "a capability's id is not ^[a-z][a-z0-9.-]*$";
  }
  if (fault.empty() &&
      std::find(states.begin(), states.end(), capability.get("state").as_string()) == states.end()) {
    fault = "the capability " + capability.get("id").as_string() + " has an unknown state";
  }
  return fault.empty() ? text_fault(capability.get("reason"), "a capability's reason", 1, 1000) : fault;
}

std::string scalars_fault(const json::Value& root) {
  std::string fault = text_fault(root.get("providerVersion"), "providerVersion", 1, 200);
  if (fault.empty() && root.find("providerBuild") != nullptr) {
    fault = text_fault(root.get("providerBuild"), "providerBuild", 1, 300);
  }
  if (fault.empty()) {
    fault = text_fault(root.get("protocolVersion"), "protocolVersion", 1, 120);
  }
  if (fault.empty() && !in_set(root.get("protocolVersion").as_string(), letters,
                               "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:/-")) {
    fault = "protocolVersion is not ^[A-Za-z][A-Za-z0-9._:/-]*$";
  }
  if (fault.empty() && root.find("state") != nullptr && root.get("state").as_string() != "ready" &&
      root.get("state").as_string() != "degraded") {
    fault = "state is not ready or degraded";
  }
  return fault;
}

}  // namespace

std::string probe_result_fault(std::string_view text) {
  static constexpr std::array<std::string_view, 3> required = {"providerVersion", "protocolVersion",
                                                               "capabilities"};
  static constexpr std::array<std::string_view, 4> optional = {"providerBuild", "state", "models",
                                                               "diagnostics"};
  auto parsed = json::parse(text, json::Duplicates::refuse, "probe result");
  if (parsed.has_error()) {
    return "is not JSON: " + parsed.error().detail;
  }
  const json::Value& root = *parsed;
  std::string fault = members_fault(root, required, optional, "the object");
  if (fault.empty()) {
    fault = scalars_fault(root);
  }
  const json::Value& capabilities = root.get("capabilities");
  if (fault.empty() &&
      (!capabilities.is_array() || capabilities.items().empty() || capabilities.items().size() > 128)) {
    fault = "capabilities is not a list of 1 to 128";
  }
  for (const json::Value& capability : capabilities.items()) {
    if (fault.empty()) {
      fault = capability_fault(capability);
    }
  }
  if (fault.empty() && root.find("models") != nullptr) {
    fault = texts_fault(root.get("models"), "models", 100, 200);
    std::set<std::string_view> seen;
    for (const json::Value& model : root.get("models").items()) {
      if (fault.empty() && !seen.insert(model.as_string()).second) {
        fault = "models has " + model.as_string() + " twice";
      }
    }
  }
  if (fault.empty() && root.find("diagnostics") != nullptr) {
    fault = texts_fault(root.get("diagnostics"), "diagnostics", 32, 1000);
  }
  return fault.empty() ? "" : ": " + fault;
}

}  // namespace hitchrail::runner
