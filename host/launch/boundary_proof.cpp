// The proof that a `required` preset relies on, and that the program it speaks of is the one that is
// executed.

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "launch/proofs.hpp"
#include "launch/stages.hpp"

namespace hitchrail::launch {

namespace {
constexpr std::int64_t proof_wait_ms = 60'000;
}

Fd proof_directory(const store::Cache& cache) {
  const char* named = std::getenv("HITCHRAIL_PROOF_CACHE");
  if (named != nullptr && *named != 0) {
    auto directory = store::StateHome::open_path(named, store::Access::read);
    if (directory.has_error() && directory.error().code == "state-directory-absent") {
      directory = store::StateHome::open_path(named, store::Access::write);
    }
    return directory.has_value() ? Fd(::fcntl(directory.value().fd(), F_DUPFD_CLOEXEC, 3)) : Fd();
  }
  return cache ? Fd(::fcntl(cache.fd(), F_DUPFD_CLOEXEC, 3)) : Fd();
}

Result<Proofs> prove_backends(const Ground& ground, const boundary::Preset& preset,
                              boundary::Backend backend) {
  if (preset.enforcement != boundary::Enforcement::required) {
    return Proofs{};
  }
  boundary::ProofRequest request;
  request.backend = backend;
  request.required = preset.required_capabilities;
  const Fd cache = proof_directory(ground.cache);
  request.cache_dirfd = cache.get();
  // Several processes that find no proof make one together: the others wait, then read what the first kept.
  std::optional<store::Flight> flight;
  const store::CacheKey key{"proof", "boundary", "boundary"};
  request.before_proving = [&] {
    if (!flight) {
      flight = ground.cache.join(key, proof_wait_ms);
    }
  };
  HR_TRY(proofs, boundary::proof(ground.machine(), request));
  for (const boundary::ProvenBackend& each : proofs) {
    boundary::remember_proof(cache.get(), each.cache_name, each.cache_document);
  }
  if (flight) {
    flight->land(json::Value(true));
  }
  return Proofs{std::move(proofs)};
}

Status check_proved_init(const BoundaryStage& boundary, int init_fd) {
  const auto proof = std::find_if(
      boundary.proven.begin(), boundary.proven.end(),
      [&](const boundary::ProvenBackend& each) { return each.backend == boundary.compiled.backend; });
  if (proof == boundary.proven.end()) {
    return {};  // an advisory preset
  }
  struct stat info {};
  if (::fstat(init_fd, &info) != 0) {
    return errno_error("stat", "hitchrail-init", errno);
  }
  const auto nanos = [](const timespec& time) {
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  };
  const boundary::FileIdentity now{info.st_dev, info.st_ino, static_cast<std::uint64_t>(info.st_size),
                                   nanos(info.st_mtim), nanos(info.st_ctim)};
  if (!(now == proof->init)) {
    return Error{ErrorClass::refused,
                 "proof-outdated",
                 "start boundary",
                 "hitchrail-init",
                 "The program that builds the boundary is another one than was proved.",
                 "Start again: the new one is proved first."};
  }
  return {};
}

}  // namespace hitchrail::launch
