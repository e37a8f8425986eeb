#include "manifest/drift.hpp"

#include <algorithm>
#include <array>

#include "core/canonical.hpp"
#include "core/text.hpp"
#include "manifest/manifest.hpp"

namespace hitchrail::manifest {
namespace {

constexpr std::size_t kMaxShown = 200;
constexpr std::size_t kMaxMembers = 64;

constexpr std::array kIgnored = {
    Ignored{"digest", "it covers everything below"},
    Ignored{"createdAt", "when the plan was made"},
    Ignored{"taskId", "a name made from the task's text, which taskEnvelope.materialDigest covers"},
    Ignored{"attemptId", "a new one in each attempt"},
    Ignored{"workspace.ownershipAttemptId", "this attempt, when it owns a worktree of Hitchrail's"},
    Ignored{"taskEnvelope.digest", "covers times and the attempt id; materialDigest is compared"},
    Ignored{"providerRuntime.digest", "covers the time of the probe; materialDigest is compared"},
    Ignored{"instructions.*.digest", "covers names of the attempt; materialDigest is compared"},
    Ignored{"instructions.*.byteLength", "length of the same text"},
    Ignored{"credentials.digest", "covers the runtime manifest's digest; its members are compared"},
    Ignored{"credentials.providerRuntimeManifestDigest", "covers the time of the probe"},
    Ignored{"sandbox.filesystem.providerRuntimeManifestDigest", "covers the time of the probe"},
    Ignored{"sandbox.attribution.recordedAt", "when the preset was recorded; presetDigest is compared"},
};

void erase_path(json::Value& value, std::string_view path) {
  const std::size_t dot = path.find('.');
  const std::string_view head = path.substr(0, dot);
  if (head == "*") {
    for (json::Value& item : value.items()) {
      erase_path(item, path.substr(dot + 1));
    }
    return;
  }
  if (!value.is_object()) {
    return;
  }
  if (dot == std::string_view::npos) {
    value.erase(head);
    return;
  }
  for (json::Member& member : value.members()) {
    if (member.first == head) {
      erase_path(member.second, path.substr(dot + 1));
    }
  }
}

json::Value material(const json::Value& document) {
  json::Value out = document;
  for (const Ignored& one : kIgnored) {
    erase_path(out, one.path);
  }
  return out;
}

std::string section_digest(const json::Value* section) {
  if (section == nullptr) {
    return "absent";
  }
  json::Value wrapped = json::Value::object();
  wrapped.set("section", *section);
  auto digest = document_digest(wrapped);
  return digest.has_value() ? std::move(digest).value() : "unreadable: " + digest.error().detail;
}

std::string shown(const json::Value* value) {
  if (value == nullptr) {
    return "absent";
  }
  std::string text = json::write(*value);
  // The whole text is judged, not what is left of it.
  return looks_like_secret(text) ? "(not shown)" : escape_cut(text, kMaxShown);
}

void compare(const std::string& path, const json::Value* before, const json::Value* after,
             std::vector<MemberChange>& out);

void compare_objects(const std::string& path, const json::Value& before, const json::Value& after,
                     std::vector<MemberChange>& out) {
  for (const auto& [name, value] : before.members()) {
    compare(path + "." + name, &value, after.find(name), out);
  }
  for (const auto& [name, value] : after.members()) {
    if (before.find(name) == nullptr) {
      compare(path + "." + name, nullptr, &value, out);
    }
  }
}

void compare_arrays(const std::string& path, const json::Value& before, const json::Value& after,
                    std::vector<MemberChange>& out) {
  const auto at = [](const json::Value& list, std::size_t i) {
    return i < list.items().size() ? &list.items()[i] : nullptr;
  };
  for (std::size_t i = 0; i < std::max(before.items().size(), after.items().size()); ++i) {
    compare(path + "." + std::to_string(i), at(before, i), at(after, i), out);
  }
}

void compare(const std::string& path, const json::Value* before, const json::Value* after,
             std::vector<MemberChange>& out) {
  if (out.size() >= kMaxMembers || (before != nullptr && after != nullptr && *before == *after)) {
    return;
  }
  if (before != nullptr && after != nullptr && before->is_object() && after->is_object()) {
    compare_objects(path, *before, *after, out);
  } else if (before != nullptr && after != nullptr && before->is_array() && after->is_array()) {
    compare_arrays(path, *before, *after, out);
  } else {
    out.push_back(MemberChange{path, shown(before), shown(after)});
  }
}

}  // namespace

std::span<const Ignored> ignored() {
  return kIgnored;
}

Result<std::string> launch_material_digest(const json::Value& document) {
  return document_digest(material(document));
}

std::vector<SectionChange> diff(const json::Value& current, const json::Value& parent) {
  const json::Value now = material(current);
  const json::Value then = material(parent);
  std::vector<std::string> names;
  for (const auto* document : {&now, &then}) {
    for (const auto& [name, value] : document->members()) {
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        names.push_back(name);
      }
    }
  }
  std::vector<SectionChange> out;
  for (const std::string& name : names) {
    const json::Value* before = then.find(name);
    const json::Value* after = now.find(name);
    if (before != nullptr && after != nullptr && *before == *after) {
      continue;
    }
    SectionChange change{name, section_digest(before), section_digest(after), {}};
    compare(name, before, after, change.members);
    out.push_back(std::move(change));
  }
  return out;
}

json::Value lineage(const json::Value& parent, const std::vector<SectionChange>& changes) {
  json::Value list = json::Value::array();
  for (const SectionChange& change : changes) {
    list.push(json::Value::object(
        {{"field", change.field}, {"beforeDigest", change.before}, {"afterDigest", change.after}}));
  }
  return json::Value::object({{"attemptId", parent.get("attemptId")},
                              {"manifestDigest", parent.get("digest")},
                              {"material", !changes.empty()},
                              {"changes", std::move(list)}});
}

}  // namespace hitchrail::manifest
