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

Sha256Stream::Sha256Stream() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
  DISTILL_CHECK(context_ != nullptr, "no memory for SHA-256");
  Begin();
}

void Sha256Stream::Begin() {
  DISTILL_CHECK(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1, "OpenSSL has no SHA-256");
}

void Sha256Stream::Add(absl::string_view bytes) {
  DISTILL_CHECK(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1, "SHA-256 failed");
}

std::string Sha256Stream::Finish() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  const int made = EVP_DigestFinal_ex(context_.get(), digest, &size);
  DISTILL_CHECK(made == 1 && size == kSha256Bytes, "SHA-256 failed");
  Begin();
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
