#include "libdistill/world/frame_seal.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/world/mac.h"

namespace distill {
namespace {

constexpr size_t kMacBytes = 16;
constexpr size_t kFieldBytes = kFrameHeaderBytes - kMacBytes;
constexpr size_t kDigestOffset = 16;

template <typename T>
void Append(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

template <typename T>
T Read(absl::string_view bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

}  // namespace

SharedMessage MakeMessage(FrameKind kind, uint32_t sequence, std::string payload) {
  std::string digest = Sha256(payload);
  return std::make_shared<const Message>(Message{kind, sequence, std::move(payload), std::move(digest)});
}

std::string FrameSeal::Mac(absl::string_view fields) const {
  std::string text;
  Append(text, number_);
  text.append(fields.data(), fields.size());
  return HmacSha256(key_, text).substr(0, kMacBytes);
}

std::string FrameSeal::Seal(const Message& message) {
  std::string header;
  Append(header, static_cast<uint32_t>(message.kind));
  Append(header, message.sequence);
  Append(header, static_cast<uint64_t>(message.payload.size()));
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
  const uint32_t kind = Read<uint32_t>(fields, 0);
  if (kind < static_cast<uint32_t>(FrameKind::kReady) || kind > static_cast<uint32_t>(FrameKind::kBusy)) {
    return absl::DataLossError(absl::StrCat("a message of kind ", kind, ": from another version"));
  }
  return FrameHeader{static_cast<FrameKind>(kind), Read<uint32_t>(fields, 4), Read<uint64_t>(fields, 8),
                     std::string(fields.substr(kDigestOffset))};
}

}  // namespace distill
