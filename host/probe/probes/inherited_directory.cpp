// A file is opened below a directory that the launcher held open.
#include "probe/attack.hpp"

HR_PROBE(inherited_directory) {
  return result(openat(number("HR_DIRECTORY_FD"), "secret", O_RDONLY));
}
