// libfabric's objects for one rail: a network interface with an endpoint, an address vector, and queues of completions
// and events of its own. shared_rails.h has them. Internal to transport/.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libdistill/transport/fabric_open.h"
#include "libdistill/transport/fabric_rails.h"
#include "libdistill/transport/tcp_send_buffer.h"

struct fid_av;
struct fid_cq;
struct fid_domain;
struct fid_ep;
struct fid_eq;
struct fid_fabric;
struct fid_mr;

namespace distill {

struct FabricDomain {
  explicit FabricDomain(FabricInfo info) : info(std::move(info)) {}
  FabricDomain(const FabricDomain&) = delete;
  FabricDomain& operator=(const FabricDomain&) = delete;
  ~FabricDomain();

  // As the rank's rail number `index`.
  absl::Status Open(size_t index);
  // What libfabric calls the peer at this address (fi_addr_t): always the same.
  absl::StatusOr<uint64_t> PeerAt(const std::string& address);
  // `for_writes`: of the peers, where can_write(). `of_host`: also where buffers are memory of a device.
  absl::StatusOr<fid_mr*> Register(const void* data, size_t bytes, bool for_writes, bool of_host);
  // Whether peers can write into registered memory here, and this end into theirs, with 32 bits that go along.
  bool can_write() const;
  FabricWriteAccess write_access() const;
  // What a peer calls the registered bytes at `data`.
  FabricSpot SpotOf(fid_mr* region, const void* data) const;
  // Closes the endpoint, which ends its operations; what is registered stays so. Where registrations are bound to the
  // endpoint (FI_MR_ENDPOINT) they must go first: it is closed when this is destroyed.
  void Withdraw();
  // From here on, of connections of tcp's as they come up between endpoint `own` of these and the others, and of those
  // that were named before.
  void BoundSendBuffers(const std::vector<std::string>& endpoints, size_t own);
  // The next completions, or error, of the queue; `arrived` gets the notices of peers' writes. An error that is no
  // operation's, or an error event of the endpoint's, is returned: it names the provider and the interface. `in_order`:
  // the provider has ended the operation for good, whether that went well or not; else it failed.
  using Finished = absl::FunctionRef<void(FabricOperation* operation, absl::Status status, bool in_order)>;
  absl::Status Poll(Finished finished, absl::FunctionRef<void(uint32_t notice)> arrived);

  FabricInfo info;
  fid_fabric* fabric = nullptr;
  fid_domain* domain = nullptr;
  fid_av* addresses = nullptr;
  fid_cq* queue = nullptr;
  int wait = -1;             // the queue's file descriptor, where it has one; its own
  fid_eq* events = nullptr;  // of the endpoint; null where the provider has none
  fid_ep* endpoint = nullptr;
  FabricRail card;          // what the others need to know of this rail
  int64_t send_buffer = 0;  // as FabricOptions has it
  int cuda_device = -1;     // where the memory to register lies, if the info says FI_HMEM; -1: in the host
  bool direct = false;      // such memory is moved by the card alone
  // A message was too long, with which rxm ends its connection, and what else was on its way there is lost.
  bool lost_connection = false;

 private:
  std::string provider() const;
  absl::StatusOr<FabricRail> Describe(size_t index) const;
  int OpenQueue();
  absl::Status OpenEvents();
  bool ForbidCopies();
  bool EmulatesWrites() const;
  absl::Status TakeError(Finished finished);
  absl::Status CheckEvents();
  void NoteReached(uint64_t peer);
  void BoundNewSendBuffers();

  std::unordered_map<std::string, uint64_t> peers_;  // by address
  std::atomic<uint64_t> next_key_{1};                // registrations are made on any thread
  bool emulates_writes_ = true;
  std::optional<TcpSendBuffer> tcp_;
  std::set<std::string> tcp_peers_;       // that it is of
  std::unordered_set<uint64_t> reached_;  // peers that something went to or came from: there is a connection
  bool newly_reached_ = false;
  absl::Time bounded_ = absl::InfinitePast();
};

}  // namespace distill
