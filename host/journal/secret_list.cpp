#include "journal/secret_list.hpp"

#include <strings.h>

#include <cstring>
#include <string>
#include <string_view>

#include "core/file.hpp"
#include "shim/wire.hpp"

namespace hitchrail::journal {

namespace {

constexpr std::size_t max_secrets = 8u << 20;

Error cut_list() {
  return Error{ErrorClass::internal, "secret-list-invalid",     "read",
               "secrets pipe",       "it ends inside a record", ""};
}

}  // namespace

Status read_secret_list(int fd, SecretRedactor& redactor) {
  HR_TRY(bytes, read_all(fd, max_secrets));
  std::string_view rest = bytes;
  Status done;
  while (!rest.empty()) {
    wire::SecretRecord head;
    if (rest.size() < sizeof head) {
      done = cut_list();
      break;
    }
    std::memcpy(&head, rest.data(), sizeof head);
    rest.remove_prefix(sizeof head);
    if (rest.size() < std::uint64_t{head.name_size} + head.value_size) {
      done = cut_list();
      break;
    }
    redactor.add(std::string(rest.substr(0, head.name_size)),
                 std::string(rest.substr(head.name_size, head.value_size)));
    rest.remove_prefix(std::size_t{head.name_size} + head.value_size);
  }
  ::explicit_bzero(bytes.data(), bytes.size());
  return done;
}

}  // namespace hitchrail::journal
