#pragma once
// Starts hitchrail-shim: the spawn document (wire.hpp), the descriptor layout, a clean child (signal mask and
// dispositions reset, cwd /, no descriptor of the caller, /dev/null on 0-2, empty environment, umask 077) and
// its StartReport. The shim leaves the caller's session by itself; it is not tied to the caller's life.
// Errors: start-failed with the shim's or init's own step and words; shim-timeout.

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/ids.hpp"
#include "core/result.hpp"
#include "shim/wire.hpp"

namespace hitchrail::attempt {

// A list of parts as it lies in the spawn document and in an outbox: literal bytes or a named secret.
class PartList {
 public:
  void add_bytes(std::string_view bytes);
  void add_secret(std::string_view name, std::uint32_t encoding);
  [[nodiscard]] const std::string& bytes() const { return bytes_; }
  [[nodiscard]] bool empty() const { return bytes_.empty(); }

 private:
  std::string bytes_;
};

class SpawnDocument {
 public:
  void attempt_id(std::string_view id);
  void initial_outbox(const PartList& parts);
  void stop_step(std::uint32_t kind, std::int32_t signal, std::uint32_t wait_ms, const PartList& parts);
  void stream(std::uint32_t stream);
  void file_stream(std::uint32_t stream, std::uint32_t max_bytes, std::string_view pattern);
  void snapshot(std::string_view bytes);
  void limits(const wire::Limits& limits);
  void flags(std::uint32_t flags);
  [[nodiscard]] std::string bytes() const;  // header + fields

 private:
  void field(std::uint16_t tag, std::string_view bytes);
  std::string fields_;
  std::uint32_t count_ = 0;
};

// SecretRecord list for the secrets memfd. The memfd is readable by the caller's uid as long as it is open:
// close it early.
struct Secret {
  std::string name;
  std::string value;
};
std::string encode_secrets(const std::vector<Secret>& secrets);

// Descriptors are borrowed; -1 = not given.
struct SpawnRequest {
  int shim_program = -1;
  std::string document;  // SpawnDocument::bytes()
  int attempt = -1;
  int init_program = -1;
  int init_plan = -1;
  int runner_program = -1;
  int adapter = -1;
  int runner_config = -1;
  int finish_program = -1;
  int secrets = -1;
  int home = -1;
  int gate_program = -1;
  int gate_policy = -1;
  std::chrono::milliseconds limit{20000};
};
struct Spawned {
  ProcessIdentity shim;
  wire::StartReport report;
};
Result<Spawned> spawn_shim(const SpawnRequest& request);

}  // namespace hitchrail::attempt
