#include <cstdio>

#include "cli/options.hpp"
#include "cli/print.hpp"
#include "core/ids.hpp"
#include "store/cache.hpp"

namespace hitchrail::cli {

namespace {

json::Value shown(const std::string& path) {
  json::Value value = json::Value::object();
  value.set("path", path);
  return value;
}

Result<json::Value> show() {
  HR_TRY(path, store::Cache::path());
  json::Value value = shown(path);
  json::Value list = json::Value::array();
  std::uint64_t bytes = 0;
  auto cache = store::Cache::open_existing();
  if (cache.has_error() && cache.error().code != "cache-absent") {
    return std::move(cache).error();
  }
  if (cache.has_value()) {
    HR_TRY(entries, cache.value().entries());
    for (const auto& entry : entries) {
      json::Value one = json::Value::object();
      one.set("name", entry.name);
      one.set("kind", entry.kind);
      one.set("state", entry.state);
      one.set("bytes", entry.bytes);
      one.set("modifiedAt", iso8601(entry.modified_unix_ms));
      bytes += entry.bytes;
      list.push(std::move(one));
    }
    value.set("generation", std::to_string(cache.value().generation()));
  }
  value.set("entries", std::move(list));
  value.set("bytes", bytes);
  return value;
}

Result<json::Value> clear() {
  HR_TRY(path, store::Cache::path());
  json::Value value = shown(path);
  store::Cache::Cleared cleared;
  auto cache = store::Cache::open_existing();
  if (cache.has_error() && cache.error().code != "cache-absent") {
    return std::move(cache).error();
  }
  if (cache.has_value()) {
    HR_TRY(done, cache.value().clear());
    cleared = done;
  }
  value.set("removed", static_cast<std::uint64_t>(cleared.entries));
  value.set("bytes", cleared.bytes);
  return value;
}

}  // namespace

int cache_show(const Common& options) {
  auto found = show();
  if (found.has_error()) {
    return report(found.error(), options.json);
  }
  const json::Value& value = found.value();
  if (options.json) {
    out_json(value);
  } else {
    line("cache " + value.get("path").as_string() + ": " +
         std::to_string(value.get("entries").items().size()) + " entries, " +
         std::to_string(value.get("bytes").as_int().value_or(0)) + " bytes");
    for (const json::Value& entry : value.get("entries").items()) {
      line("  " + entry.get("state").as_string() + "  " + entry.get("kind").as_string() + "  " +
           std::to_string(entry.get("bytes").as_int().value_or(0)) + " bytes  " +
           entry.get("modifiedAt").as_string() + "  " + entry.get("name").as_string());
    }
  }
  std::fflush(stdout);
  return 0;
}

int cache_clear(const Common& options) {
  auto done = clear();
  if (done.has_error()) {
    return report(done.error(), options.json);
  }
  const json::Value& value = done.value();
  if (options.json) {
    out_json(value);
  } else {
    line("removed " + std::to_string(value.get("removed").as_int().value_or(0)) + " entries, " +
         std::to_string(value.get("bytes").as_int().value_or(0)) + " bytes from " +
         value.get("path").as_string());
  }
  std::fflush(stdout);
  return 0;
}

}  // namespace hitchrail::cli
