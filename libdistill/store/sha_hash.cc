#include "libdistill/store/sha_hash.h"

#include <openssl/evp.h>

#include <array>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/check.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/byte_stream.h"

namespace distill {

struct ShaHash::State {
  State() : context(EVP_MD_CTX_new()) {}
  ~State() { EVP_MD_CTX_free(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  EVP_MD_CTX* const context;
};

ShaHash::ShaHash(ShaKind kind) : state_(std::make_unique<State>()) {
  const EVP_MD* const algorithm = kind == ShaKind::kSha1 ? EVP_sha1() : EVP_sha256();
  DISTILL_CHECK(EVP_DigestInit_ex(state_->context, algorithm, nullptr) == 1, "libcrypto lacks a hash");
}

ShaHash::~ShaHash() = default;

ShaHash& ShaHash::Add(absl::string_view bytes) {
  DISTILL_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1, "libcrypto cannot hash");
  return *this;
}

std::string ShaHash::Hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest = {};
  unsigned int size = 0;
  DISTILL_CHECK(EVP_DigestFinal_ex(state_->context, digest.data(), &size) == 1, "libcrypto cannot hash");
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest.data()), size));
}

absl::StatusOr<std::string> Sha256OfFile(std::shared_ptr<const ReadableFile> file) {
  DISTILL_ASSIGN_OR_RETURN(const std::unique_ptr<ByteStream> bytes, StreamFile(std::move(file)));
  ShaHash hash(ShaKind::kSha256);
  std::string buffer(size_t{1} << 20, '\0');
  for (;;) {
    DISTILL_ASSIGN_OR_RETURN(const size_t size, bytes->Read(absl::MakeSpan(buffer)));
    if (size == 0) return hash.Hex();
    hash.Add(absl::string_view(buffer).substr(0, size));
  }
}

std::string GitHeaderOf(int64_t file_bytes) { return absl::StrCat("blob ", file_bytes, absl::string_view("\0", 1)); }

std::string GitHashOf(absl::string_view bytes) {
  return ShaHash(ShaKind::kSha1).Add(GitHeaderOf(static_cast<int64_t>(bytes.size()))).Add(bytes).Hex();
}

}  // namespace distill
