#include <array>

#include "core/canonical.hpp"
#include "manifest/manifest.hpp"

namespace hitchrail::manifest {
namespace {

constexpr std::array<std::string_view, 19> kSections = {
    "taskEnvelope",   "providerRuntime", "providerRequirements",
    "harnessSupport", "routing",         "readiness",
    "instructions",   "workspace",       "runtime",
    "conversation",   "tools",           "permissions",
    "resources",      "sandbox",         "budget",
    "phase",          "workspaceTrust",  "origins",
    "enforcement"};

// A launch manifest without everything that says when, or in which attempt.
json::Value material(const json::Value& document) {
  json::Value out = document;
  for (const char* name : {"digest", "createdAt", "taskId", "attemptId"}) {
    out.erase(name);
  }
  for (json::Member& member : out.members()) {
    if (member.first == "taskEnvelope" || member.first == "providerRuntime") {
      member.second.erase("digest");
    }
    if (member.first == "instructions") {
      for (json::Value& instruction : member.second.items()) {
        instruction.erase("digest");
        instruction.erase("byteLength");
      }
    }
    if (member.first == "sandbox") {
      for (json::Member& part : member.second.members()) {
        if (part.first == "filesystem") {
          part.second.erase("providerRuntimeDigest");
        }
      }
    }
  }
  return out;
}

std::string section_digest(const json::Value& document, std::string_view name) {
  const json::Value* section = document.find(name);
  if (section == nullptr) {
    return "absent";
  }
  json::Value wrapped = json::Value::object();
  wrapped.set("section", *section);
  auto digest = document_digest(wrapped);
  return digest.has_value() ? std::move(digest).value() : "unreadable: " + digest.error().detail;
}

}  // namespace

Result<std::string> launch_material_digest(const json::Value& document) {
  return document_digest(material(document));
}

std::vector<SectionChange> diff(const json::Value& current, const json::Value& parent) {
  const json::Value now = material(current);
  const json::Value then = material(parent);
  std::vector<SectionChange> out;
  for (const std::string_view section : kSections) {
    std::string before = section_digest(then, section);
    std::string after = section_digest(now, section);
    if (before != after) {
      out.push_back(SectionChange{std::string(section), std::move(before), std::move(after)});
    }
  }
  return out;
}

}  // namespace hitchrail::manifest
