// Linked into sanitizer builds of the runner only. A confined process cannot start the leak checker's tracer,
// and the shim and the checker count crashes by their real signals, so the sanitizers leave signals alone.
// What they find still ends it.

// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options() {
  return "detect_leaks=0:handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:handle_abort=0";
}
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_options() {
  return "handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:handle_abort=0";
}
// NOLINTEND(bugprone-reserved-identifier)
