#include "cli/follow.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <optional>

#include "attempt/control.hpp"
#include "cli/event_text.hpp"
#include "cli/print.hpp"
#include "core/ids.hpp"
#include "journal/reader.hpp"

namespace hitchrail::cli {

namespace {

volatile std::sig_atomic_t interrupts = 0;
void count_interrupt(int) {
  interrupts = interrupts + 1;
}

void install(int flags) {
  struct sigaction action {};
  action.sa_handler = count_interrupt;
  action.sa_flags = flags;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, nullptr);
}

// Counting during an interactive follow. No SA_RESTART: the wait for the journal must end at once.
class InterruptCounter {
 public:
  InterruptCounter() { install(0); }
  InterruptCounter(const InterruptCounter&) = delete;
  InterruptCounter& operator=(const InterruptCounter&) = delete;
  ~InterruptCounter() { ::signal(SIGINT, SIG_DFL); }
};

class LiveLine {
 public:
  explicit LiveLine(bool on) : on_(on) {}
  void show(const Progress& progress) {
    if (!on_) {
      return;
    }
    winsize size{};
    const std::size_t columns =
        ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col - 1u : 79u;
    const std::string text = "\r\x1b[K" + progress_line(progress, unix_millis_now(), columns);
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
    shown_ = true;
  }
  void clear() {
    if (shown_) {
      std::fputs("\r\x1b[K", stderr);
      std::fflush(stderr);
      shown_ = false;
    }
  }

 private:
  bool on_;
  bool shown_ = false;
};

class Follower {
 public:
  Follower(const attempt::Directory& directory, const FollowOptions& options)
      : directory_(directory), options_(options), live_(options.interactive && is_terminal(stderr)) {
    progress_.started_unix_ms = unix_millis_now();
  }

  Status run() {
    HR_TRY(reader, journal::Reader::open(directory_.fd()));
    for (;;) {
      HR_TRY(next, reader.next());
      if (next) {
        HR_CHECK(event(*next));
        if (progress_.terminal) {
          live_.clear();
          return {};
        }
        continue;
      }
      if (!options_.follow) {
        return {};
      }
      std::fflush(stdout);
      live_.show(progress_);
      HR_CHECK(idle(reader));
    }
  }

 private:
  Status event(const journal::Line& line) {
    HR_TRY(value, json::parse(line.text, json::Duplicates::refuse, "journal line"));
    if (line.sequence == 0) {
      return {};
    }
    advance(progress_, value);
    if (line.sequence <= options_.after) {
      return {};
    }
    if (options_.json) {
      out(line.text);
      out("\n");
    } else if (options_.interactive) {
      live_.clear();
      talk(event_line(value));
    } else {
      cli::line(event_line(value));
    }
    return {};
  }

  Status idle(journal::Reader& reader) {
    HR_CHECK(interrupted());
    const auto grew = reader.wait(std::chrono::milliseconds(500));
    if (grew.has_error()) {
      return grew.error();
    }
    if (grew.value()) {
      quiet_ = 0;
      return interrupted();
    }
    // Half a second of silence costs one look at who is still alive.
    if (++quiet_ % 2 == 0) {
      HR_TRY(status, attempt::status(directory_));
      if (status.state == attempt::State::needs_recovery) {
        live_.clear();
        return Error{ErrorClass::failed,
                     "run-needs-recovery",
                     "follow",
                     directory_.id(),
                     "nothing lives that could end this run (" + status.code + ")",
                     "hitchrail runs recover " + directory_.id()};
      }
    }
    return interrupted();
  }

  Status interrupted() {
    if (!options_.interactive || interrupts <= handled_) {
      return {};
    }
    handled_ = interrupts;
    auto control = attempt::Control::connect(directory_, attempt::ControlSocket::supervisor);
    live_.clear();
    if (control.has_error()) {
      talk("the run is ending already");
      return {};
    }
    if (handled_ == 1) {
      talk("stopping (once more ends it at once)");
      return as_status(control.value().stop());
    }
    talk("ending it at once");
    return as_status(control.value().kill());
  }

  // A stop that comes too late is no failure of the watcher.
  static Status as_status(const Result<wire::StatusPayload>& reply) {
    if (reply.has_error()) {
      talk("stop: " + reply.error().detail);
    }
    return {};
  }

  const attempt::Directory& directory_;
  FollowOptions options_;
  LiveLine live_;
  Progress progress_;
  int handled_ = 0;
  unsigned quiet_ = 0;
};

}  // namespace

Result<attempt::AttemptStatus> wait_finished(const attempt::Directory& directory, std::int64_t limit_ms) {
  const std::int64_t end_ns = monotonic_nanos() + limit_ms * 1'000'000;
  for (;;) {
    HR_TRY(status, attempt::status(directory));
    const bool over = status.terminal() && status.shim_pid == 0;
    if (over || status.state == attempt::State::needs_recovery || monotonic_nanos() > end_ns) {
      return status;
    }
    ::usleep(2'000);
  }
}

void hold_interrupts() {
  install(SA_RESTART);
}

Status follow(const attempt::Directory& directory, const FollowOptions& options) {
  std::optional<InterruptCounter> counter;
  if (options.interactive) {
    counter.emplace();
  }
  return Follower(directory, options).run();
}

}  // namespace hitchrail::cli
