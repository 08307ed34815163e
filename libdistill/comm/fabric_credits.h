// Flow control between two ranks where messages go one way: a broadcast's, a reduction's to one rank, and those of
// Send. The provider takes a message as soon as it has room for it, so that without this a sender runs ahead of the
// receiver by any number of calls, all of them in the receiver's memory.
//
// Both sides count the messages from one to the other, over all calls. Credit number j, one byte, says that the
// receiver has taken message number j * kEvery; message j * kEvery + kEvery + 1 and those after it are not sent before
// it is there. So at most 2 * kEvery messages lie in the receiver's memory, and in a long call, where the credits come
// while as many messages again are on their way, nobody waits for one.
//
// The receiver sends a credit only where the sender cannot have left: what is sent to a rank that has closed its
// connection resets it, and what that rank sent last would be lost. That is where the call has messages that need the
// credit, or where this rank has yet to send to the other in this call. Internal to comm/.
#pragma once

#include <cstdint>
#include <limits>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "libdistill/transport/fabric_endpoint.h"

namespace distill {

// What was done with credits.
struct CreditStep {
  bool moved = false;    // anything
  bool refused = false;  // the provider did not take one: whoever waits looks again soon (FabricWait's `busy`)
  void Add(const CreditStep& other) {
    moved = moved || other.moved;
    refused = refused || other.refused;
  }
};

// Used on the endpoint's thread, in its calls.
class FabricCredits {
 public:
  static constexpr int64_t kEvery = 16;
  // What the credits are sent from and received in: nobody reads them.
  static constexpr int64_t kBytes = 2;
  static constexpr int64_t kAll = std::numeric_limits<int64_t>::max();

  FabricCredits(MessageEndpoint* endpoint, int rank) : endpoint_(endpoint), rank_(rank) {}

  // Before the first call: kBytes of the kind of memory that the endpoint moves.
  void Use(char* bytes, const FabricMemory* memory) {
    bytes_ = bytes;
    memory_ = memory;
  }

  // How many messages may be started to the peer now.
  int64_t Left(int peer) { return 2 * kEvery - at(peer).sent + at(peer).credited; }
  int64_t taken(int peer) { return at(peer).taken; }
  void NoteSent(int peer, int64_t messages) { at(peer).sent += messages; }
  void NoteTaken(int peer, int64_t messages) { at(peer).taken += messages; }

  // These do what can be done now. An error is the end of the endpoint's use.
  // Receives credits of the peer's, where messages to it will need one.
  absl::StatusOr<CreditStep> Receive(int peer);
  // Sends it the next credit, if it is due and needed for messages up to number `last`.
  absl::StatusOr<CreditStep> Send(int peer, int64_t last);

 private:
  struct Peer {
    int64_t sent = 0;
    int64_t credited = 0;  // of them, by the credits that came
    bool waiting = false;  // for the next one: `incoming` is under way
    FabricOperation incoming;
    int64_t taken = 0;
    int64_t told = 0;  // of them, by the credits that went
    FabricOperation outgoing;
  };
  Peer& at(int peer) { return peers_[peer]; }

  MessageEndpoint* const endpoint_;
  const int rank_;
  // Made when first used: of hundreds of ranks, one has to do with few in this way. A node keeps its place.
  std::unordered_map<int, Peer> peers_;
  char* bytes_ = nullptr;
  const FabricMemory* memory_ = nullptr;
};

}  // namespace distill
