// What every backend gets to make its communicator of; internal to comm/.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "libdistill/comm/backend.h"
#include "libdistill/comm/create.h"
#include "libdistill/comm/device_memory.h"
#include "libdistill/comm/fabric_pool.h"
#include "libdistill/comm/tuning.h"
#include "libdistill/core/deadline.h"
#include "libdistill/transport/fabric_nearness.h"
#include "libdistill/transport/shared_memory.h"
#include "libdistill/world/rendezvous.h"
#include "libdistill/world/world.h"

namespace distill {

struct Setup {
  World world;
  CommunicatorOptions options;
  Deadline deadline;                       // for joining
  std::shared_ptr<Rendezvous> rendezvous;  // goes with the communicator: it notices lost ranks
  std::vector<std::string> hosts;          // of every rank
  bool one_host = false;                   // all ranks share memory
  std::vector<std::string> host_ids = {};  // of every rank: equal where two share memory
  // For a part of a job that meets over the job's own rendezvous (comm/part_rendezvous.h): its ranks in the job, by
  // which errors call them.
  std::vector<int> job_ranks = {};
  std::shared_ptr<SharedMemorySource> memory = std::make_shared<SharedMemorySource>();
  std::string memory_root = "";  // in front of /proc and /sys where a rank looks what memory is left, for tests
  CommTuning tuning = {};        // the same on every rank
  // Where the job's ranks of this host work, this one being number `self`: they divide the host's network cards. The
  // same in every part. Empty: not known.
  std::vector<RankSpot> neighbours = {};
  size_t self = 0;
  // Set where the buffers of a communicator over the fabric are all in it.
  std::shared_ptr<DeviceMemory> device_memory = nullptr;
  // Of this rank's communicators of one job, which share them.
  std::shared_ptr<FabricPool> fabrics = std::make_shared<FabricPool>();

  // The same for some of the ranks, of which this is one, in their new order.
  Setup Part(const std::vector<int>& members) const;
  // "rank 3 on p4d-17", as errors call a rank.
  std::string NameOf(int rank) const;
  std::vector<std::string> Names() const;
  // Every rank (of the job, where this is a part) must call it, also with an error: one rank's error becomes every
  // rank's, named.
  [[nodiscard]] absl::StatusOr<std::vector<std::string>> Exchange(const absl::StatusOr<std::string>& mine);
  // The same with nothing to say but whether it went well.
  [[nodiscard]] absl::Status ExchangeStatus(const absl::Status& mine);
};

// The error, marked as one that every rank has: see IsSharedError.
absl::Status SharedError(absl::Status error);

using MadeCommunicator = absl::StatusOr<std::unique_ptr<CommBackend>>;
// CreateAloneCommunicator's, for a part of another communicator.
std::unique_ptr<CommBackend> CreateAloneBackend();
[[nodiscard]] MadeCommunicator CreateShmCommunicator(Setup setup);
[[nodiscard]] MadeCommunicator CreateFabricCommunicator(Setup setup);
[[nodiscard]] MadeCommunicator CreateMpiCommunicator(Setup setup);
// Whether this build has NCCL.
bool HasNccl();
// Device memory over NCCL; host memory over shared memory.
[[nodiscard]] MadeCommunicator CreateNcclCommunicator(Setup setup);
// In two levels: over shared memory inside a host, or over NCCL where every rank has a GPU of its own, and over the
// fabric between hosts.
[[nodiscard]] MadeCommunicator CreateHierarchicalCommunicator(Setup setup, bool gpus);
// The same over any communicator of a host's ranks; `device`: of what its buffers in device memory are, null: it takes
// none.
[[nodiscard]] MadeCommunicator CreateHierarchicalCommunicatorOf(Setup setup, std::shared_ptr<DeviceMemory> device,
                                                                absl::FunctionRef<MadeCommunicator(Setup)> make_inside);

}  // namespace distill
