#include "libdistill/world/handshake.h"

#include <openssl/rand.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "libdistill/core/check.h"
#include "libdistill/world/mac.h"

namespace distill {
namespace {

constexpr char kMagic[] = "distill2";
constexpr size_t kMagicBytes = 8;
constexpr size_t kNonceBytes = 32;
constexpr size_t kProofMacBytes = 32;
constexpr size_t kHostBytes = 64;
constexpr char kProofLabel[] = "libdistill proof";
constexpr char kVerdictLabel[] = "libdistill verdict";

constexpr char kToRootLabel[] = "libdistill frames to rank 0";
constexpr char kFromRootLabel[] = "libdistill frames from rank 0";
constexpr char kPartLabel[] = "libdistill part";

std::string Mac(const std::string& secret, const char* label, const Nonces& nonces, absl::string_view message) {
  return HmacSha256(secret, absl::StrCat(label, nonces.joiner, nonces.root, message));
}

bool EndsWithMac(const std::string& secret, const char* label, const Nonces& nonces, absl::string_view bytes) {
  const absl::string_view message = bytes.substr(0, bytes.size() - kProofMacBytes);
  return SameBytes(Mac(secret, label, nonces, message), bytes.substr(message.size()));
}

}  // namespace

std::string MakeNonce() {
  unsigned char nonce[kNonceBytes];
  DISTILL_CHECK(RAND_bytes(nonce, sizeof(nonce)) == 1, "OpenSSL has no random numbers");
  return std::string(reinterpret_cast<char*>(nonce), sizeof(nonce));
}

std::string EncodeHello(const std::string& nonce) { return absl::StrCat(kMagic, nonce); }

std::optional<std::string> DecodeHello(absl::string_view bytes) {
  if (bytes.size() != kHelloBytes || bytes.substr(0, kMagicBytes) != kMagic) return std::nullopt;
  return std::string(bytes.substr(kMagicBytes));
}

std::string EncodeProof(const std::string& secret, const Nonces& nonces, const JoinRequest& request) {
  std::string body(kProofBytes - kProofMacBytes, '\0');
  std::memcpy(body.data(), &request.rank, 4);
  std::memcpy(body.data() + 4, &request.world_size, 4);
  std::memcpy(body.data() + 8, request.host.data(), std::min(request.host.size(), kHostBytes - 1));
  return body + Mac(secret, kProofLabel, nonces, body);
}

std::optional<JoinRequest> CheckProof(const std::string& secret, const Nonces& nonces, absl::string_view bytes) {
  if (bytes.size() != kProofBytes || !EndsWithMac(secret, kProofLabel, nonces, bytes)) return std::nullopt;
  JoinRequest request;
  std::memcpy(&request.rank, bytes.data(), 4);
  std::memcpy(&request.world_size, bytes.data() + 4, 4);
  request.host.assign(bytes.data() + 8, strnlen(bytes.data() + 8, kHostBytes));
  return request;
}

std::string EncodeVerdict(const std::string& secret, const Nonces& nonces, Verdict verdict) {
  const std::string body(1, static_cast<char>(verdict));
  return body + Mac(secret, kVerdictLabel, nonces, body);
}

std::optional<Verdict> CheckVerdict(const std::string& secret, const Nonces& nonces, absl::string_view bytes) {
  if (bytes.size() != kVerdictBytes) return std::nullopt;
  const auto verdict = static_cast<Verdict>(bytes[0]);
  if (verdict == Verdict::kWrongSecret) return verdict;
  if (!EndsWithMac(secret, kVerdictLabel, nonces, bytes)) return std::nullopt;
  return verdict;
}

FrameKeys DeriveFrameKeys(const std::string& secret, const Nonces& nonces, bool of_root) {
  std::string to_root = Mac(secret, kToRootLabel, nonces, "");
  std::string from_root = Mac(secret, kFromRootLabel, nonces, "");
  if (of_root) return {std::move(from_root), std::move(to_root)};
  return {std::move(to_root), std::move(from_root)};
}

std::string DerivePartSecret(const std::string& secret, absl::string_view part) {
  if (secret.empty()) return "";
  return HmacSha256(secret, absl::StrCat(kPartLabel, part));
}

}  // namespace distill
