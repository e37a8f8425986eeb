// Comparing a launch: with a manifest that the operator kept, and with an earlier attempt's. Both are claims
// to be checked; nothing of them is ever taken as input.

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "attempt/attempt.hpp"
#include "core/canonical.hpp"
#include "core/file.hpp"
#include "core/input_file.hpp"
#include "launch/launch.hpp"
#include "launch/stages.hpp"

namespace hitchrail::launch {

namespace {

constexpr std::size_t max_manifest_bytes = 4u << 20;

Error file_error(const char* code, const std::string& path, std::string detail) {
  return Error{ErrorClass::usage,   code,
               "read the manifest", path,
               std::move(detail),   "make a new one with hitchrail preview --output FILE"};
}

// An attempt's own manifest, as its header vouches for it; builds before this one wrote fewer sections.
Result<json::Value> attempt_manifest(const Ground& ground, const std::string& attempt) {
  if (!ground.home) {
    return Error{ErrorClass::refused,     "attempt-not-found",  "compare with the parent", attempt,
                 "there are no runs yet", "hitchrail runs list"};
  }
  HR_TRY(directory, attempt::Directory::open(ground.home->fd(), attempt));
  const auto unreadable = [&](std::string detail) {
    return Error{ErrorClass::refused,       "parent-manifest-unreadable",
                 "compare with the parent", directory.id(),
                 std::move(detail),         "compare with another attempt, or leave --parent out"};
  };
  auto folder = open_at(directory.fd(), "manifests", O_RDONLY | O_DIRECTORY);
  if (folder.has_error()) {
    return unreadable(folder.error().detail);
  }
  auto text = read_file_at(folder.value().get(), "launch-manifest.json", max_manifest_bytes);
  if (text.has_error()) {
    return unreadable(text.error().detail);
  }
  auto document = json::parse(text.value(), json::Duplicates::refuse, "launch manifest");
  if (document.has_error()) {
    return unreadable(document.error().detail);
  }
  if (verify_document(document.value()).has_error() ||
      document.value().get("digest") != directory.header().get("runLaunchManifestDigest")) {
    return unreadable("it is not the manifest that the attempt was started with");
  }
  return document;
}

}  // namespace

Result<json::Value> read_manifest_file(const std::string& path) {
  HR_TRY(text,
         read_input_file(path, {.subject = "manifest",
                                .max_bytes = max_manifest_bytes,
                                .standard_input = false,
                                .too_large_remedy = "make a new one with hitchrail preview --output FILE"}));
  auto document = json::parse(text, json::Duplicates::refuse, path, {max_manifest_bytes, 200'000});
  if (document.has_error()) {
    return file_error("manifest-file-invalid", path, document.error().detail);
  }
  if (document.value().find("digest") == nullptr) {
    return file_error("manifest-file-invalid", path, "it is no document with a digest");
  }
  if (const Status sealed = verify_document(document.value()); sealed.has_error()) {
    const bool mismatch = sealed.error().code == "digest-mismatch";
    return file_error(mismatch ? "manifest-digest-mismatch" : "manifest-file-invalid", path,
                      sealed.error().detail);
  }
  if (const Status good = manifest::check_launch_manifest(document.value()); good.has_error()) {
    return file_error("manifest-file-invalid", path, good.error().object + ": " + good.error().detail);
  }
  return document;
}

Status keep_manifest(const std::string& path, const Preview& preview) {
  const std::filesystem::path file(path);
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  std::error_code error;
  const std::string canonical = std::filesystem::canonical(folder, error).string();
  if (error) {
    return errno_error("keep the manifest", folder.string(), error.value());
  }
  const auto refuse = [&](const char* code, std::string detail, std::string remedy) {
    return Error{ErrorClass::usage, code, "keep the manifest", path, std::move(detail), std::move(remedy)};
  };
  if ((canonical + "/").rfind(preview.worktree + "/", 0) == 0) {
    return refuse("manifest-output-in-worktree", "there it would change what it describes",
                  "keep it outside the work tree");
  }
  HR_TRY(directory, open_at(AT_FDCWD, canonical, O_RDONLY | O_DIRECTORY));
  const std::string name = file.filename().string();
  auto made = open_at(directory.get(), name, O_WRONLY | O_CREAT | O_EXCL, 0600);
  if (made.has_error()) {
    return made.error().code == "eexist"
               ? refuse("manifest-output-exists", "something of that name is there", "choose another name")
               : std::move(made).error();
  }
  Status written = write_all(made.value().get(), json::write(preview.launch_manifest) + "\n");
  if (written.has_value() && ::fsync(made.value().get()) != 0) {
    written = errno_error("keep the manifest", path, errno);
  }
  if (written.has_error()) {
    (void)::unlinkat(directory.get(), name.c_str(), 0);
  }
  return written;
}

Result<Comparison> read_comparison(const Ground& ground, const Request& request) {
  Comparison comparison;
  if (!request.manifest_file.empty()) {
    HR_TRY(planned, read_manifest_file(request.manifest_file));
    comparison.planned = std::move(planned);
  }
  if (!request.parent.empty()) {
    HR_TRY(parent, attempt_manifest(ground, request.parent));
    comparison.parent = std::move(parent);
  } else if (!request.resume.empty()) {
    // Whether that attempt can be resumed is for its own stage to say.
    auto parent = attempt_manifest(ground, request.resume);
    if (parent.has_value()) {
      comparison.parent = std::move(parent).value();
    }
  }
  return comparison;
}

json::Value manifest_differences(const std::vector<manifest::SectionChange>& drift) {
  json::Value list = json::Value::array();
  for (const auto& section : drift) {
    json::Value members = json::Value::array();
    for (const auto& member : section.members) {
      members.push(
          json::Value::object({{"path", member.path}, {"before", member.before}, {"after", member.after}}));
    }
    list.push(json::Value::object({{"section", section.field},
                                   {"beforeDigest", section.before},
                                   {"afterDigest", section.after},
                                   {"members", std::move(members)}}));
  }
  return list;
}

Status as_planned(const std::string& planned_digest, const std::vector<manifest::SectionChange>& drift) {
  if (drift.empty()) {
    return {};
  }
  std::string detail = "the launch is not the one of that manifest any more:";
  for (const auto& section : drift) {
    for (const auto& member : section.members) {
      detail += "\n  " + member.path + ": " + member.before + " -> " + member.after;
    }
  }
  return Error{ErrorClass::refused,
               "manifest-drift",
               "compare with the manifest",
               planned_digest,
               std::move(detail),
               "look at the differences, and make a new manifest with hitchrail preview --output FILE"};
}

}  // namespace hitchrail::launch
