#pragma once
// SHA-256 for the journal's hot path: the method is fetched once, the context is reused.

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace hitchrail::journal {

using Hash = std::array<unsigned char, 32>;

class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  Hash of(std::string_view bytes);

 private:
  evp_md_ctx_st* context_ = nullptr;
};

void append_hex(std::string& out, const unsigned char* bytes, std::size_t size);
bool parse_hex(std::string_view text, unsigned char* out, std::size_t size);  // lower case only

}  // namespace hitchrail::journal
