#include <fcntl.h>

#include <cerrno>
#include <deque>
#include <utility>

#include "pathfs/internal.hpp"

namespace hitchrail::pathfs {
namespace {

constexpr int kMaxLinks = 40;    // as the kernel's own walk
constexpr int kMaxDepth = 4096;  // directories between a path and "/"

// The operator's path, one component at a time, so that every link on the way is seen and judged by its
// owner.
class Walk {
 public:
  explicit Walk(std::string given) : given_(std::move(given)) {}

  Result<Resolved> run() {
    HR_CHECK(start());
    while (!todo_.empty()) {
      Step step = std::move(todo_.front());
      todo_.pop_front();
      HR_CHECK(take(step));
    }
    Resolved out;
    out.fd.reset(::openat(at_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!out.fd) {
      return system_error("open", given_, errno);
    }
    HR_TRY(identity, identify(out.fd.get()));
    out.identity = identity;
    HR_TRY(path, canonical());
    out.path = std::move(path);
    return out;
  }

 private:
  struct Step {
    std::string name;
    bool last = false;  // the last component that the operator typed: may not be a link
  };

  Status start() {
    if (given_.empty() || given_.find('\0') != std::string::npos) {
      return system_error("open", given_, ENOENT);
    }
    at_.reset(::open(given_.front() == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!at_) {
      return system_error("open", given_, errno);
    }
    push(given_, true);
    return {};
  }

  void push(const std::string& path, bool typed) {
    std::vector<std::string> parts = components(path);
    std::size_t last = parts.size();  // "link/." and "link/" end in the link, whatever is written after it
    while (last > 0 && parts[last - 1] == ".") {
      --last;
    }
    for (std::size_t i = parts.size(); i > 0; --i) {
      todo_.push_front(Step{std::move(parts[i - 1]), typed && i == last});
    }
  }

  Status take(const Step& step) {
    if (step.name == ".") {
      return {};
    }
    Fd next(::openat(at_.get(), step.name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!next) {
      return system_error("open", given_, errno);
    }
    HR_TRY(identity, identify(next.get()));
    if (identity.type == FileType::symlink) {
      return follow(step, next.get(), identity);
    }
    if (identity.type != FileType::directory) {
      return make_error(Code::not_directory, "open", given_, "\"" + step.name + "\" is not a directory");
    }
    at_ = std::move(next);
    return {};
  }

  Status follow(const Step& step, int link, const Identity& identity) {
    if (step.last) {
      return make_error(Code::symlink_rejected, "open", given_, "the path itself is a symbolic link");
    }
    if (identity.uid != 0 && identity.uid != ::geteuid()) {
      return make_error(
          Code::symlink_rejected, "open", given_,
          "\"" + step.name + "\" is a symbolic link made by uid " + std::to_string(identity.uid));
    }
    if (++links_ > kMaxLinks) {
      return make_error(Code::symlink_rejected, "open", given_, "too many symbolic links");
    }
    std::string text(4097, '\0');
    const ssize_t size = ::readlinkat(link, "", text.data(), text.size());
    if (size <= 0 || static_cast<std::size_t>(size) == text.size()) {
      return system_error("read link", given_, size < 0 ? errno : ENAMETOOLONG);
    }
    text.resize(static_cast<std::size_t>(size));
    if (text.front() == '/') {
      at_.reset(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
      if (!at_) {
        return system_error("open", given_, errno);
      }
    }
    push(text, false);
    return {};
  }

  // The kernel's own name of the directory that is held open; checked by walking it again without any link.
  Result<std::string> canonical() {
    const std::string self = "/proc/self/fd/" + std::to_string(at_.get());
    std::string text(16385, '\0');
    const ssize_t size = ::readlink(self.c_str(), text.data(), text.size());
    if (size <= 0 || static_cast<std::size_t>(size) == text.size()) {
      return system_error("resolve", given_, size < 0 ? errno : ENAMETOOLONG);
    }
    text.resize(static_cast<std::size_t>(size));
    HR_TRY(again, open_absolute(text, O_PATH | O_DIRECTORY));
    HR_TRY(one, identify(at_.get()));
    HR_TRY(two, identify(again.get()));
    if (!one.same_file(two)) {
      return system_error("resolve", given_, ESTALE);
    }
    return text;
  }

  std::string given_;
  Fd at_;
  std::deque<Step> todo_;
  int links_ = 0;
};

Result<Fd> reopen_directory(int fd, const char* which, int flags, const std::string& label) {
  Fd out(::openat(fd, which, flags | O_CLOEXEC));
  if (!out) {
    return system_error("open", label, errno);
  }
  return out;
}

}  // namespace

Result<Fd> open_absolute(const std::string& path, int flags) {
  if (path.empty() || path.front() != '/') {
    return make_error(Code::path_escape, "open", path, "an absolute path is needed here");
  }
  const Fd slash(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!slash) {
    return system_error("open", "/", errno);
  }
  if (path == "/") {
    return reopen_directory(slash.get(), ".", flags, path);
  }
  auto opened = open_beneath(slash.get(), path.substr(1), flags);
  if (opened.has_error()) {
    Error error = std::move(opened).error();
    error.object = path;
    return error;
  }
  if ((flags & O_PATH) != 0) {  // then a link at the end was opened itself
    HR_TRY(identity, identify(opened.value().get()));
    if (identity.type == FileType::symlink) {
      return wrong_type("open", path, identity.type);
    }
  }
  return opened;
}

Result<Fd> open_parent(int fd) {
  return reopen_directory(fd, "..", O_RDONLY | O_DIRECTORY, "..");
}

Result<Resolved> resolve_directory(const std::string& path) {
  return Walk(path).run();
}

Result<bool> lies_within(int fd, const Identity& ancestor) {
  Fd at(::openat(fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!at) {
    return system_error("open", "descriptor " + std::to_string(fd), errno);
  }
  HR_TRY(here, identify(at.get()));
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    if (here.same_file(ancestor)) {
      return true;
    }
    Fd up(::openat(at.get(), "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!up) {
      return system_error("open", "..", errno);
    }
    HR_TRY(above, identify(up.get()));
    if (above.same_file(here)) {
      return false;  // "/" is its own parent
    }
    at = std::move(up);
    here = above;
  }
  return make_error(Code::walk_limit, "walk", "..",
                    "more than " + std::to_string(kMaxDepth) + " directories");
}

}  // namespace hitchrail::pathfs
