#include "libdistill/world/mac.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "libdistill/core/check.h"

namespace distill {
namespace {

const unsigned char* Bytes(absl::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

}  // namespace

std::string Sha256(absl::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  const int made = EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha256(), nullptr);
  DISTILL_CHECK(made == 1 && size == kSha256Bytes, "OpenSSL has no SHA-256");
  return std::string(reinterpret_cast<char*>(digest), size);
}

std::string HmacSha256(const std::string& key, absl::string_view bytes) {
  unsigned char mac[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  const unsigned char* made =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), Bytes(bytes), bytes.size(), mac, &size);
  DISTILL_CHECK(made != nullptr && size == kSha256Bytes, "OpenSSL has no HMAC-SHA256");
  return std::string(reinterpret_cast<char*>(mac), size);
}

bool SameBytes(absl::string_view a, absl::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace distill
