// What collectives use of an endpoint: messages with tags between this rank and the others, and writes into their
// memory. FabricEndpoint is the one that moves bytes; simulate/ has one whose clock is its own, so that the same code
// runs on clusters that are not there.
//
// Nothing but Sleep blocks. One thread at a time. fabric_endpoint.h says what each of these is for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace distill {

class FabricMemory;
struct FabricOperation;
struct FabricSpot;
// For each rail.
using FabricPlace = std::vector<FabricSpot>;

// What a registration is for: a buffer of calls; memory of the host, whatever the buffers are; or any call from now on
// and peers' writes, registered whether the provider asks for it or not.
enum class FabricUse { kBuffer, kHostMemory, kForGood };

class MessageEndpoint {
 public:
  MessageEndpoint() = default;
  virtual ~MessageEndpoint() = default;
  MessageEndpoint(const MessageEndpoint&) = delete;
  MessageEndpoint& operator=(const MessageEndpoint&) = delete;

  // How many cards or interfaces messages go over: their tags in order, one after the other.
  virtual int rails() const = 0;
  [[nodiscard]] virtual absl::StatusOr<FabricMemory> Register(const void* data, size_t bytes,
                                                              FabricUse use = FabricUse::kBuffer) = 0;
  [[nodiscard]] virtual absl::StatusOr<bool> Send(int peer, uint64_t tag, const void* data, size_t bytes,
                                                  const FabricMemory& memory, FabricOperation* operation) = 0;
  [[nodiscard]] virtual absl::StatusOr<bool> Receive(int peer, uint64_t tag, void* data, size_t bytes,
                                                     const FabricMemory& memory, FabricOperation* operation) = 0;
  virtual FabricPlace PlaceOf(const FabricMemory& memory) const = 0;
  // From here on peers may write into this rank's memory, or may not any more.
  virtual void PeersMayWrite(bool) {}
  [[nodiscard]] virtual absl::StatusOr<bool> Write(int peer, uint32_t notice, const void* data, size_t bytes,
                                                   const FabricMemory& memory, const FabricPlace& place,
                                                   uint64_t offset, FabricOperation* operation) = 0;
  virtual void Await(int peer, uint32_t notice, FabricOperation* operation) = 0;
  [[nodiscard]] virtual absl::StatusOr<bool> Poll() = 0;
  virtual void Withdraw() = 0;
  virtual bool wakes() const = 0;
  virtual void Sleep(absl::Duration limit, int other) = 0;
  // Whether a wait looks again a few times before it sleeps, because to sleep costs more than to look.
  virtual bool sleeps_late() const { return true; }
};

}  // namespace distill
