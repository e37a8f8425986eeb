#include "launch/exec_directory.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "boundary/boundary.hpp"
#include "core/file.hpp"
#include "core/ids.hpp"
#include "launch/exec.hpp"
#include "store/store.hpp"

namespace hitchrail::launch {
namespace {

constexpr const char* folder = "exec";
constexpr const char* making = ".new-";

// What a command left in its directory and in the worktree, in an order that a killed cleaner can begin
// again: the lock file goes last, and what has none is nobody's.
Status clean_up(int state, int parent, int directory, const std::string& id, bool keep_git) {
  bool away = false;
  const Status left = boundary::remove_placeholders(directory, nullptr, &away);
  if (left.has_error() && !away) {
    return left;
  }
  for (const char* name : {"home", "temp"}) {
    HR_CHECK(remove_tree_at(directory, name));
  }
  // Only now: the command may have filled the disk, and the database needs some of it.
  if (auto database = store::Store::open(state, store::Access::write); database.has_value()) {
    HR_CHECK(database.value().release_worktree(id));
  }
  HR_CHECK(left);  // the record stays, and with the lock file it is tried again
  if (keep_git) {
    (void)::unlinkat(directory, "lock", 0);
    return {};
  }
  return remove_tree_at(parent, id);
}

constexpr char init_lives = 'i';
constexpr char all_done = 'd';

// One message of the caller, and init's pidfd when it comes with one; 0 at the end of file.
char heard(int caller, Fd& init) {
  char word = 0;
  iovec part{&word, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t got = 0;
  do {
    got = ::recvmsg(caller, &header, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (const cmsghdr* rights = got > 0 ? CMSG_FIRSTHDR(&header) : nullptr; rights != nullptr) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(rights), sizeof fd);
    init.reset(fd);
  }
  return got > 0 ? word : '\0';
}

// Init dies with the caller, and everything inside with init. One that nobody told of was just being started.
constexpr unsigned unknown_init_ms = 300;

[[noreturn]] void be_janitor(int state, int parent, int directory, int caller, const std::string& id) {
  ::setsid();
  const int null = ::open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; ++fd) {
    ::dup2(null, fd);
  }
  Fd init;
  char word = init_lives;
  while (word == init_lives) {
    word = heard(caller, init);
  }
  if (word != all_done) {
    pollfd end{init.get(), POLLIN, 0};
    while (::poll(&end, 1, init ? -1 : static_cast<int>(unknown_init_ms)) < 0 && errno == EINTR) {
    }
    (void)clean_up(state, parent, directory, id, false);
  }
  ::_exit(0);
}

}  // namespace

ExecDirectory::ExecDirectory(ExecDirectory&& other) noexcept
    : state_(std::move(other.state_)),
      parent_(std::move(other.parent_)),
      fd_(std::move(other.fd_)),
      lock_(std::move(other.lock_)),
      janitor_(std::move(other.janitor_)),
      id_(std::move(other.id_)),
      path_(std::move(other.path_)),
      janitor_pid_(std::exchange(other.janitor_pid_, -1)),
      keep_git_(other.keep_git_),
      cleaned_(std::exchange(other.cleaned_, true)) {}

ExecDirectory::~ExecDirectory() {
  (void)clean();
}

Result<ExecDirectory> ExecDirectory::make(const store::StateHome& home) {
  ExecDirectory made;
  made.cleaned_ = true;  // until there is something
  HR_TRY(parent, home.directory(folder, store::Access::write));
  made.parent_ = std::move(parent);
  made.state_.reset(::fcntl(home.fd(), F_DUPFD_CLOEXEC, 3));
  made.id_ = random_id(exec_prefix, 18);
  made.path_ = home.path() + "/" + folder + "/" + made.id_;
  const std::string aside =
      making + made.id_;  // until it is locked: what bears its own name is locked or left over
  if (::mkdirat(made.parent_.get(), aside.c_str(), 0700) != 0) {
    return errno_error("make run directories", made.path_, errno);
  }
  HR_TRY(directory, open_at(made.parent_.get(), aside, O_RDONLY | O_DIRECTORY));
  made.fd_ = std::move(directory);
  HR_TRY(lock, open_at(made.fd_.get(), "lock", O_RDWR | O_CREAT | O_EXCL, 0600));
  made.lock_ = std::move(lock);
  if (::flock(made.lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    return errno_error("lock run directories", made.path_, errno);
  }
  if (::renameat(made.parent_.get(), aside.c_str(), made.parent_.get(), made.id_.c_str()) != 0) {
    return errno_error("make run directories", made.path_, errno);
  }
  made.cleaned_ = false;
  for (const char* name : {"home", "temp", "git"}) {
    if (::mkdirat(made.fd_.get(), name, 0700) != 0) {
      return errno_error("make run directories", made.path_, errno);
    }
  }
  HR_CHECK(made.start_janitor());
  return made;
}

Status ExecDirectory::start_janitor() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return errno_error("start janitor", path_, errno);
  }
  Fd theirs(ends[0]);
  janitor_.reset(ends[1]);
  janitor_pid_ = ::fork();
  if (janitor_pid_ < 0) {
    return errno_error("start janitor", path_, errno);
  }
  if (janitor_pid_ == 0) {
    janitor_.reset();
    be_janitor(state_.get(), parent_.get(), fd_.get(), theirs.get(), id_);
  }
  return {};
}

Status ExecDirectory::tell_init(int init) {
  char word = init_lives;
  iovec part{&word, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  cmsghdr* rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(rights), &init, sizeof init);
  if (::sendmsg(janitor_.get(), &header, MSG_NOSIGNAL) < 0) {
    return errno_error("tell the janitor", path_, errno);
  }
  return {};
}

Status ExecDirectory::clean() {
  if (cleaned_) {
    return {};
  }
  cleaned_ = true;
  const Status cleaned = clean_up(state_.get(), parent_.get(), fd_.get(), id_, keep_git_);
  if (janitor_pid_ > 0) {
    // Told only now: a caller killed in the middle of its cleaning is finished by the janitor.
    if (cleaned.has_value()) {
      (void)!::send(janitor_.get(), &all_done, 1, MSG_NOSIGNAL);
    }
    janitor_.reset();
    while (::waitpid(janitor_pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    janitor_pid_ = -1;
  }
  return cleaned;
}

Result<bool> sweep_directory(const store::StateHome& home, const std::string& id) {
  auto parent = home.directory(folder, store::Access::read);
  if (parent.has_error()) {
    return parent.error().kind == ErrorClass::internal ? Result<bool>(parent.error()) : Result<bool>(true);
  }
  auto directory = open_at(parent.value().get(), id, O_RDONLY | O_DIRECTORY);
  if (directory.has_error()) {
    return true;
  }
  auto lock = open_at(directory.value().get(), "lock", O_RDWR);
  if (lock.has_error()) {
    return true;  // kept work alone
  }
  if (::flock(lock.value().get(), LOCK_EX | LOCK_NB) != 0) {
    return false;
  }
  HR_CHECK(clean_up(home.fd(), parent.value().get(), directory.value().get(), id, false));
  return true;
}

Result<int> sweep_commands(const store::StateHome& home) {
  auto parent = home.directory(folder, store::Access::read);
  if (parent.has_error()) {
    return 0;
  }
  HR_TRY(names, list_directory(parent.value().get()));
  int swept = 0;
  for (const std::string& name : names) {
    struct stat status {};
    if (name.rfind(making, 0) == 0 &&
        ::fstatat(parent.value().get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        status.st_mtim.tv_sec + 60 < unix_millis_now() / 1000) {
      HR_CHECK(remove_tree_at(parent.value().get(), name));  // its maker died before it was anything
    }
    if (name.rfind(exec_prefix, 0) == 0) {
      auto gone = sweep_directory(home, name);
      swept += gone.has_value() && gone.value() ? 1 : 0;
    }
  }
  return swept;
}

Result<bool> command_holds(const store::StateHome& home, const std::string& id) {
  HR_TRY(gone, sweep_directory(home, id));
  return !gone;
}

}  // namespace hitchrail::launch
