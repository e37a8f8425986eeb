// A finisher for the shim's tests: copies the exit slot as it found it to `finished-N`. When the file
// `finish-dies` holds a number it kills itself that many times first.

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <csignal>
#include <cstdio>

#include "shim/slot.hpp"

int main() {
  hitchrail::wire::ExitSlot slot{};
  const int exit_file = openat(3, "exit", O_RDONLY);
  if (exit_file < 0 || read(exit_file, &slot, sizeof slot) != sizeof slot) {
    return 4;
  }
  struct stat secrets {};
  if (fstat(hitchrail::wire::finish_secrets, &secrets) != 0 || !S_ISFIFO(secrets.st_mode)) {
    return 7;
  }
  for (int fd = hitchrail::wire::finish_secrets + 1; fd < 64; ++fd) {
    if (fd != exit_file && fcntl(fd, F_GETFD) >= 0) {
      return 5;  // only the attempt directory and the pipe with the secrets may be inherited
    }
  }
  int number = 0;
  char name[32];
  int out = -1;
  do {
    std::snprintf(name, sizeof name, "finished-%d", ++number);
    out = openat(3, name, O_WRONLY | O_CREAT | O_EXCL, 0600);
  } while (out < 0 && number < 9);
  if (write(out, &slot, sizeof slot) != sizeof slot) {
    return 6;
  }
  char times[8] = {};
  const int dies = openat(3, "finish-dies", O_RDONLY);
  if (dies >= 0 && read(dies, times, 7) > 0 && number <= times[0] - '0') {
    kill(getpid(), SIGKILL);
  }
  const int fails = openat(3, "finish-fails", O_RDONLY);
  if (fails >= 0 && read(fails, times, 7) > 0 && number <= times[0] - '0') {
    return 9;
  }
  return 0;
}
