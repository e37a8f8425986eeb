// A read-only mount is made writable.
#include "probe/attack.hpp"

HR_PROBE(remount_writable) {
  return reached(mount(nullptr, place("HR_READABLE"), nullptr, MS_REMOUNT | MS_BIND, nullptr));
}
