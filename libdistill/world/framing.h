// Messages on a rendezvous connection, after the peer proved itself: each proves itself, too (world/frame_seal.h), and
// lengths are bounded before anything is allocated.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/world/frame_seal.h"
#include "libdistill/world/mac.h"
#include "libdistill/world/socket.h"

namespace distill {

// How large one rank's contribution to an exchange may be.
constexpr size_t kMaxBlobBytes = size_t{16} << 20;

struct Frame {
  FrameKind kind = FrameKind::kReady;
  uint32_t sequence = 0;
  std::string payload;
};

// Puts one connection's frames together out of what arrives.
class FrameReader {
 public:
  // `key`: FrameKeys::receive.
  FrameReader(size_t max_payload, std::string key) : max_payload_(max_payload), seal_(std::move(key)) {}

  // Reads what is there, without blocking. True when a whole frame waits in frame(); it stays until Drop(). False: no
  // more is to be had before the socket is readable again, which it is at once where the kernel was asked for no more
  // because received_bytes() has reached `until`. Unavailable at the end of the stream; DataLoss for what is not the
  // peer's next frame, or too long.
  absl::StatusOr<bool> Poll(const Socket& socket, uint64_t until = std::numeric_limits<uint64_t>::max());
  Frame& frame() { return frame_; }
  void Drop();
  // Of whole frames and parts of them.
  uint64_t received_bytes() const { return received_bytes_; }
  // How often the kernel was asked for bytes.
  int64_t receive_calls() const { return receive_calls_; }

 private:
  absl::Status TakeArrived();
  absl::StatusOr<bool> ReceiveMore(const Socket& socket);

  const size_t max_payload_;
  FrameSeal seal_;
  Sha256Stream hash_;    // of frame_'s payload so far: a long one is hashed as it comes, not at its end
  std::string arrived_;  // and not yet part of frame_
  bool drained_ = false;
  bool have_header_ = false;
  bool whole_ = false;
  FrameHeader header_;
  uint64_t received_bytes_ = 0;
  int64_t receive_calls_ = 0;
  Frame frame_;
};

// A status as bytes, for kError. What cannot be decoded becomes an Internal error.
std::string EncodeStatus(const absl::Status& status);
absl::Status DecodeStatus(absl::string_view bytes);

// What kGoodbye carries: who leaves, and how many of the job's collective calls it has finished.
struct Goodbye {
  int rank = 0;
  uint64_t finished_calls = 0;
  std::string name;  // "rank 2 on host-b"
};
std::string EncodeGoodbye(const Goodbye& goodbye);
absl::StatusOr<Goodbye> DecodeGoodbye(absl::string_view bytes);

// Several strings in one.
std::string PackStrings(const std::vector<std::string>& strings);
absl::StatusOr<std::vector<std::string>> UnpackStrings(absl::string_view bytes);

}  // namespace distill
