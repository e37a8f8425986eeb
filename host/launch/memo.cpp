#include "launch/memo.hpp"

#include <fcntl.h>

#include "core/canonical.hpp"
#include "core/file.hpp"

namespace hitchrail::launch {

namespace {

constexpr std::size_t max_memo_bytes = 4u << 20;

std::string memo_name(const std::string& kind, const std::string& key) {
  return kind + "-" + sha256_hex(key).substr(0, 40) + ".json";
}

}  // namespace

std::optional<json::Value> recall(const store::StateHome& home, const std::string& kind,
                                  const std::string& key) {
  auto directory = home.directory("memo", store::Access::read);
  if (directory.has_error()) {
    return std::nullopt;
  }
  auto text = read_file_at(directory.value().get(), memo_name(kind, key), max_memo_bytes);
  if (text.has_error()) {
    return std::nullopt;
  }
  auto document = json::parse(text.value(), json::Duplicates::refuse, "memo");
  // The whole key is compared: a truncated hash never decides what ran. The digest shows a torn or edited
  // file.
  if (document.has_error() || document.value().get("key").as_string() != key ||
      verify_document(document.value()).has_error()) {
    return std::nullopt;
  }
  return document.value().get("value");
}

Status remember(const store::StateHome& home, const std::string& kind, const std::string& key,
                json::Value value) {
  HR_TRY(directory, home.directory("memo", store::Access::write));
  json::Value document = json::Value::object();
  document.set("schemaVersion", "hitchrail-memo/v1");
  document.set("key", key);
  document.set("value", std::move(value));
  HR_CHECK(seal_document(document));
  return write_file_atomic(directory.get(), memo_name(kind, key), json::write(document), 0600);
}

}  // namespace hitchrail::launch
