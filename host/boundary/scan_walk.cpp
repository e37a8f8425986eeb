#include "boundary/scan_walk.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <ctime>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "boundary/internal.hpp"
#include "pathfs/pathfs.hpp"

namespace hitchrail::boundary {
namespace {

constexpr std::size_t max_path = 64u << 10;        // of one directory below its root
constexpr std::size_t max_path_bytes = 64u << 20;  // of all that wait
constexpr std::size_t share_from = 32;             // directories waiting before another thread is worth it
constexpr std::int64_t racy_ns = 30'000'000;       // ctime steps by a clock tick: up to 10 ms

std::int64_t start_of_doubt() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec - racy_ns;
}

}  // namespace

bool look(int directory, const char* name, Stat& out) {
  pathfs::raw::Stat found;
  if (!pathfs::raw::look(directory, name, found)) {
    return false;
  }
  out = {{found.device, found.inode}, found.mode, found.links, found.uid, found.gid, found.changed_ns};
  return true;
}

bool look_at(const std::string& path, Stat& out) {
  const std::size_t slash = path.rfind('/');
  const auto folder = pathfs::open_absolute(slash == 0 ? "/" : path.substr(0, slash), O_PATH | O_DIRECTORY);
  if (folder.has_error()) {
    errno = pathfs::is(folder.error(), pathfs::Code::symlink_rejected) ? ELOOP : ENOENT;
    return false;
  }
  return look(folder.value().get(), path.c_str() + slash + 1, out);
}

Root as_root(const std::string& path, const Stat& stat) {
  return Root{path, stat.identity, S_ISDIR(stat.mode), stat.uid, stat.gid};
}

Fd open_below(int root, const std::string& path, int flags) {
  return pathfs::raw::open_below(root, path, flags);
}

Result<Fd> open_walk_root(const Root& root) {
  auto opened = pathfs::open_absolute(root.path, O_RDONLY | (root.directory ? O_DIRECTORY : O_PATH));
  Stat found;
  if (opened.has_error() || !look(opened.value().get(), "", found) || found.identity != root.identity) {
    return Error{ErrorClass::refused,
                 "root-changed",
                 "scan roots",
                 root.path,
                 "Another directory, or nothing that can be read, is at this path now.",
                 "Start again."};
  }
  return std::move(opened).value();
}

bool is_protected_name(const char* name) {
  return name[0] == '.' && std::any_of(protected_names().begin(), protected_names().end(),
                                       [&](const char* each) { return std::strcmp(each, name) == 0; });
}

unsigned git_part(const char* name) {
  constexpr std::pair<const char*, unsigned> parts[] = {{"HEAD", git_head},
                                                        {"objects", git_objects},
                                                        {"refs", git_refs},
                                                        {"commondir", git_common},
                                                        {".git", git_own}};
  for (const auto& [part, bit] : parts) {
    if (name[0] == part[0] && std::strcmp(name, part) == 0) {
      return bit;
    }
  }
  return 0;
}

bool is_masked_name(const char* name, unsigned char type) {
  if (name[0] != '.') {
    return false;
  }
  const bool git_reads_it = std::strcmp(name, ".gitignore") == 0 ||
                            std::strcmp(name, ".gitattributes") == 0 || std::strcmp(name, ".gitmodules") == 0;
  return !(git_reads_it && type == DT_REG);
}

std::string joined_path(const std::string& directory, const char* name) {
  std::string out;
  out.reserve(directory.size() + 1 + std::strlen(name));
  out += directory;
  if (!directory.empty() && directory.back() != '/') {
    out += '/';
  }
  return out += name;
}

namespace {

struct Job {
  std::uint32_t root = 0;
  std::string path;
  bool held = false;  // lies in a repository that is held: walked for what is to be masked
};

class Walker {
 public:
  explicit Walker(const WalkPlan& plan) : plan_(plan), doubt_ns_(start_of_doubt()) {
    for (const std::string& path : plan.stop) {
      stop_parents_.insert(path.substr(0, std::max<std::size_t>(path.rfind('/'), 1)));
    }
  }

  Result<Walked> run() {
    for (std::uint32_t i = 0; i < plan_.roots.size(); ++i) {
      HR_TRY(opened, open_walk_root(plan_.roots[i].root));
      roots_.push_back(std::move(opened));
      if (plan_.roots[i].root.directory) {
        jobs_.push_back({i, "", false});
      }
    }
    Walked out;
    work(out);
    for (std::thread& helper : helpers_) {
      helper.join();
    }
    for (Walked& part : parts_) {
      merge(out, part);
    }
    if (error_ != 0) {
      return errno_error("scan roots", error_path_, error_);
    }
    out.entries = entries_;
    out.over = over_;
    const auto by_path = [](const Root& a, const Root& b) { return a.path < b.path; };
    for (auto* list : {&out.sockets, &out.dotfiles, &out.nested_git, &out.odd_git}) {
      std::sort(list->begin(), list->end(), by_path);
    }
    std::sort(out.unreadable.begin(), out.unreadable.end());
    std::sort(out.set_id.begin(), out.set_id.end());
    return out;
  }

 private:
  // ---- sharing the work
  void work(Walked& out) {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return !jobs_.empty() || busy_ == 0 || stopped_; });
      if (stopped_ || jobs_.empty()) {
        changed_.notify_all();
        return;
      }
      const Job job = std::move(jobs_.back());
      jobs_.pop_back();
      waiting_bytes_ -= job.path.size();
      ++busy_;
      lock.unlock();
      std::vector<Job> below;
      const bool go_on = visit(job, out, below);
      lock.lock();
      --busy_;
      stopped_ = stopped_ || !go_on;
      for (Job& each : below) {
        waiting_bytes_ += each.path.size();
        jobs_.push_back(std::move(each));
      }
      over_ = over_ || waiting_bytes_ > max_path_bytes;
      stopped_ = stopped_ || over_;
      share();
      if (busy_ == 0 || jobs_.size() > 1 || stopped_) {
        changed_.notify_all();
      }
    }
  }

  void share() {
    if (jobs_.size() < share_from || helpers_.size() + 1 >= plan_.threads || stopped_ || no_more_) {
      return;
    }
    if (parts_.capacity() == 0) {
      parts_.reserve(plan_.threads);  // references to its elements stay
    }
    Walked& part = parts_.emplace_back();
    try {
      helpers_.emplace_back([this, &part] { work(part); });
    } catch (const std::system_error&) {
      no_more_ = true;  // no thread to be had: those that are there do it all
    }
  }

  static void merge(Walked& out, Walked& part) {
    const auto append = [](auto& to, auto& from) {
      to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
    };
    append(out.directories, part.directories);
    append(out.sockets, part.sockets);
    append(out.dotfiles, part.dotfiles);
    append(out.nested_git, part.nested_git);
    append(out.odd_git, part.odd_git);
    append(out.bare_roots, part.bare_roots);
    append(out.unreadable, part.unreadable);
    append(out.set_id, part.set_id);
    for (auto& [inode, linked] : part.linked) {
      Linked& sum = out.linked[inode];
      sum.links = std::max(sum.links, linked.links);
      sum.seen += linked.seen;
      sum.first = sum.first.empty() ? std::move(linked.first) : std::min(sum.first, linked.first);
    }
  }

  bool fail(int error, const std::string& path) {
    const std::lock_guard<std::mutex> lock(mutex_);
    error_ = error_ == 0 ? error : error_;
    error_path_ = error_path_.empty() ? path : error_path_;
    return false;
  }

  // ---- one directory
  [[nodiscard]] std::string absolute(const Job& job) const {
    const std::string& root = plan_.roots[job.root].root.path;
    return job.path.empty() ? root : joined_path(root, job.path.c_str());
  }

  bool visit(const Job& job, Walked& out, std::vector<Job>& below) {
    const int root = roots_[job.root].get();
    const Fd directory = open_below(root, job.path, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
    if (!directory) {
      switch (errno) {
        case ENOENT:
        case ENOTDIR:
        case ELOOP:
          return true;  // gone since its parent was listed, and the second look sees that one changed
        case EACCES:
        case EPERM:
          closed(job, out);
          return true;
        default:
          return fail(errno, absolute(job));
      }
    }
    Stat own;
    if (!look(directory.get(), "", own)) {
      return fail(errno, absolute(job));
    }
    SeenDirectory seen;
    seen.root = job.root;
    seen.identity = own.identity;
    seen.ctime_ns = own.ctime_ns >= doubt_ns_ ? 0 : own.ctime_ns;
    Visit visit{*this, job, plan_.roots[job.root], directory.get(), seen, out, below, "", false};
    const Mark mark{out.sockets.size(), out.nested_git.size(), out.odd_git.size()};
    if (!plan_.stop.empty()) {
      const std::string path = absolute(job);
      visit.may_stop = stop_parents_.count(path) != 0;
    }
    const int error = list_names(
        directory.get(), [&](const char* name, unsigned char type) { return visit.entry(name, type); });
    if (error != 0) {
      return fail(error, absolute(job));
    }
    if (visit.closed) {
      closed(job, out);
    }
    if (is_repository(visit.parts) && visit.root.writable && !job.held) {
      take_repository(job, own, mark, visit);
    }
    seen.path = job.path;
    out.directories.push_back(std::move(seen));
    return !visit.ended;
  }

  struct Visit;
  struct Mark {
    std::size_t sockets, nested_git, odd_git;
  };

  // Like a nested `.git`: held as a whole and not looked into, but for what is to be masked.
  void take_repository(const Job& job, const Stat& own, const Mark& mark, Visit& visit) const {
    Walked& out = visit.out;
    if (job.path.empty()) {
      if ((visit.parts & git_own) == 0) {  // git looks for `.git` first
        out.bare_roots.push_back(absolute(job));
      }
      return;
    }
    for (const SeenFile& file : visit.seen.files) {
      const auto linked = out.linked.find({own.identity.dev, file.ino});
      if (file.links > 1 && linked != out.linked.end() && --linked->second.seen == 0) {
        out.linked.erase(linked);
      }
    }
    visit.seen.files.clear();
    out.sockets.resize(mark.sockets);
    out.nested_git.resize(mark.nested_git);
    out.odd_git.resize(mark.odd_git);
    out.nested_git.push_back(as_root(absolute(job), own));
    for (Job& each : visit.below) {
      each.held = true;
    }
    if (!plan_.masking) {
      visit.below.clear();
      visit.seen.others.clear();
    }
  }

  // Not ours to read. Harmless when the run, which has at most our rights, can neither enter it nor open it
  // up.
  void closed(const Job& job, Walked& out) const {
    const Fd directory = open_below(roots_[job.root].get(), job.path, O_PATH | O_DIRECTORY);
    Stat own;
    if (directory && look(directory.get(), "", own) && own.uid != ::geteuid() && ::geteuid() != 0) {
      const Fd entered = open_below(directory.get(), "", O_PATH);
      if (!entered && errno == EACCES) {
        return;
      }
    }
    out.unreadable.push_back(absolute(job));
  }

  struct Visit {
    Walker& walker;
    const Job& job;
    const WalkRoot& root;
    int directory;
    SeenDirectory& seen;
    Walked& out;
    std::vector<Job>& below;
    std::string path_;
    bool may_stop;
    bool closed = false;
    bool ended = false;
    unsigned parts = 0;  // GitPart

    const std::string& path() {
      if (path_.empty()) {
        path_ = walker.absolute(job);
      }
      return path_;
    }
    std::uint32_t remember(const char* name) {
      const auto at = static_cast<std::uint32_t>(seen.names.size());
      seen.names.append(name, std::strlen(name) + 1);
      return at;
    }
    bool stat(const char* name, Stat& info) {
      if (look(directory, name, info)) {
        return true;
      }
      closed = closed || errno == EACCES || errno == EPERM;
      return false;  // or gone since: the directory has changed
    }

    bool entry(const char* name, unsigned char type) {
      if (walker.entries_.fetch_add(1, std::memory_order_relaxed) >= walker.plan_.max_entries) {
        walker.over_ = true;
        ended = true;
        return false;
      }
      parts |= git_part(name);
      const bool top = job.path.empty();
      if ((top && root.protects && is_protected_name(name)) ||
          (may_stop && walker.plan_.stop.count(joined_path(path(), name)) != 0)) {
        return true;
      }
      Stat info;
      if (type == DT_UNKNOWN) {
        if (!stat(name, info)) {
          return true;
        }
        type = static_cast<unsigned char>((info.mode & S_IFMT) >> 12);
      }
      if (name[0] == '.' && dot(name, type)) {
        return true;
      }
      if (type == DT_DIR) {
        seen.others.push_back(remember(name));
        below.push_back({job.root, joined_path(job.path, name), job.held});
        if (below.back().path.size() > max_path) {
          walker.over_ = true;
          ended = true;
          return false;
        }
      } else if (type != DT_LNK && root.writable && !job.held) {
        file(name, info);
      }
      return true;
    }

    void file(const char* name, Stat& info) {
      if (info.links == 0 && !stat(name, info)) {
        return;
      }
      seen.files.push_back({remember(name), info.links, info.identity.ino, info.ctime_ns});
      if (info.links > 1) {
        Linked& linked = out.linked[{info.identity.dev, info.identity.ino}];
        linked.links = std::max<std::uint64_t>(linked.links, info.links);
        ++linked.seen;
        std::string at = joined_path(path(), name);
        linked.first = linked.first.empty() ? std::move(at) : std::min(linked.first, at);
      }
      if (S_ISREG(info.mode) && (info.mode & (S_ISUID | S_ISGID)) != 0) {
        out.set_id.push_back(joined_path(path(), name));
      }
      if (S_ISSOCK(info.mode)) {
        out.sockets.push_back(as_root(joined_path(path(), name), info));
      }
    }

    // Nested git directories and what is masked are not looked into. False: an entry like any other.
    bool dot(const char* name, unsigned char type) {
      const bool git = root.writable && !job.held && std::strcmp(name, ".git") == 0;
      if (!git && !(walker.plan_.masking && is_masked_name(name, type))) {
        return false;
      }
      seen.others.push_back(remember(name));
      Stat info;
      if (!stat(name, info)) {
        return true;
      }
      const bool plain = S_ISDIR(info.mode) || S_ISREG(info.mode);
      auto& list = !git ? out.dotfiles : plain ? out.nested_git : out.odd_git;
      list.push_back(as_root(joined_path(path(), name), info));
      return true;
    }
  };

  const WalkPlan& plan_;
  const std::int64_t doubt_ns_;
  std::unordered_set<std::string> stop_parents_;
  std::vector<Fd> roots_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Job> jobs_;
  std::size_t waiting_bytes_ = 0;
  std::size_t busy_ = 0;
  bool stopped_ = false;
  bool no_more_ = false;
  std::atomic<std::size_t> entries_{0};
  std::atomic<bool> over_{false};
  std::vector<std::thread> helpers_;
  std::vector<Walked> parts_;
  int error_ = 0;
  std::string error_path_;
};

}  // namespace

Result<Walked> walk(const WalkPlan& plan) {
  return Walker(plan).run();
}

}  // namespace hitchrail::boundary
