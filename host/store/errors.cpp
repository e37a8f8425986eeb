#include <sqlite3.h>

#include "store/state.hpp"

namespace hitchrail::store {

Error store_error(ErrorClass kind, const char* code, std::string detail, std::string remedy) {
  return Error{kind, code, "use database", database_name, std::move(detail), std::move(remedy)};
}

Error sqlite_error(const SQLite::Exception& e) {
  switch (e.getErrorCode() & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return store_error(ErrorClass::environment, "store-busy", "another process holds the database",
                         "try again");
    case SQLITE_FULL:
      return store_error(ErrorClass::environment, "store-full", "the disk is full",
                         "free space and try again");
    case SQLITE_IOERR:  // also what it says when its shared memory cannot grow on a full disk
      return store_error(ErrorClass::environment, "store-io", e.what(), "look at free space and at the disk");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return store_error(ErrorClass::environment, "store-damaged", e.what(),
                         "move hitchrail.db away: plugins have to be enabled again, no run is lost");
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
      return store_error(ErrorClass::environment, "store-read-only", e.what(),
                         "make the state directory writable");
    default:
      return store_error(ErrorClass::environment, "store-failed", e.what());
  }
}

}  // namespace hitchrail::store
