#include "workspace/worktree_base.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cstdlib>

#include "core/file.hpp"
#include "core/text.hpp"
#include "pathfs/edit.hpp"
#include "workspace/git_call.hpp"
#include "workspace/refs.hpp"
#include "workspace/run_objects.hpp"

namespace hitchrail::workspace {
namespace {

constexpr std::size_t kMaxConfig = 1u << 20;
constexpr std::chrono::milliseconds kFetchTime{30'000};
constexpr std::string_view kHeads = "refs/heads/";
constexpr std::string_view kOrigin = "refs/remotes/origin/";

Error base_error(ErrorClass kind, const char* code, const std::string& object, std::string detail,
                 std::string remedy) {
  return Error{kind, code, "resolve base", object, std::move(detail), std::move(remedy)};
}

Error fetch_failed(const std::string& detail) {
  return base_error(ErrorClass::environment, "base-fetch-failed", "origin", detail,
                    "mend it, or answer for what is here: --accept-stale-base REASON");
}

std::string first_url(const GitConfig& config) {
  for (const auto& [key, value] : config.entries()) {
    if (key == "remote.origin.url") {
      return value;
    }
  }
  return {};
}

// Where the counterpart of a branch is, when it has one.
Status find_counterpart(const Worktree& worktree, const GitConfig& config, LocalBase& base) {
  const std::string key = "branch." + base.branch + ".";
  const std::string remote = config.get(key + "remote").value_or("");
  const std::string merge = config.get(key + "merge").value_or("");
  if (!remote.empty() && remote != ".") {
    base.remote = remote;
    base.remote_branch = merge.starts_with(kHeads) ? merge.substr(kHeads.size()) : base.branch;
    return {};
  }
  HR_TRY(tracking,
         read_ref(worktree.common_fd->get(), std::string(kOrigin) + base.branch, worktree.object_format));
  if (!tracking.empty() && !first_url(config).empty()) {
    base.remote = "origin";
    base.remote_branch = base.branch;
  }
  return {};
}

bool looks_like_oid(const std::string& text) {
  return text.size() >= 7 && text.size() <= 64 &&
         text.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
}

// ---- the origin
struct Transport {
  std::string protocols;  // GIT_ALLOW_PROTOCOL
  std::string directory;  // of a local origin
};

std::string decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string hex(text.substr(i + 1, 2));
    if (text[i] == '%' && hex.size() == 2 &&
        hex.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos) {
      out += static_cast<char>(std::strtol(hex.c_str(), nullptr, 16));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

Result<Transport> transport_of(const Worktree& worktree, const std::string& url) {
  const std::size_t scheme_end = url.find("://");
  const std::string scheme = scheme_end == std::string::npos ? "" : url.substr(0, scheme_end);
  if (scheme == "http" || scheme == "https" || scheme == "git") {
    const std::string authority = url.substr(scheme_end + 3, url.find('/', scheme_end + 3) - scheme_end - 3);
    if (authority.find('@') != std::string::npos) {
      return base_error(ErrorClass::refused, "fetch-url-credentials", "origin",
                        "the origin's URL holds credentials, which would be seen in the process table",
                        "fetch by hand and then use --accept-stale-base, or take them out of the URL");
    }
    return Transport{scheme == "git" ? "git" : "http:https", ""};
  }
  // A colon before the first slash is another machine (or a helper such as ext::).
  const std::size_t colon = url.find(':');
  const bool path =
      scheme == "file" || (scheme.empty() && (colon == std::string::npos || url.find('/') < colon));
  if (!path || url.empty()) {
    return base_error(
        ErrorClass::refused, "fetch-transport-unsupported", "origin",
        "only https, http, git and local origins are fetched from: no program of the repository's "
        "choice and no key of yours comes into the boundary",
        "fetch by hand, then: --accept-stale-base REASON");
  }
  std::string directory = scheme == "file" ? decoded(url.substr(scheme_end + 3)) : url;
  if (directory.empty() || directory.front() != '/') {
    directory.insert(0, worktree.root + "/");
  }
  auto resolved = pathfs::resolve_directory(directory);
  if (resolved.has_error()) {
    return fetch_failed("the origin's directory cannot be opened: " + resolved.error().detail);
  }
  return Transport{"file", resolved.value().path};
}

void set_variable(GitCall& call, const std::string& name, const std::string& value) {
  std::erase_if(call.env, [&](const auto& each) { return each.first == name; });
  call.env.emplace_back(name, value);
}

GitCall fetch_call(const Worktree& worktree, const Transport& transport, const LocalBase& base,
                   const std::string& git_dir) {
  GitCall call = git_call(git_dir, worktree.root);
  set_variable(call, "GIT_ALLOW_PROTOCOL", transport.protocols);
  call.args = {
      "fetch",
      "--no-tags",
      "--no-recurse-submodules",
      "--no-auto-maintenance",
      "--no-write-fetch-head",
      "origin",
      "+" + std::string(kHeads) + base.remote_branch + ":" + std::string(kOrigin) + base.remote_branch};
  call.readable = worktree.object_stores;
  if (!transport.directory.empty()) {
    call.readable.push_back(transport.directory);
  } else {
    call.network = true;
    for (const char* name :
         {"http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTPS_PROXY", "NO_PROXY"}) {
      if (const char* value = std::getenv(name)) {
        call.env.emplace_back(name, value);
      }
    }
  }
  call.writable = {git_dir};
  call.timeout = kFetchTime;
  return call;
}

// Our own words about the remote; nothing of the repository's configuration but the URL.
Status add_remote(int scratch_fd, const std::string& url) {
  HR_TRY(git, pathfs::open_directory_beneath(scratch_fd, "git"));
  HR_TRY(config, read_metadata(git.get(), "config", kMaxConfig));
  config += "[core]\n" + config_line("alternateRefsCommand", "true") + "[remote \"origin\"]\n" +
            config_line("url", url) + "[transfer]\n" + config_line("fsckObjects", "true") + "[credential]\n" +
            config_line("helper", "");
  pathfs::WriteOptions options;
  options.sync = false;
  HR_TRY(written, pathfs::write_beneath(git.get(), "config", config, options));
  (void)written;
  return {};
}

// The operator's own remote-tracking branch goes on as by `git fetch`.
Status move_tracking(const Worktree& worktree, const std::string& ref, const std::string& commit,
                     const GitRunner& git) {
  GitCall call = git_call(worktree.common_dir, worktree.root);
  call.readable = worktree.object_stores;
  call.readable.push_back(worktree.common_dir);
  call.writable = {worktree.common_dir + "/refs"};
  if (pathfs::open_directory_beneath(worktree.common_fd->get(), "logs").has_value()) {
    call.writable.push_back(worktree.common_dir + "/logs");
  }
  call.args = {"update-ref", "-m", "hitchrail: fetch", ref, commit};
  HR_TRY(outcome, run_git(git, call));
  return outcome.exit_code == 0 ? Status{} : Status(fetch_failed(escape_cut(outcome.error, 400)));
}

}  // namespace

Result<GitConfig> repository_config(const Worktree& worktree) {
  HR_TRY(text, read_metadata(worktree.common_fd->get(), "config", kMaxConfig));
  return GitConfig::parse(text, worktree.common_dir + "/config");
}

Result<LocalBase> resolve_base(const Worktree& worktree, const GitConfig& config, const std::string& name,
                               const GitRunner& git) {
  LocalBase base;
  const int common = worktree.common_fd->get();
  if (name.empty()) {
    HR_TRY(head, read_head(worktree));
    if (head.oid.empty()) {
      return base_error(ErrorClass::refused, "base-unborn", worktree.root,
                        "there is no commit on the branch that is checked out", "commit something first");
    }
    base.commit = head.oid;
    base.branch = head.ref.starts_with(kHeads) ? head.ref.substr(kHeads.size()) : "";
    HR_CHECK(base.branch.empty() ? Status{} : find_counterpart(worktree, config, base));
    return base;
  }
  if (valid_ref(std::string(kHeads) + name)) {
    HR_TRY(local, read_ref(common, std::string(kHeads) + name, worktree.object_format));
    if (!local.empty()) {
      base.commit = local;
      base.branch = name;
      HR_CHECK(find_counterpart(worktree, config, base));
      return base;
    }
    const std::string remote_branch = name.starts_with("origin/") ? name.substr(7) : name;
    HR_TRY(tracking, read_ref(common, std::string(kOrigin) + remote_branch, worktree.object_format));
    if (!tracking.empty()) {
      return LocalBase{remote_branch, tracking, "origin", remote_branch};
    }
  }
  if (looks_like_oid(name)) {
    GitCall call = git_call(worktree.git_dir, worktree.root);
    call.readable = worktree.object_stores;
    call.readable.push_back(worktree.git_dir);
    call.readable.push_back(worktree.common_dir);
    call.args = {"rev-parse", "--verify", "--quiet", "--end-of-options", name + "^{commit}"};
    HR_TRY(outcome, run_git(git, call));
    const std::string oid = outcome.output.substr(0, outcome.output.find('\n'));
    // A branch may be called like a commit; the digits decide.
    if (outcome.exit_code == 0 && valid_oid(oid, worktree.object_format) &&
        std::equal(name.begin(), name.end(), oid.begin(),
                   [](char a, char b) { return (a >= 'A' && a <= 'F' ? a - 'A' + 'a' : a) == b; })) {
      base.commit = oid;
      return base;
    }
  }
  return base_error(ErrorClass::usage, "base-unknown", name,
                    "this repository has no branch and no commit of this name",
                    "git -C " + escape_visible(worktree.root) + " branch --all");
}

Result<std::string> fetch_base(const Worktree& worktree, const GitConfig& config, const LocalBase& base,
                               int scratch_fd, const std::string& scratch, const GitRunner& git) {
  if (base.remote.empty()) {
    return base_error(ErrorClass::usage, "base-remote-other", base.branch.empty() ? base.commit : base.branch,
                      "this base has no counterpart at a remote: there is nothing to fetch",
                      "leave --fetch out");
  }
  if (base.remote != "origin") {
    return base_error(
        ErrorClass::refused, "base-remote-other", base.branch,
        "its upstream is at the remote \"" + base.remote + "\", and only origin is fetched from",
        "fetch by hand, then: --accept-stale-base REASON");
  }
  const std::string url = first_url(config);
  HR_TRY(transport, transport_of(worktree, url));
  HR_TRY(made, prepare_private_git(worktree, scratch_fd, scratch));
  HR_CHECK(add_remote(scratch_fd, url));
  const GitCall call = fetch_call(worktree, transport, base, made.directory);
  auto outcome = run_git(git, call);
  if (outcome.has_error()) {
    return is_answer_of_git(outcome.error()) ? fetch_failed(outcome.error().detail) : outcome.error();
  }
  if (outcome.value().exit_code != 0) {
    return fetch_failed(escape_cut(outcome.value().error, 1000));
  }
  // What git wrote there came from another machine: it is read as a run's directory is.
  HR_TRY(fetched, pathfs::open_directory_beneath(scratch_fd, "git"));
  HR_CHECK(RunObjects::check_layout(fetched.get()));
  const std::string ref = std::string(kOrigin) + base.remote_branch;
  HR_TRY(commit, read_ref(fetched.get(), ref, worktree.object_format));
  if (commit.empty()) {
    return fetch_failed("the origin gave no branch " + base.remote_branch);
  }
  const RunObjects objects(worktree, scratch, git);
  HR_TRY(brought, objects.bring({commit}, base.commit, scratch_fd));
  if (!brought) {
    return fetch_failed("what the origin sent is damaged, incomplete or too large");
  }
  HR_CHECK(move_tracking(worktree, ref, commit, git));
  return commit;
}

}  // namespace hitchrail::workspace
