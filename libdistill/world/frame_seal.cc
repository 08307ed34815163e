#include "libdistill/world/frame_seal.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/world/mac.h"
#include "libdistill/world/raw_bytes.h"

namespace distill {
namespace {

constexpr size_t kMacBytes = 16;
constexpr size_t kFieldBytes = kFrameHeaderBytes - kMacBytes;
constexpr size_t kDigestOffset = 16;

}  // namespace

SharedMessage MakeMessage(FrameKind kind, uint32_t sequence, std::string payload) {
  std::string digest = Sha256(payload);
  return std::make_shared<const Message>(Message{kind, sequence, std::move(payload), std::move(digest)});
}

std::string FrameSeal::Mac(absl::string_view fields) const {
  std::string text;
  AppendRaw(text, number_);
  text.append(fields.data(), fields.size());
  return HmacSha256(key_, text).substr(0, kMacBytes);
}

std::string FrameSeal::Seal(const Message& message) {
  std::string header;
  AppendRaw(header, static_cast<uint32_t>(message.kind));
  AppendRaw(header, message.sequence);
  AppendRaw(header, static_cast<uint64_t>(message.payload.size()));
  header += message.digest;
  header += Mac(header);
  ++number_;
  return header;
}

absl::StatusOr<FrameHeader> FrameSeal::Open(absl::string_view bytes) {
  const absl::string_view fields = bytes.substr(0, kFieldBytes);
  if (bytes.size() != kFrameHeaderBytes || !SameBytes(Mac(fields), bytes.substr(kFieldBytes))) {
    return absl::DataLossError(absl::StrCat(
        "message ", number_ + 1,
        " on this connection does not prove who sent it: it was changed, repeated, left out or put in on the way"));
  }
  ++number_;
  const uint32_t kind = ReadRaw<uint32_t>(fields, 0);
  if (kind < static_cast<uint32_t>(FrameKind::kReady) || kind > static_cast<uint32_t>(FrameKind::kBusy)) {
    return absl::DataLossError(absl::StrCat("a message of kind ", kind, ": from another version"));
  }
  return FrameHeader{static_cast<FrameKind>(kind), ReadRaw<uint32_t>(fields, 4), ReadRaw<uint64_t>(fields, 8),
                     std::string(fields.substr(kDigestOffset))};
}

}  // namespace distill
