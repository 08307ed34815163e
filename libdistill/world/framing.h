// Messages on a rendezvous connection, after the peer proved itself: kind, sequence, length, bytes; lengths are bounded
// before anything is allocated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/world/socket.h"

namespace distill {

// How large one rank's contribution to an exchange may be.
constexpr size_t kMaxBlobBytes = size_t{16} << 20;

enum class FrameKind : uint32_t {
  kReady = 1,  // rank 0: every rank has joined; carries rank 0's host name
  kBlob,       // one rank's contribution
  kAll,        // rank 0: all contributions, packed
  kError,      // a status: the sender gives up
  kGoodbye,    // a rank is done (rank 0 passes it on): the end of its stream is no loss
  kBeat,       // nothing to say, but still there
  kLate,       // to rank 0: the sender's call has taken too long; carries its number and how long it was given
  kBusy,       // which phases the sender is in (to rank 0), or which ranks are in one (from it): world/busy_ranks.h
};

struct Frame {
  FrameKind kind = FrameKind::kReady;
  uint32_t sequence = 0;
  std::string payload;
};

std::string EncodeFrame(FrameKind kind, uint32_t sequence, absl::string_view payload);

// Puts one connection's frames together out of what arrives.
class FrameReader {
 public:
  explicit FrameReader(size_t max_payload) : max_payload_(max_payload) {}

  // Reads what is there, without blocking. True when a whole frame waits in frame(); it stays until Drop().
  // Unavailable at the end of the stream; DataLoss for what is no frame.
  absl::StatusOr<bool> Poll(const Socket& socket);
  Frame& frame() { return frame_; }
  void Drop();
  // Of whole frames and parts of them.
  uint64_t received_bytes() const { return received_bytes_; }

 private:
  const size_t max_payload_;
  bool have_header_ = false;
  size_t length_ = 0;
  uint64_t received_bytes_ = 0;
  std::string header_;
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
