// How two processes of a job recognise each other before either parses what the other says (docs/formats.md,
// "Rendezvous"):
//   joiner -> rank 0   hello: magic, nonce
//   rank 0 -> joiner   hello: magic, nonce
//   joiner -> rank 0   proof: rank, world size, host name, HMAC over label, both nonces and these
//   rank 0 -> joiner   verdict: one byte, HMAC over another label, both nonces and it
// HMAC-SHA256 with the job secret. All messages have a fixed size; fresh nonces make replays worthless. Of both nonces
// and the secret each side then makes two keys, one a direction, for the frames that follow (world/frame_seal.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "libdistill/world/frame_seal.h"

namespace distill {

constexpr size_t kHelloBytes = 8 + 32;
constexpr size_t kProofBytes = 4 + 4 + 64 + 32;
constexpr size_t kVerdictBytes = 1 + 32;

struct JoinRequest {
  uint32_t rank = 0;
  uint32_t world_size = 0;
  std::string host;  // for messages; cut at 63 bytes
};

struct Nonces {
  std::string joiner;
  std::string root;
};

enum class Verdict : uint8_t { kWelcome = 1, kWrongSecret, kOtherWorldSize, kRankTaken };

std::string MakeNonce();
std::string EncodeHello(const std::string& nonce);
// The nonce, or nothing when `bytes` is no hello of this version.
std::optional<std::string> DecodeHello(absl::string_view bytes);

std::string EncodeProof(const std::string& secret, const Nonces& nonces, const JoinRequest& request);
// Nothing when the sender does not know the secret.
std::optional<JoinRequest> CheckProof(const std::string& secret, const Nonces& nonces, absl::string_view bytes);

std::string EncodeVerdict(const std::string& secret, const Nonces& nonces, Verdict verdict);
// Nothing when the sender does not know the secret. kWrongSecret comes as it is: who says so shares no secret with this
// process, and may be anybody.
std::optional<Verdict> CheckVerdict(const std::string& secret, const Nonces& nonces, absl::string_view bytes);

// For rank 0's side of a connection, or the joiner's.
FrameKeys DeriveFrameKeys(const std::string& secret, const Nonces& nonces, bool of_root);

// What the ranks of a part prove themselves with: made of what all of the whole know and `part`, a text that no other
// part has, so that it need not be sent. Empty without a secret.
std::string DerivePartSecret(const std::string& secret, absl::string_view part);

}  // namespace distill
