#include "finish_fixture.hpp"

using namespace hitchrail;
using namespace hitchrail::test;

namespace {

struct OnDisk {
  std::string mount_point;
  Fd state;
  std::optional<attempt::Directory> directory;

  std::string prepare() {
    state.reset(::open(mount_point.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    auto builder = attempt::Builder::begin(state.get(), new_attempt("attempt_full1"));
    if (builder.has_error()) {
      return "begin: " + builder.error().code;
    }
    {
      auto store = store::Store::open(state.get());
      if (store.has_error() ||
          store.value()
              .begin_attempt({"attempt_full1", "/w", {1, 2}, {1, 3}, 1},
                             {"attempt_full1", "t", "p", "a", "/w", "starting", "", 5, 0})
              .has_error()) {
        return "lease";
      }
    }
    auto published = builder.value().publish();
    if (published.has_error()) {
      return "publish: " + published.error().code;
    }
    directory.emplace(std::move(published.value().directory));
    auto writer =
        journal::Writer::create(directory->fd(), {"attempt_full1", "t", "p", "a", "g", "m"}, json::Value());
    if (writer.has_error()) {
      return "journal: " + writer.error().code;
    }
    journal::Draft draft;
    draft.kind = "run.verdict";
    draft.origin = {journal::Origin::Kind::input, 0, 0, 9, 0, ""};
    draft.fields_json = R"({"status":"success","summary":"done"})";
    if (writer.value().append(draft, 1).has_error() || writer.value().commit().has_error()) {
      return "verdict";
    }
    return "";
  }
  bool end() { return attempt::write_exit_slot(directory->fd(), slot_of({})).has_value(); }
};

}  // namespace

TEST_CASE("a full disk does not keep a run from ending: the reserve holds its end") {
  const std::string said = on_small_disk(4 << 20, [](const std::string& mount_point) -> std::string {
    OnDisk run{mount_point, {}, {}};
    if (const std::string failed = run.prepare(); !failed.empty()) {
      return failed;
    }
    fill_disk(mount_point);
    if (!run.end()) {
      return "the exit slot could not be written";
    }
    const auto finished = finish::finish_attempt(run.directory->fd(), {});
    if (finished.has_error()) {
      return "finish: " + finished.error().code + " " + finished.error().operation;
    }
    const auto status = attempt::status(*run.directory);
    return status.has_value() && status.value().state == attempt::State::completed ? "" : "not completed";
  });
  CHECK(said == "");
}

TEST_CASE("without even the reserve nothing is half-written, and a later finisher completes it") {
  const std::string said = on_small_disk(4 << 20, [](const std::string& mount_point) -> std::string {
    OnDisk run{mount_point, {}, {}};
    if (const std::string failed = run.prepare(); !failed.empty()) {
      return failed;
    }
    // Whatever room is left, from nothing to enough: each time it either ends or says no and changes no
    // evidence.
    ::unlinkat(run.directory->fd(), "reserve", 0);
    fill_disk(mount_point);
    if (!run.end()) {
      return "the exit slot could not be written";
    }
    int refused = 0;
    for (int room = 0; room < 400; ++room) {
      const auto finished = finish::finish_attempt(run.directory->fd(), {});
      const auto verified = journal::verify(run.directory->fd());
      if (verified.has_error() || verified.value().events > 2) {
        return "the journal is not whole after room " + std::to_string(room);
      }
      if (finished.has_value()) {
        const auto status = attempt::status(*run.directory);
        if (status.has_error() || status.value().state != attempt::State::completed) {
          return "not completed";
        }
        return refused > 0 ? "" : "it never said no";
      }
      const std::string& code = finished.error().code;
      if (code != "enospc" && code != "store-full" && code != "store-io" && code != "store-read-only") {
        return "unexpected " + finished.error().code;
      }
      ++refused;
      struct stat filler {};
      const std::string path = mount_point + "/filler";
      if (::stat(path.c_str(), &filler) != 0 || ::truncate(path.c_str(), filler.st_size - 4096) != 0) {
        return "truncate";
      }
    }
    return "it never ended";
  });
  CHECK(said == "");
}
