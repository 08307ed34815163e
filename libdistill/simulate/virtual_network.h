// A network in virtual time, and the endpoints of ranks on it. A message waits for its sender's card, takes its bytes'
// time there, travels for the latency, and takes its bytes' time on the receiver's card, which starts while the first
// is still sending (cut-through); it is there a latency after its last byte has left, at the earliest. Both cards take
// one message after the other, each way. No byte is moved: buffers are addresses alone.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "libdistill/simulate/virtual_time.h"
#include "libdistill/transport/fabric_endpoint.h"

namespace distill {

// One direction of a card, or of a GPU's links to the others of its host.
struct VirtualPipe {
  double ticks_per_byte = 0;
  VirtualTicks least = 0;  // that a message takes, however short it is
  VirtualTicks free = 0;   // when the next message may start
  VirtualTicks Take(VirtualTicks from, int64_t bytes);
};

struct VirtualNetworkCosts {
  VirtualTicks latency = 0;         // between two hosts
  VirtualTicks inside_latency = 0;  // between two ranks of one host
  VirtualTicks post = 0;            // of the rank's thread, for each send and receive
  // Messages longer than this wait until their receive is posted, and cost so many latencies more.
  int64_t eager_bytes = 0;
  double handshake = 0;
};

class VirtualEndpoint;

// Where ranks are, and what their messages pass; endpoints of several communicators share it.
class VirtualNetwork {
 public:
  struct Place {
    int host = 0;
    std::vector<VirtualPipe*> out, in;  // its rails
    VirtualPipe *inside_out = nullptr, *inside_in = nullptr;
  };

  VirtualNetwork(VirtualTime* time, const VirtualNetworkCosts& costs);
  ~VirtualNetwork();
  // A pipe that lives as long as this.
  VirtualPipe* Add(double gigabytes_per_second, VirtualTicks least);

  // How many messages have been sent between hosts, and their bytes.
  int64_t messages() const { return messages_; }
  int64_t bytes() const { return bytes_; }

 private:
  friend class VirtualEndpoint;
  struct Message;
  Message* New();
  void Depart(Message* message);
  static void Arrive(void* message);
  static void Finish(void* message);
  static void Acknowledge(void* message);
  void Deliver(Message* message);
  void ReleaseDone(Message* message);

  VirtualTime& time_;
  const VirtualNetworkCosts costs_;
  std::vector<std::unique_ptr<VirtualPipe>> pipes_;
  std::vector<std::unique_ptr<Message>> made_;
  std::vector<Message*> unused_;
  int64_t messages_ = 0;
  int64_t bytes_ = 0;
};

// What FabricEndpoint is to ranks that are there. It has no Write: finished blocks go as messages.
class VirtualEndpoint : public MessageEndpoint {
 public:
  // `peers` are filled by the caller once all are made: entry i is rank i's endpoint.
  VirtualEndpoint(VirtualNetwork* network, int rank, const VirtualNetwork::Place& place,
                  const std::vector<VirtualEndpoint*>* peers)
      : network_(*network), time_(network->time_), rank_(rank), place_(place), peers_(*peers) {}

  int rails() const override { return static_cast<int>(place_.out.size()); }
  absl::StatusOr<FabricMemory> Register(const void*, size_t, FabricUse) override { return FabricMemory(); }
  absl::StatusOr<bool> Send(int peer, uint64_t tag, const void* data, size_t bytes, const FabricMemory& memory,
                            FabricOperation* operation) override;
  absl::StatusOr<bool> Receive(int peer, uint64_t tag, void* data, size_t bytes, const FabricMemory& memory,
                               FabricOperation* operation) override;
  FabricPlace PlaceOf(const FabricMemory&) const override { return {}; }
  absl::StatusOr<bool> Write(int, uint32_t, const void*, size_t, const FabricMemory&, const FabricPlace&, uint64_t,
                             FabricOperation*) override {
    return absl::UnimplementedError("the virtual network has no writes into another rank's memory");
  }
  void Await(int, uint32_t, FabricOperation*) override {}
  absl::StatusOr<bool> Poll() override;
  void Withdraw() override {}
  bool wakes() const override { return true; }
  void Sleep(absl::Duration limit, int other) override;
  bool sleeps_late() const override { return false; }

 private:
  friend class VirtualNetwork;
  struct Key {
    uint64_t tag;
    int sender;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const {
      return (key.tag ^ static_cast<uint64_t>(key.sender) << 40) * 0x9e3779b97f4a7c15;
    }
  };
  void Complete(FabricOperation* operation);

  VirtualNetwork& network_;
  VirtualTime& time_;
  const int rank_;
  const VirtualNetwork::Place place_;
  const std::vector<VirtualEndpoint*>& peers_;
  std::unordered_map<Key, VirtualNetwork::Message*, Hash> incoming_;  // until they are here and have been asked for
  bool news_ = false;
  VirtualTime::Fiber* sleeper_ = nullptr;
};

}  // namespace distill
