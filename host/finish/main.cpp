// hitchrail-finish: descriptor 3 is the attempt directory; no arguments. Exit code 0: the run's end is
// written and everything of it is released. Anything else: nothing is half-written, a later finisher goes on.
// Says why on stderr.

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "core/redact.hpp"
#include "core/text.hpp"
#include "finish/workspace_step.hpp"
#include "journal/secret_list.hpp"
#include "shim/wire.hpp"

int main() {
  using namespace hitchrail;
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
  options.workspace = finish::workspace_step;
  const Status done = finish::finish_attempt(3, options);
  if (done.has_error()) {
    const Error& error = done.error();
    const std::string line = error.code + ": " + error.operation + " " + error.object + ": " + error.detail;
    std::fprintf(stderr, "%s\n", escape_visible(line).c_str());
    return exit_code(error.kind);
  }
  return 0;
}
