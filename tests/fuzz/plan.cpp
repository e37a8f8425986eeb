// Flat plans as hitchrail-init judges them: any bytes, and none may be read past the end.
#include "init/plan.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using hitchrail::plan::Header;
  // Exactly as large as the input; the allocator aligns it as the mapping in init is.
  const std::unique_ptr<std::uint8_t[]> bytes(new std::uint8_t[size]);
  std::memcpy(bytes.get(), data, size);
  if (size >= sizeof(Header)) {
    // The fields that only say "this is a plan" are put right, so that the search is spent on the others.
    Header header{};
    std::memcpy(&header, bytes.get(), sizeof header);
    header.magic = hitchrail::plan::magic;
    header.version = hitchrail::plan::version;
    header.total_size = static_cast<std::uint32_t>(size);
    std::memcpy(bytes.get(), &header, sizeof header);
  }
  (void)hitchrail::plan::check(bytes.get(), size);
  return 0;
}
