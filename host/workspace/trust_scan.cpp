#include "workspace/trust_scan.hpp"

#include <algorithm>
#include <array>
#include <tuple>

#include "core/canonical.hpp"
#include "workspace/git_config.hpp"
#include "workspace/trust_find.hpp"

namespace hitchrail::workspace {
namespace {

constexpr int kScannerRevision = 1;
constexpr std::size_t kMaxScannedBytes = 256u << 20;  // content that is hashed, all together
constexpr std::size_t kMaxHooks = 256;
constexpr std::size_t kMaxPolicy = 64u << 10;

// What a package manager runs although only an installation was asked for.
constexpr std::array<std::string_view, 11> kLifecycle = {
    "preinstall", "install", "postinstall", "preprepare",     "prepare",     "postprepare",
    "prepublish", "prepack", "postpack",    "prepublishOnly", "dependencies"};

bool below_or_at(std::string_view path, std::string_view tree) {
  return path == tree || (path.size() > tree.size() && path.starts_with(tree) && path[tree.size()] == '/');
}

// Whether an entry at `path` is, holds, or stands in the way of what the pattern means.
class Matcher {
 public:
  Matcher(TrustPattern pattern, const std::string& subdirectory) : pattern_(std::move(pattern)) {
    switch (pattern_.reach) {
      case PlaceReach::top:
        exact_.push_back(pattern_.path);
        break;
      case PlaceReach::levels:
        exact_.push_back(pattern_.path);
        for (std::size_t at = 1; at <= subdirectory.size(); ++at) {
          if (at == subdirectory.size() || subdirectory[at] == '/') {
            exact_.push_back(subdirectory.substr(0, at) + "/" + pattern_.path);
          }
        }
        break;
      case PlaceReach::anywhere:
        break;
    }
  }

  [[nodiscard]] bool matches(const std::string& path, bool problem, bool unseen) const {
    if (pattern_.reach != PlaceReach::anywhere) {
      return std::any_of(exact_.begin(), exact_.end(), [&](const std::string& place) {
        return hits(path, place) || (problem && (path.empty() || below_or_at(place, path)));
      });
    }
    for (std::size_t at = 0;;) {
      const std::string_view rest = std::string_view(path).substr(at);
      if (hits(rest, pattern_.path) || (problem && below_or_at(pattern_.path, rest))) {
        return true;
      }
      at = path.find('/', at);
      if (at == std::string::npos) {
        return problem && unseen;  // a directory that was not looked into may hold it
      }
      ++at;
    }
  }
  [[nodiscard]] const TrustPattern& pattern() const { return pattern_; }

 private:
  [[nodiscard]] bool hits(std::string_view path, std::string_view place) const {
    return pattern_.tree ? below_or_at(path, place) : path == place;
  }
  TrustPattern pattern_;
  std::vector<std::string> exact_;
};

const TrustPlace* built_in(const TrustPattern& pattern) {
  for (const TrustPlace& place : trust_places()) {
    if (place.pattern.path == pattern.path && place.pattern.tree == pattern.tree) {
      return &place;
    }
  }
  return nullptr;
}

// Which of the entries one harness reads by itself, and what as.
class Reading {
 public:
  static Result<Reading> of(const TrustFiles& files, const std::string& subdirectory) {
    Reading out;
    out.stated_ = files.stated;
    for (const auto* list : {&files.instructions, &files.executable}) {
      for (const std::string& text : *list) {
        HR_TRY(pattern, parse_trust_pattern(text));
        const bool text_here = list == &files.instructions;
        const TrustPlace* row = built_in(pattern);
        if (row == nullptr) {
          out.added_.push_back({pattern, text_here ? "provider-instruction" : "provider-configuration",
                                text_here ? TrustPosture::model_influencing : TrustPosture::executable, false,
                                true});
        }
        (text_here ? out.text_ : out.runs_).emplace_back(std::move(pattern), subdirectory);
      }
    }
    return out;
  }
  [[nodiscard]] const std::vector<TrustPlace>& added() const { return added_; }

  void judge(TrustEntry& entry, const TrustPlace* place) const {
    if (entry.problem == "closed") {  // to us, and so to the harness
      return;
    }
    const bool problem = !entry.problem.empty();
    if (!stated_) {
      entry.loaded = place == nullptr ? problem : place->harness;
      entry.effect = entry.posture;
    } else {
      const auto by = [&](const std::vector<Matcher>& list) {
        return std::find_if(list.begin(), list.end(), [&](const Matcher& each) {
          return each.matches(entry.path, problem, place == nullptr);
        });
      };
      const auto text = by(text_);
      entry.loaded = text != text_.end() || by(runs_) != runs_.end();
      entry.effect = entry.posture;
      if (by(runs_) != runs_.end()) {
        entry.effect = TrustPosture::executable;
      } else if (text != text_.end() && !problem && built_in(text->pattern()) == nullptr) {
        entry.effect = TrustPosture::model_influencing;
      }
    }
    // The walk itself came to a bound: nobody knows what lies beyond it.
    entry.loaded = entry.loaded || (problem && entry.path.empty());
  }

 private:
  bool stated_ = false;
  std::vector<Matcher> text_, runs_;
  std::vector<TrustPlace> added_;
};

std::vector<std::string> capabilities_of(const TrustEntry& entry) {
  std::vector<std::string> out;
  if (entry.symbolic_link) {
    out.emplace_back("filesystem.external-read");
  }
  if (entry.posture == TrustPosture::executable) {
    if (entry.kind == "tool-server-configuration") {
      out.emplace_back("network.egress");
    }
    out.emplace_back("process.execute");
  } else if (entry.posture == TrustPosture::model_influencing) {
    out.emplace_back("model.instructions");
  }
  return out;
}

bool ends_with_markdown(std::string_view path) {
  const auto ends = [&](std::string_view end) { return path.ends_with(end); };
  return ends(".md") || ends(".mdc") || ends(".markdown");
}

class Scanner {
 public:
  Scanner(const Worktree& worktree, const Reading& reading, const TrustLimits& limits)
      : worktree_(worktree), reading_(reading), limits_(limits) {}

  Result<TrustInventory> run() {
    std::vector<TrustPlace> places = trust_places();
    places.insert(places.end(), reading_.added().begin(), reading_.added().end());
    HR_TRY(found, find_places(root(), worktree_.subdirectory, places, limits_));
    out_.walked = found.walked;
    hooks();
    std::string rest;
    std::size_t left_out = 0;
    for (const auto& [path, what] : found.paths) {
      TrustEntry entry = entry_at(path, what);
      if (entry.place == package_place && entry.problem.empty() && entry.fingerprint.empty()) {
        continue;  // no script that runs unasked
      }
      if (out_.entries.size() + 1 < limits_.max_entries) {
        out_.entries.push_back(std::move(entry));
      } else {
        ++left_out;
        rest += path + '\0' + entry.fingerprint + "\n";
      }
    }
    if (left_out != 0) {
      TrustEntry entry;
      entry.scope = "workspace-root";
      entry.place = "**";
      entry.kind = "unknown-executable";
      entry.problem = "too-many";
      entry.fingerprint = sha256_prefixed(rest);
      entry.byte_length = left_out;
      finish(entry, nullptr);
      out_.entries.push_back(std::move(entry));
    }
    std::sort(out_.entries.begin(), out_.entries.end(), [](const TrustEntry& a, const TrustEntry& b) {
      return std::tie(a.scope, a.path, a.problem) < std::tie(b.scope, b.path, b.problem);
    });
    read_policy();
    HR_CHECK(seal());
    return std::move(out_);
  }

 private:
  [[nodiscard]] int root() const { return worktree_.root_fd->get(); }

  void finish(TrustEntry& entry, const TrustPlace* place) {
    if (!entry.problem.empty()) {
      entry.posture = TrustPosture::executable;
    }
    entry.requested_capabilities = capabilities_of(entry);
    reading_.judge(entry, place);
  }

  TrustEntry entry_at(const std::string& path, const FoundPlace& what) {
    TrustEntry entry;
    entry.path = path;
    entry.scope = path.find('/') == std::string::npos ? "workspace-root" : "workspace-descendant";
    entry.problem = what.problem;
    entry.symbolic_link = what.problem == "symbolic-link";
    entry.place = what.place != nullptr ? what.place->pattern.text() : "**";
    entry.kind = what.place != nullptr ? what.place->kind : "unknown-executable";
    entry.posture = what.place != nullptr ? what.place->posture : TrustPosture::executable;
    if (what.place != nullptr && what.place->markdown_influences && ends_with_markdown(path)) {
      entry.posture = TrustPosture::model_influencing;
    }
    finish(entry, what.place);
    if (entry.symbolic_link) {
      bind_link(entry);
    } else if (entry.problem.empty()) {
      content(entry, what.place);
    } else {
      entry.fingerprint = sha256_prefixed(entry.problem + '\0' + what.detail);
    }
    return entry;
  }

  // A link is bound with what it says, and with the content of a file of this worktree it leads to directly.
  void bind_link(TrustEntry& entry) {
    auto text = pathfs::read_link_beneath(root(), entry.path);
    std::string bytes = "link";
    bytes += '\0';
    bytes += text.has_value() ? text.value() : text.error().code;
    entry.byte_length = text.has_value() ? text.value().size() : 0;
    if (text.has_value() && !text.value().starts_with('/')) {
      const std::size_t slash = entry.path.rfind('/');
      std::vector<std::string> parts;
      const std::string whole =
          (slash == std::string::npos ? "" : entry.path.substr(0, slash + 1)) + text.value();
      bool within = true;
      for (std::size_t at = 0; at <= whole.size() && within;) {
        const std::size_t end = std::min(whole.find('/', at), whole.size());
        const std::string name = whole.substr(at, end - at);
        at = end + 1;
        if (name == "..") {
          within = !parts.empty();
          if (within) {
            parts.pop_back();
          }
        } else if (!name.empty() && name != ".") {
          parts.push_back(name);
        }
      }
      std::string target;
      for (const std::string& part : parts) {
        target += (target.empty() ? "" : "/") + part;
      }
      if (within && !target.empty()) {
        const auto read = pathfs::read_stable_beneath(root(), target, limits_.max_file_bytes);
        bytes += '\0';
        bytes += read.has_value() ? sha256_hex(read.value().bytes) : read.error().code;
      }
    }
    entry.fingerprint = sha256_prefixed(bytes);
  }

  void content(TrustEntry& entry, const TrustPlace* place) {
    const auto identity = pathfs::identify_beneath(root(), entry.path);
    const std::uint64_t size = identity.has_value() ? identity.value().size : 0;
    if (size > limits_.max_file_bytes || scanned_ + size > kMaxScannedBytes) {
      return fail(entry, place, "too-large", size);
    }
    auto read = pathfs::read_stable_beneath(root(), entry.path, limits_.max_file_bytes);
    if (read.has_error()) {
      const auto code = pathfs::code_of(read.error());
      return fail(entry, place,
                  code == pathfs::Code::too_large               ? "too-large"
                  : pathfs::io_reason(read.error()) == "estale" ? "changing"
                  : code == pathfs::Code::symlink_rejected      ? "symbolic-link"
                  : code == pathfs::Code::not_regular_file      ? "not-a-file"
                                                                : "unreadable",
                  size);
    }
    std::string& bytes = read.value().bytes;
    scanned_ += bytes.size();
    entry.byte_length = bytes.size();
    if (entry.place == package_place) {
      return package(entry, bytes);
    }
    entry.fingerprint = sha256_prefixed(bytes);
    if (entry.loaded && entry.effect == TrustPosture::model_influencing &&
        kept_ + bytes.size() <= limits_.max_kept_bytes) {
      kept_ += bytes.size();
      entry.content = std::move(bytes);
      entry.content_kept = true;
    }
  }

  void fail(TrustEntry& entry, const TrustPlace* place, const char* problem, std::uint64_t size) {
    entry.problem = problem;
    entry.symbolic_link = entry.problem == "symbolic-link";
    entry.byte_length = size;
    entry.fingerprint = sha256_prefixed(entry.problem + '\0' + state_text(root(), entry.path));
    finish(entry, place);
  }

  // Only the scripts that run unasked: another version or dependency is no other trust.
  void package(TrustEntry& entry, const std::string& bytes) {
    const auto parsed = json::parse(bytes, json::Duplicates::first_wins, "package.json");
    if (parsed.has_error()) {
      entry.fingerprint = sha256_prefixed(bytes);  // some other parser may read it
      return;
    }
    json::Value scripts = json::Value::object();
    for (const std::string_view name : kLifecycle) {
      if (const json::Value* script = parsed.value().get("scripts").find(name)) {
        scripts.set(std::string(name), *script);
      }
    }
    if (!scripts.members().empty()) {
      const std::string text = json::write(scripts);
      entry.byte_length = text.size();
      entry.fingerprint = sha256_prefixed(text);
    }
  }

  // ---- git's own hooks: never a run's, whose git directory is its own, but the operator's git runs them
  void hooks() {
    const int common = worktree_.common_fd->get();
    std::string text;
    if (auto config = pathfs::read_beneath(common, "config", 1u << 20); config.has_value()) {
      text = std::move(config).value();
    }
    const auto parsed = GitConfig::parse(text, "config");
    const std::string path =
        parsed.has_value() ? parsed.value().get("core.hookspath").value_or("") : std::string();
    if (!path.empty()) {
      git_entry("git:core.hooksPath", "outside", sha256_prefixed(path), path.size());
    }
    const auto folder = pathfs::open_directory_beneath(common, "hooks");
    if (folder.has_error()) {
      if (!pathfs::is(folder.error(), pathfs::Code::not_found)) {
        git_entry("hooks", "unreadable", sha256_prefixed(state_text(common, "hooks")), 0);
      }
      return;
    }
    const auto names = pathfs::list_directory(folder.value().get(), 100'000);
    if (names.has_error()) {
      git_entry("hooks", "too-many", sha256_prefixed(state_text(common, "hooks")), 0);
      return;
    }
    std::size_t count = 0;
    for (const std::string& name : names.value()) {
      if (name.ends_with(".sample")) {
        continue;
      }
      if (++count > kMaxHooks) {
        git_entry("hooks", "too-many", sha256_prefixed(state_text(common, "hooks")), names.value().size());
        return;
      }
      const auto read = pathfs::read_stable_beneath(folder.value().get(), name, limits_.max_file_bytes);
      if (read.has_value()) {
        git_entry("hooks/" + name, "", sha256_prefixed(read.value().bytes), read.value().bytes.size());
        continue;
      }
      const auto code = pathfs::code_of(read.error());
      git_entry("hooks/" + name,
                code == pathfs::Code::symlink_rejected   ? "symbolic-link"
                : code == pathfs::Code::not_regular_file ? "not-a-file"
                : code == pathfs::Code::too_large        ? "too-large"
                                                         : "unreadable",
                sha256_prefixed(state_text(folder.value().get(), name)), 0);
    }
  }

  void git_entry(std::string path, const char* problem, std::string fingerprint, std::uint64_t length) {
    TrustEntry entry;
    entry.path = std::move(path);
    entry.scope = "git-common-directory";
    entry.place = "git:hooks";
    entry.kind = "runtime-hook";
    entry.problem = problem;
    entry.symbolic_link = entry.problem == "symbolic-link";
    entry.fingerprint = std::move(fingerprint);
    entry.byte_length = length;
    entry.requested_capabilities = capabilities_of(entry);
    out_.entries.push_back(std::move(entry));
  }

  // ---- the repository's own policy
  void read_policy() {
    const auto at = std::find_if(out_.entries.begin(), out_.entries.end(), [](const TrustEntry& entry) {
      return entry.place == policy_place || (!entry.problem.empty() && entry.path == ".hitchrail");
    });
    if (at == out_.entries.end()) {
      return;
    }
    out_.maximum = MaximumTrust::denied;
    out_.maximum_reason = "is no valid workspace-trust-policy/v1";
    if (!at->problem.empty()) {
      out_.maximum_reason = "cannot be read as a file: " + at->problem;
      return;
    }
    const auto text = pathfs::read_beneath(root(), policy_place, kMaxPolicy);
    // The very bytes that the inventory has, or none at all.
    if (text.has_error() || sha256_prefixed(text.value()) != at->fingerprint) {
      out_.maximum_reason = "changes while it is read";
      return;
    }
    const auto policy = json::parse(text.value(), json::Duplicates::refuse, policy_place);
    if (policy.has_error() || !policy.value().is_object() || policy.value().members().size() != 2 ||
        policy.value().get("schemaVersion").as_string() != "workspace-trust-policy/v1") {
      return;
    }
    const std::string& maximum = policy.value().get("maximumTrust").as_string();
    for (const MaximumTrust each : {MaximumTrust::trusted, MaximumTrust::restricted, MaximumTrust::denied}) {
      if (to_string(each) == maximum) {
        out_.maximum = each;
        out_.maximum_reason = "says " + maximum;
      }
    }
  }

  Status seal() {
    json::Value entries = json::Value::array();
    for (const TrustEntry& entry : out_.entries) {
      json::Value capabilities = json::Value::array();
      for (const std::string& capability : entry.requested_capabilities) {
        capabilities.push(capability);
      }
      json::Value one = json::Value::object();
      one.set("id",
              "entry_" + sha256_hex(entry.scope + '\0' + entry.path + '\0' + entry.problem).substr(0, 16));
      one.set("relativePath", path_value(entry.path));
      one.set("scope", entry.scope);
      one.set("place", entry.place);
      one.set("kind", entry.kind);
      one.set("posture", to_string(entry.posture));
      one.set("sourceFingerprint", entry.fingerprint);
      one.set("byteLength", entry.byte_length);
      one.set("symbolicLink", entry.symbolic_link);
      if (!entry.problem.empty()) {
        one.set("problem", entry.problem);
      }
      one.set("requestedCapabilities", std::move(capabilities));
      entries.push(std::move(one));
    }
    out_.document = json::Value::object({{"schemaVersion", "workspace-execution-trust-inventory/v1"},
                                         {"scannerRevision", kScannerRevision},
                                         {"entries", std::move(entries)}});
    HR_TRY(digest, seal_document(out_.document));
    out_.digest = digest;
    return {};
  }

  const Worktree& worktree_;
  const Reading& reading_;
  const TrustLimits& limits_;
  TrustInventory out_;
  std::uint64_t scanned_ = 0;
  std::size_t kept_ = 0;
};

}  // namespace

std::string_view to_string(MaximumTrust maximum) {
  switch (maximum) {
    case MaximumTrust::trusted:
      return "trusted";
    case MaximumTrust::restricted:
      return "restricted";
    case MaximumTrust::denied:
      break;
  }
  return "denied";
}

Result<TrustInventory> scan_trust(const Worktree& worktree, const TrustFiles& files,
                                  const TrustLimits& limits) {
  HR_TRY(reading, Reading::of(files, worktree.subdirectory));
  return Scanner(worktree, reading, limits).run();
}

}  // namespace hitchrail::workspace
