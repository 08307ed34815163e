#include "libdistill/world/framing.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/raw_bytes.h"

namespace distill {
namespace {

// Of short frames that came together one call of the kernel's gets all.
constexpr size_t kReadAheadBytes = size_t{16} << 10;
constexpr size_t kMostAtOnceBytes = size_t{64} << 10;

}  // namespace

absl::StatusOr<bool> FrameReader::Poll(const Socket& socket, uint64_t until) {
  for (;;) {
    DISTILL_RETURN_IF_ERROR(TakeArrived());
    if (whole_) return true;
    // A call that got less than it asked for has emptied the socket: the next would say so, and no more.
    if (std::exchange(drained_, false)) return false;
    if (received_bytes_ >= until) return false;
    DISTILL_ASSIGN_OR_RETURN(const bool more, ReceiveMore(socket));
    if (!more) return false;
  }
}

absl::StatusOr<bool> FrameReader::ReceiveMore(const Socket& socket) {
  const size_t missing = have_header_ ? header_.length - frame_.payload.size() : 0;
  const size_t asked = std::min(std::max(missing, kReadAheadBytes), kMostAtOnceBytes);
  ++receive_calls_;
  DISTILL_ASSIGN_OR_RETURN(const std::string some, ReceiveSome(socket, asked));
  received_bytes_ += some.size();
  arrived_ += some;
  drained_ = !some.empty() && some.size() < asked;
  return !some.empty();
}

// Moves on what belongs to the frame that is being put together.
absl::Status FrameReader::TakeArrived() {
  if (whole_) return absl::OkStatus();
  if (!have_header_) {
    if (arrived_.size() < kFrameHeaderBytes) return absl::OkStatus();
    DISTILL_ASSIGN_OR_RETURN(header_, seal_.Open(absl::string_view(arrived_).substr(0, kFrameHeaderBytes)));
    if (header_.length > max_payload_) {
      return absl::DataLossError(absl::StrCat("a message of ", header_.length, " bytes, of which at most ",
                                              max_payload_, " are possible here"));
    }
    arrived_.erase(0, kFrameHeaderBytes);
    have_header_ = true;
    frame_.kind = header_.kind;
    frame_.sequence = header_.sequence;
    frame_.payload.reserve(header_.length);
  }
  const size_t part = std::min<size_t>(arrived_.size(), header_.length - frame_.payload.size());
  frame_.payload.append(arrived_, 0, part);
  hash_.Add(absl::string_view(arrived_).substr(0, part));
  arrived_.erase(0, part);
  if (frame_.payload.size() < header_.length) return absl::OkStatus();
  if (!SameBytes(hash_.Finish(), header_.digest)) {
    return absl::DataLossError(absl::StrCat("a message of ", header_.length, " bytes was changed on the way"));
  }
  whole_ = true;
  return absl::OkStatus();
}

void FrameReader::Drop() {
  have_header_ = whole_ = false;
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
    AppendRaw(out, static_cast<uint64_t>(text.size()));
    out += text;
  }
  return out;
}

absl::StatusOr<std::vector<std::string>> UnpackStrings(absl::string_view bytes) {
  std::vector<std::string> strings;
  while (!bytes.empty()) {
    if (bytes.size() < sizeof(uint64_t)) return absl::DataLossError("packed strings: cut off in a length");
    const uint64_t length = ReadRaw<uint64_t>(bytes, 0);
    bytes.remove_prefix(sizeof(uint64_t));
    if (length > bytes.size()) return absl::DataLossError("packed strings: cut off in a text");
    strings.emplace_back(bytes.substr(0, length));
    bytes.remove_prefix(length);
  }
  return strings;
}

}  // namespace distill
