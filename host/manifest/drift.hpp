#pragma once
// Is it the same launch? Two run-launch-manifest/v1 documents, section by section, over material content
// only: what says when, or in which attempt, stands in one table (ignored()) and never differs; every other
// member is compared. docs/operators/evidence.md prints the table.
//
// Values of differing members are given as JSON text, cut, and left out when either has the shape of a
// secret: the other document may come from anybody.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.hpp"
#include "core/result.hpp"

namespace hitchrail::manifest {

struct Ignored {
  std::string_view path;  // dotted, `*` for each item of a list
  std::string_view why;
};
std::span<const Ignored> ignored();

struct MemberChange {
  std::string path;           // "runtime.args.3"
  std::string before, after;  // JSON text, "absent", or "(not shown)"
};
struct SectionChange {
  std::string field;
  std::string before, after;  // digests of the sections, or "absent"
  std::vector<MemberChange> members;
};
// In the manifest's order. Sections are the top-level members.
std::vector<SectionChange> diff(const json::Value& current, const json::Value& parent);
// {attemptId, manifestDigest, material, changes[{field, beforeDigest, afterDigest}]}: the member `parent` of
// a manifest. `parent` itself is no part of this comparison: it says with whom it was made.
json::Value lineage(const json::Value& parent, const std::vector<SectionChange>& changes);

Result<std::string> launch_material_digest(const json::Value& document);

}  // namespace hitchrail::manifest
