// Stands in for hitchrail-shim: says in the file `seen` of the attempt directory what it inherited, then
// reports as the spawn document's attempt id tells it ("ok", "fail", "silent", "die").

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "shim/wire.hpp"

using namespace hitchrail::wire;

extern char** environ;

int main() {
  std::string seen = "fds:";
  DIR* dir = opendir("/proc/self/fd");
  std::string numbers[64];
  int count = 0;
  while (const dirent* entry = readdir(dir)) {
    if (entry->d_name[0] != '.' && std::atoi(entry->d_name) != dirfd(dir) && count < 64) {
      numbers[count++] = entry->d_name;
    }
  }
  closedir(dir);
  std::sort(numbers, numbers + count,
            [](const auto& a, const auto& b) { return std::stoi(a) < std::stoi(b); });
  for (int i = 0; i < count; ++i) {
    seen += " " + numbers[i];
  }
  char cwd[256] = {};
  seen += std::string("\ncwd: ") + (getcwd(cwd, sizeof cwd) != nullptr ? cwd : "?");
  seen += "\nenv:";
  for (char** e = environ; *e != nullptr; ++e) {
    seen += std::string(" ") + std::string(*e).substr(0, std::string(*e).find('='));
  }
  struct sigaction action {};
  sigaction(SIGCHLD, nullptr, &action);
  sigset_t mask;
  sigprocmask(SIG_SETMASK, nullptr, &mask);
  seen += std::string("\nsigchld: ") + (action.sa_handler == SIG_DFL ? "default" : "other");
  seen += std::string("\nblocked: ") + (sigismember(&mask, SIGTERM) == 1 ? "term" : "none");
  struct stat standard {};
  fstat(0, &standard);
  seen += std::string("\nstdin: ") + (S_ISCHR(standard.st_mode) ? "device" : "other") + "\n";
  char document[4096];
  const ssize_t size = pread(shim_spawn, document, sizeof document, 0);
  const std::string text(document, size > 0 ? static_cast<std::size_t>(size) : 0);
  const int out = openat(shim_attempt, "seen", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  (void)!write(out, seen.data(), seen.size());
  if (text.find("die") != std::string::npos) {
    return 3;
  }
  if (text.find("silent") != std::string::npos) {
    pause();
  }
  StartReport report{};
  report.outcome = text.find("fail") != std::string::npos ? start_failed : start_ok;
  report.error_number = report.outcome == start_failed ? 2 : 0;
  report.shim_pid = getpid();
  std::strcpy(report.step, report.outcome == start_failed ? "mount-proc" : "");
  std::strcpy(report.detail, report.outcome == start_failed ? "cannot" : "");
  (void)!write(shim_report, &report, sizeof report);
  close(shim_report);
  return 0;
}
