#include "journal/hash.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <cstdlib>
#include <utility>

namespace hitchrail::journal {
namespace {

// Without the configuration file: a confined runner cannot read it, and nothing of it concerns a digest.
const EVP_MD* sha256_method() {
  static const EVP_MD* const method = [] {
    OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
    return EVP_MD_fetch(nullptr, "SHA256", nullptr);
  }();
  return method;
}

}  // namespace

Hasher::Hasher() : context_(EVP_MD_CTX_new()) {
  if (context_ == nullptr || sha256_method() == nullptr) {
    std::abort();  // no memory, or a libcrypto without SHA-256: no evidence can be written
  }
}

Hasher::~Hasher() {
  EVP_MD_CTX_free(context_);
}

Hasher::Hasher(Hasher&& other) noexcept : context_(std::exchange(other.context_, nullptr)) {}

Hasher& Hasher::operator=(Hasher&& other) noexcept {
  std::swap(context_, other.context_);
  return *this;
}

Hash Hasher::of(std::string_view bytes) {
  Hash hash;
  unsigned size = 0;
  if (EVP_DigestInit_ex2(context_, sha256_method(), nullptr) != 1 ||
      EVP_DigestUpdate(context_, bytes.data(), bytes.size()) != 1 ||
      EVP_DigestFinal_ex(context_, hash.data(), &size) != 1) {
    std::abort();
  }
  return hash;
}

void append_hex(std::string& out, const unsigned char* bytes, std::size_t size) {
  static constexpr char digits[] = "0123456789abcdef";
  const std::size_t start = out.size();
  out.resize(start + 2 * size);
  char* to = out.data() + start;
  for (std::size_t i = 0; i < size; ++i) {
    *to++ = digits[bytes[i] >> 4];
    *to++ = digits[bytes[i] & 15];
  }
}

bool parse_hex(std::string_view text, unsigned char* out, std::size_t size) {
  if (text.size() != 2 * size) {
    return false;
  }
  const auto digit = [](char c) -> int {
    if (c >= '0' && c <= '9') {
      return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  for (std::size_t i = 0; i < size; ++i) {
    const int high = digit(text[2 * i]);
    const int low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) {
      return false;
    }
    out[i] = static_cast<unsigned char>(high << 4 | low);
  }
  return true;
}

}  // namespace hitchrail::journal
