// hitchrail-finish: descriptor 3 is the attempt directory. SIGTERM or SIGINT ends verification gates and
// skips those that have not begun; `--no-gates` says that somebody asked for that already. Exit code 0: the
// run's end is written and everything of it is released. Anything else: nothing is half-written, a later
// finisher goes on. Says why on stderr.

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string_view>

#include "core/redact.hpp"
#include "core/text.hpp"
#include "finish/gates.hpp"
#include "finish/workspace_step.hpp"
#include "journal/secret_list.hpp"
#include "shim/wire.hpp"

namespace {
void on_stop(int) {
  hitchrail::finish::stop_gates();
}
}  // namespace

int main(int argc, char** argv) {
  using namespace hitchrail;
  struct sigaction stop {};
  stop.sa_handler = on_stop;
  stop.sa_flags = SA_RESTART;
  for (const int number : {SIGTERM, SIGINT}) {
    ::sigaction(number, &stop, nullptr);
  }
  if (argc > 1 && std::string_view(argv[1]) == "--no-gates") {
    finish::stop_gates();
  }
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::prctl(PR_SET_DUMPABLE, 0);
  ::umask(077);
  ::signal(SIGPIPE, SIG_IGN);
  SecretRedactor redactor;
  struct stat pipe {};
  if (::fstat(wire::finish_secrets, &pipe) == 0 && S_ISFIFO(pipe.st_mode)) {
    // Closed before anything else is started; a list that cannot be read redacts what was read of it.
    (void)journal::read_secret_list(wire::finish_secrets, redactor);
    ::close(wire::finish_secrets);
  }
  finish::Options options;
  options.redactor = redactor.empty() ? nullptr : &redactor;
  options.gates = finish::run_gates;
  options.workspace = [&options](int dirfd, const json::Value& header, const auto& gates) {
    return finish::workspace_step(dirfd, header, gates, options.redactor);
  };
  const Status done = finish::finish_attempt(3, options);
  if (done.has_error()) {
    const Error& error = done.error();
    const std::string line = error.code + ": " + error.operation + " " + error.object + ": " + error.detail;
    std::fprintf(stderr, "%s\n", escape_visible(line).c_str());
    return exit_code(error.kind);
  }
  return 0;
}
