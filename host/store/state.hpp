#pragma once
// What the files of this service share: the connection, and the one border where SQLite's exceptions end.
// Internal to store/.

#include <SQLiteCpp/SQLiteCpp.h>

#include <exception>
#include <memory>

#include "core/fd.hpp"
#include "store/store.hpp"

namespace hitchrail::store {

struct Store::State {
  Fd directory;
  std::unique_ptr<SQLite::Database> db;
};

inline constexpr const char* database_name = "hitchrail.db";

Error store_error(ErrorClass kind, const char* code, std::string detail, std::string remedy = "");
Error sqlite_error(const SQLite::Exception& e);

template <class F>
auto guarded(F&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const SQLite::Exception& e) {
    return sqlite_error(e);
  } catch (const std::exception& e) {
    return store_error(ErrorClass::internal, "store-failed", e.what());
  }
}

}  // namespace hitchrail::store
