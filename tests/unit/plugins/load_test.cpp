#include "runner/load.hpp"

#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <optional>

#include "plugins/plugins.hpp"
#include "zoo.hpp"

namespace {

using namespace hitchrail;

std::string fd_path(int fd) {
  return "/proc/self/fd/" + std::to_string(fd);
}

std::string load_code(const std::string& name, std::string* detail = nullptr) {
  const auto sealed = plugins::seal_plugin_file(test::zoo(name));
  if (sealed.has_error()) {
    return sealed.error().code;
  }
  const auto loaded = runner::load_adapter(sealed->fd.get(), sealed->elf.note);
  if (loaded.has_error() && detail != nullptr) {
    *detail = loaded.error().detail;
  }
  return loaded.has_error() ? loaded.error().code : "ok";
}

// Each in a process of its own: one process holds one adapter.
TEST_CASE("an adapter is loaded from its sealed copy and its table is a whole one") {
  CHECK(test::in_child([] {
          const auto sealed = plugins::seal_plugin_file(test::zoo("sound"));
          const auto loaded = runner::load_adapter(sealed->fd.get(), sealed->elf.note);
          const hr_adapter& table = loaded->table();
          return table.launch != nullptr && table.on_timer == nullptr &&
                         table.struct_size == sizeof(hr_adapter)
                     ? 0
                     : 1;
        }) == 0);
}

TEST_CASE("a second adapter in one process is refused, also the same one") {
  CHECK(test::in_child([] {
          return load_code("sound") == "ok" && load_code("sound") == "adapter-already-loaded" ? 0 : 1;
        }) == 0);
}

TEST_CASE(
    "an adapter stays resident: what it handed out works after its owner is gone, and nobody says "
    "otherwise") {
  CHECK(test::in_child([] {
          auto sealed = plugins::seal_plugin_file(test::zoo("sound"));
          std::optional<runner::LoadedAdapter> loaded;
          {
            auto result = runner::load_adapter(sealed->fd.get(), sealed->elf.note);
            loaded = std::move(*result);
          }
          const auto kept = loaded->table().close;
          loaded.reset();
          // The no-load flag asks whether it is there; closing that handle does not take it away.
          for (int i = 0; i < 3; ++i) {
            void* handle = ::dlopen(fd_path(sealed->fd.get()).c_str(), RTLD_NOW | RTLD_NOLOAD);
            if (handle == nullptr) {
              return 1;
            }
            ::dlclose(handle);
          }
          kept(nullptr);  // free(NULL) of the adapter's own code
          return 0;
        }) == 0);
}

TEST_CASE("a library that does not resolve is refused with the loader's own words") {
  CHECK(test::in_child([] {
          std::string detail;
          return load_code("undefined_symbol", &detail) == "adapter-load-failed" &&
                         detail.find("undefined symbol: zoo_is_nowhere") != std::string::npos
                     ? 0
                     : 1;
        }) == 0);
}

TEST_CASE("a table that does not fit is refused and the member is named") {
  const auto refuses = [](const char* animal, const char* code, const char* part) {
    INFO(animal);
    CHECK(test::in_child([&] {
            std::string detail;
            return load_code(animal, &detail) == code && detail.find(part) != std::string::npos ? 0 : 1;
          }) == 0);
  };
  refuses("no_launch_hook", "adapter-table-invalid", "launch");
  refuses("small_table", "adapter-table-invalid", "struct_size 64");
  refuses("null_table", "adapter-table-invalid", "NULL");
  refuses("other_provider", "adapter-note-mismatch", "somebody-else");
  refuses("other_abi_in_table", "adapter-note-mismatch", "ABI 2.0");
}

}  // namespace
