// What makes a frame one side's next one, and nobody else's (docs/formats.md, "Rendezvous"): each direction of a
// connection has a key of its own and counts its frames, and a frame's header ends with a MAC over that count, the
// header and the payload's hash. So a frame that was changed, cut out, repeated, moved or sent back is found, its
// length is known to be the sender's before anything is allocated, and a payload that goes to many peers is hashed
// once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace distill {

// Of one side of a connection.
struct FrameKeys {
  std::string send;
  std::string receive;
};

enum class FrameKind : uint32_t {
  kReady = 1,  // rank 0: every rank has joined; carries rank 0's host name, and the parts' secret of a job without one
  kBlob,       // one rank's contribution
  kAll,        // rank 0: all contributions, packed
  kError,      // a status: the sender gives up
  kGoodbye,    // a rank is done (rank 0 passes it on): the end of its stream is no loss
  kBeat,       // nothing to say, but still there
  kLate,       // to rank 0: the sender's call has taken too long; carries its number and how long it was given
  kBusy,       // which phases the sender is in (to rank 0), or which ranks are in one (from it): world/busy_ranks.h
};

// What is said to one peer or to many, which share it.
struct Message {
  FrameKind kind = FrameKind::kReady;
  uint32_t sequence = 0;
  std::string payload;
  std::string digest;  // SHA-256 of the payload
};
using SharedMessage = std::shared_ptr<const Message>;
SharedMessage MakeMessage(FrameKind kind, uint32_t sequence, std::string payload);

struct FrameHeader {
  FrameKind kind = FrameKind::kReady;
  uint32_t sequence = 0;
  uint64_t length = 0;
  std::string digest;
};
constexpr size_t kFrameHeaderBytes = 4 + 4 + 8 + 32 + 16;

// One direction of one connection, on either side of it.
class FrameSeal {
 public:
  explicit FrameSeal(std::string key) : key_(std::move(key)) {}

  // The header of the next frame, which is sent before the message's payload.
  std::string Seal(const Message& message);
  // DataLoss: these bytes are not the header of the peer's next frame, or one of another version. After an error
  // nothing that follows can be believed.
  [[nodiscard]] absl::StatusOr<FrameHeader> Open(absl::string_view bytes);

 private:
  std::string Mac(absl::string_view fields) const;

  std::string key_;
  uint64_t number_ = 0;
};

}  // namespace distill
