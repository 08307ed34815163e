#include "libdistill/world/framing.h"

#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

constexpr size_t kHeaderBytes = 16;

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

std::string EncodeFrame(FrameKind kind, uint32_t sequence, absl::string_view payload) {
  std::string out;
  out.reserve(kHeaderBytes + payload.size());
  Append(out, static_cast<uint32_t>(kind));
  Append(out, sequence);
  Append(out, static_cast<uint64_t>(payload.size()));
  out.append(payload.data(), payload.size());
  return out;
}

absl::StatusOr<bool> FrameReader::Poll(const Socket& socket) {
  for (;;) {
    if (have_header_ && frame_.payload.size() == length_) return true;
    const size_t wanted = have_header_ ? length_ - frame_.payload.size() : kHeaderBytes - header_.size();
    DISTILL_ASSIGN_OR_RETURN(const std::string some, ReceiveSome(socket, wanted));
    if (some.empty()) return false;
    received_bytes_ += some.size();
    if (have_header_) {
      frame_.payload += some;
      continue;
    }
    header_ += some;
    if (header_.size() < kHeaderBytes) continue;
    const uint32_t kind = Read<uint32_t>(header_, 0);
    const uint64_t length = Read<uint64_t>(header_, 8);
    if (kind < static_cast<uint32_t>(FrameKind::kReady) || kind > static_cast<uint32_t>(FrameKind::kBusy) ||
        length > max_payload_) {
      return absl::DataLossError(
          absl::StrCat("a message of kind ", kind, " and ", length, " bytes: damaged, or from another version"));
    }
    frame_.kind = static_cast<FrameKind>(kind);
    frame_.sequence = Read<uint32_t>(header_, 4);
    length_ = length;
    have_header_ = true;
  }
}

void FrameReader::Drop() {
  have_header_ = false;
  header_.clear();
  frame_ = Frame();
}

std::string EncodeStatus(const absl::Status& status) {
  return absl::StrCat(std::string(1, static_cast<char>(status.code())), std::string(status.message()));
}

absl::Status DecodeStatus(absl::string_view bytes) {
  if (bytes.empty()) return absl::InternalError("an error without a text");
  const int code = static_cast<unsigned char>(bytes[0]);
  const bool known = code > 0 && code <= static_cast<int>(absl::StatusCode::kUnauthenticated);
  return absl::Status(known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kInternal, bytes.substr(1));
}

std::string EncodeGoodbye(const Goodbye& goodbye) {
  return PackStrings({absl::StrCat(goodbye.rank), absl::StrCat(goodbye.finished_calls), goodbye.name});
}

absl::StatusOr<Goodbye> DecodeGoodbye(absl::string_view bytes) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> fields, UnpackStrings(bytes));
  Goodbye goodbye;
  if (fields.size() != 3 || !absl::SimpleAtoi(fields[0], &goodbye.rank) ||
      !absl::SimpleAtoi(fields[1], &goodbye.finished_calls)) {
    return absl::DataLossError("a damaged goodbye");
  }
  goodbye.name = fields[2];
  return goodbye;
}

std::string PackStrings(const std::vector<std::string>& strings) {
  std::string out;
  for (const std::string& text : strings) {
    Append(out, static_cast<uint64_t>(text.size()));
    out += text;
  }
  return out;
}

absl::StatusOr<std::vector<std::string>> UnpackStrings(absl::string_view bytes) {
  std::vector<std::string> strings;
  while (!bytes.empty()) {
    if (bytes.size() < sizeof(uint64_t)) return absl::DataLossError("packed strings: cut off in a length");
    const uint64_t length = Read<uint64_t>(bytes, 0);
    bytes.remove_prefix(sizeof(uint64_t));
    if (length > bytes.size()) return absl::DataLossError("packed strings: cut off in a text");
    strings.emplace_back(bytes.substr(0, length));
    bytes.remove_prefix(length);
  }
  return strings;
}

}  // namespace distill
