// What proves who wrote a message, and that it is whole: SHA-256 and HMAC-SHA256 (RFC 2104) by libcrypto.
#pragma once

#include <memory>
#include <string>

#include "absl/strings/string_view.h"

struct evp_md_ctx_st;  // OpenSSL's EVP_MD_CTX

namespace distill {

constexpr size_t kSha256Bytes = 32;

// 32 bytes.
std::string Sha256(absl::string_view bytes);
// The same of bytes that come in pieces.
class Sha256Stream {
 public:
  Sha256Stream();
  void Add(absl::string_view bytes);
  // Of all that was added; afterwards the next text begins.
  std::string Finish();

 private:
  void Begin();

  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};
std::string HmacSha256(const std::string& key, absl::string_view bytes);

// In a time that does not tell where they differ.
bool SameBytes(absl::string_view a, absl::string_view b);

}  // namespace distill
