// A libfabric endpoint: reliable datagrams with tags between this rank and the others (efa in production, tcp
// elsewhere), over one or more rails: interfaces that join the same hosts. A message goes over the rail that its tag
// says, so messages with consecutive tags alternate over all.
//
//   DISTILL_ASSIGN_OR_RETURN(auto endpoint, FabricEndpoint::Create({}));
//   // ... exchange endpoint->address() with the others ...
//   DISTILL_RETURN_IF_ERROR(endpoint->Connect(addresses, names));
//   FabricOperation receive;
//   endpoint->Receive(1, tag, buffer, bytes, memory, &receive);
//   while (!receive.done) endpoint->Poll();
//
// Nothing but Sleep blocks: Send, Receive and Write start an operation, Poll moves data and finishes operations.
// Whoever waits brings the deadline. One thread at a time: fabric_progress.h has it. Where operations may be under way,
// Withdraw comes before their registrations go; those go before the endpoint is destroyed.
//
// Several endpoints of a rank can share their rails, where a rail is dear (shared_rails.h):
//
//   DISTILL_ASSIGN_OR_RETURN(auto second, FabricEndpoint::CreateOver(endpoint->shared_rails(), 0));
//
// Each has peers, tags and a thread of its own, and may be used while the others are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libdistill/transport/fabric_nearness.h"
#include "libdistill/transport/message_endpoint.h"
#include "libdistill/transport/tcp_send_buffer.h"

namespace distill {

struct FabricChannel;
struct FabricDomain;
struct FabricNews;
class SharedRails;

struct FabricOptions {
  // "efa", "tcp", "verbs", "shm", or a name of libfabric's; empty: efa where there is one, else tcp.
  std::string provider;
  // tcp uses the interface with this numeric address; empty (or FI_TCP_IFACE set): libfabric's choice.
  std::string local_address;
  // How many rails to use at most; 0: every NIC that is this rank's (below), and every interface of tcp's that is as
  // fast as the first.
  int max_rails = 0;
  std::string host;  // tells hosts apart: rails that do not join different hosts are none
  // The buffers are memory of this GPU (of the host, for tests, where it is -1), which the provider takes as it is.
  bool device_memory = false;
  int cuda_device = -1;
  bool writes = true;                  // Write is wanted, where the provider has it
  int64_t send_buffer = kByRoundTrip;  // of tcp's connections, in bytes; 0: what the kernel chooses
  // The ranks of this host, this one being number `self`, which divide its network cards (fabric_nearness.h) but for
  // tcp's; empty: this rank uses all.
  std::vector<RankSpot> neighbours = {};
  size_t self = 0;
  std::string sysfs = "/sys";
};

// One send, receive, write or wait for one under way; lives, at its place, until `done`. Reusable after that.
struct FabricOperation {
  void* context[8] = {};  // the provider's, first: it finds the operation by this address
  int peer = -1;
  bool receiving = false;
  size_t bytes = 0;
  bool done = true;
  absl::Status status;  // once done. Unavailable: the peer cannot be reached; FailedPrecondition: another length
  // The endpoint's own, while it is under way.
  FabricChannel* channel = nullptr;
  FabricDomain* rail = nullptr;
  uint64_t address = 0;    // libfabric's, of the peer
  bool under_way = false;  // the provider has yet to end it
  size_t place = 0;        // among those of the channel
};

// A buffer that the provider may use: pinned where the provider asks for that, else nothing but a handle. Goes on any
// thread, before its endpoint, and with no operation on it under way.
class FabricMemory {
 public:
  FabricMemory() = default;
  FabricMemory(FabricMemory&& other) noexcept { *this = std::move(other); }
  FabricMemory& operator=(FabricMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(regions_, other.regions_);
    return *this;
  }
  ~FabricMemory();
  bool registered() const { return !regions_.empty(); }

 private:
  friend class FabricEndpoint;
  void* descriptor(size_t rail) const;
  const void* data_ = nullptr;
  std::vector<void*> regions_;  // a fid_mr for each rail; empty: not registered
};

// Where memory that is registered for good begins, for peers that write into it: for each rail what libfabric
// calls the place, and the key.
struct FabricSpot {
  uint64_t address = 0;
  uint64_t key = 0;
};

// kGood: efa, where the card writes by itself. kPoor: the provider has Write, but leaves it to processors, or it does
// not end as it should: shm's peers continue when this endpoint is withdrawn, and libfabric 1.17's rxm over tcp crashes
// when a connection ends in the middle of a write that comes in.
enum class FabricWriteAccess { kNone, kPoor, kGood };

class FabricEndpoint : public MessageEndpoint {
 public:
  // Unavailable: no such provider, or no device for it.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<FabricEndpoint>> Create(const FabricOptions& options);
  // Over the rails of an endpoint that is connected, `max_rails` of them at most (0: all). Null: they are closed or
  // have failed, or 256 endpoints have shared them. ResourceExhausted: no file descriptor.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<FabricEndpoint>> CreateOver(std::shared_ptr<SharedRails> rails,
                                                                                  int max_rails);
  ~FabricEndpoint() override;
  // For CreateOver; any thread.
  const std::shared_ptr<SharedRails>& shared_rails() const { return shared_; }
  // Whether it was made over another's.
  bool is_shared() const { return is_shared_; }

  std::string provider() const;
  // This rank's part of what its host's cards of this provider send; 0: not known.
  double gigabytes_per_second() const;
  // Of device memory: whether the network card reads and writes it. Else the provider copies by itself.
  bool is_direct() const;
  // What the others need to reach this endpoint.
  const std::string& address() const { return address_; }
  // Entry i becomes peer i, which errors call names[i]; the rails that all of them have are used. Every rank passes the
  // same. Nothing is sent yet.
  [[nodiscard]] absl::Status Connect(const std::vector<std::string>& addresses, const std::vector<std::string>& names);
  // Those in use, by their networks' names; after Connect.
  const std::vector<std::string>& networks() const { return networks_; }
  int rails() const override { return static_cast<int>(networks_.size()); }

  // Needed for every buffer; free where the provider needs no registration. The memory must outlive the result. After
  // Connect, or to see whether it can be done. ResourceExhausted: this host lets no more memory be locked.
  [[nodiscard]] absl::StatusOr<FabricMemory> Register(const void* data, size_t bytes,
                                                      FabricUse use = FabricUse::kBuffer) override;

  // False: the provider is busy, poll and try again. A receive takes the message of `peer` with this very tag, of which
  // the upper 8 bits are 0.
  [[nodiscard]] absl::StatusOr<bool> Send(int peer, uint64_t tag, const void* data, size_t bytes,
                                          const FabricMemory& memory, FabricOperation* operation) override;
  [[nodiscard]] absl::StatusOr<bool> Receive(int peer, uint64_t tag, void* data, size_t bytes,
                                             const FabricMemory& memory, FabricOperation* operation) override;

  // Whether the following can be done over every rail, if the peer says the same.
  FabricWriteAccess write_access() const;
  FabricPlace PlaceOf(const FabricMemory& memory) const override;
  void PeersMayWrite(bool may) override { peers_may_write_ = may; }
  // As Send, but straight into the peer's memory, `offset` bytes behind the begin of `place`; the peer's Await of the
  // same notice is then done. No two writes that are on their way to one endpoint have the same notice in its lower 24
  // bits, whoever makes them. Rails alternate with the notices.
  [[nodiscard]] absl::StatusOr<bool> Write(int peer, uint32_t notice, const void* data, size_t bytes,
                                           const FabricMemory& memory, const FabricPlace& place, uint64_t offset,
                                           FabricOperation* operation) override;
  // Done once the peer's write with this notice is in this rank's memory, which may have been before.
  void Await(int peer, uint32_t notice, FabricOperation* operation) override;

  // Marks finished operations as done. True when there were any; an error is one of the endpoint itself.
  [[nodiscard]] absl::StatusOr<bool> Poll() override;

  // Ends all operations, without a completion: after that the provider no longer touches their buffers. Nothing can be
  // sent, received or polled from then on. Endpoints that share the rails continue where all operations could be taken
  // back within a second, none has failed, and peers may not write; else they end, too.
  void Withdraw() override;

  // Of its thread: whether it polls while it is not in a call, for all that share the rails. `in_call`: it begins one.
  bool serves(bool in_call);
  // Whether the provider says when there is something for Poll; Sleep then ends at once.
  bool wakes() const override;
  // Whether operations proceed, and peers are served, while nobody polls.
  bool progresses_alone() const;
  // Blocks until there may be something for Poll, `other` (a file descriptor, or -1) can be read, or the time is over.
  void Sleep(absl::Duration limit, int other) override { SleepFor(limit, other, /*serves=*/true); }
  // The same; unless it `serves`, what arrives for others does not wake it.
  void SleepFor(absl::Duration limit, int other, bool serves);

 private:
  FabricEndpoint();
  // With so many rails at most, the first ones (0: all). False: they cannot be shared.
  absl::StatusOr<bool> Open(std::shared_ptr<SharedRails> shared, int max_rails);
  absl::Status CheckOpen() const;
  FabricDomain& RailAt(size_t rail) const;
  size_t RailOf(uint64_t tag) const { return static_cast<size_t>(tag % rails_.size()); }
  // Starts an operation of `peer`'s on a rail.
  absl::StatusOr<bool> Start(const char* doing, size_t rail, int peer, bool receiving, size_t bytes,
                             FabricOperation* operation, absl::FunctionRef<long(FabricDomain&)> start);
  void Arrive(uint32_t notice);

  std::shared_ptr<SharedRails> shared_;
  std::vector<size_t> rails_;  // of the shared ones, those that this one uses
  const std::unique_ptr<FabricChannel> channel_;
  const std::unique_ptr<FabricNews> news_;
  std::string address_;
  std::vector<std::string> networks_;
  struct Peer {
    uint64_t channel = 0;             // its number
    std::vector<uint64_t> addresses;  // on each rail
  };
  std::vector<Peer> peers_;
  std::unordered_map<uint32_t, FabricOperation*> notices_;  // awaited; null: arrived before that
  bool is_shared_ = false;
  bool peers_may_write_ = false;
  bool withdrawn_ = false;
};

}  // namespace distill
