// What waits to be sent to one peer, in order. Messages are shared with the other peers' outboxes: a message to 511
// peers is in memory once, beside 64 bytes a peer, and each peer gets it in pieces as its connection takes them.
#pragma once

#include <cstddef>
#include <deque>
#include <string>

#include "absl/status/statusor.h"
#include "libdistill/world/frame_seal.h"
#include "libdistill/world/socket.h"

namespace distill {

class Outbox {
 public:
  // What one Send takes at most, so that a large message to one peer does not keep the others waiting.
  static constexpr size_t kPieceBytes = size_t{256} << 10;

  explicit Outbox(std::string key) : seal_(std::move(key)) {}

  void Add(SharedMessage message) {
    if (!broken_) messages_.push_back(std::move(message));
  }
  bool empty() const { return messages_.empty(); }
  // For a connection that can take nothing more: what waits is dropped, and so is all that is added from now on. The
  // peer may have got a part of a frame, behind which no other one can be understood.
  void Break();
  // Hands the kernel what it takes at once, at most `limit` bytes; never blocks. Returns how many it took. Unavailable:
  // the other side is gone; the outbox is then to be broken.
  absl::StatusOr<size_t> Send(const Socket& socket, size_t limit = kPieceBytes);

 private:
  FrameSeal seal_;
  std::deque<SharedMessage> messages_;
  std::string header_;  // of the first message, once it is begun
  size_t sent_ = 0;     // of the first message's header and payload
  bool broken_ = false;
};

}  // namespace distill
