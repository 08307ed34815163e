// What a rank has on its host, in virtual time: a GPU's memory, and the communicator of the host's ranks. NCCL's code
// is not ours to run: its calls cost what a formula says. Buffers are addresses that nobody looks at.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libdistill/comm/async.h"
#include "libdistill/comm/backend.h"
#include "libdistill/comm/device_memory.h"
#include "libdistill/simulate/virtual_time.h"

namespace distill {

// An address for so many bytes that are not there.
class VirtualMemory : public CommMemory {
 public:
  explicit VirtualMemory(int64_t bytes) : CommMemory(reinterpret_cast<char*>(uintptr_t{1} << 40), bytes) {}
};

struct VirtualDeviceCosts {
  double gigabytes_per_second = 1;  // of its memory, read and written together
  VirtualTicks kernel = 0;          // to start one, and to hear that it has ended
};

class VirtualDevice : public DeviceMemory {
 public:
  VirtualDevice(VirtualTime* time, const VirtualDeviceCosts& costs) : time_(*time), costs_(costs) {}
  int device_index() const override { return -1; }
  std::string pci_address() const override { return ""; }
  absl::Status CheckNetworkAccess() const override { return absl::OkStatus(); }
  absl::StatusOr<std::unique_ptr<CommMemory>> Allocate(int64_t bytes) override {
    return std::make_unique<VirtualMemory>(bytes);
  }
  absl::StatusOr<std::unique_ptr<CommMemory>> AllocatePinned(int64_t bytes) override { return Allocate(bytes); }
  absl::Status BeginCopy(int64_t segment, void* to, const void* from, int64_t bytes) override;
  absl::Status AwaitCopy(int64_t segment) override;
  absl::Status Copy(void* to, const void* from, int64_t bytes, void* stream) override;
  absl::Status CopyRows(absl::Span<const Rows> copies, void* stream) override;
  absl::Status Reduce(void* out, const void* const* sources, int source_count, int64_t count, DType dtype, ReduceOp op,
                      int divisor) override;
  absl::Status AwaitNetwork() override { return absl::OkStatus(); }

 private:
  VirtualTicks Cost(int64_t bytes_moved) const;
  VirtualTime& time_;
  const VirtualDeviceCosts costs_;
  VirtualTicks copied_[2] = {0, 0};  // when the copies of even and odd segments end
};

struct VirtualInsideCosts {
  double gigabytes_per_second = 1;  // of one GPU's links to the others of its host, one way
  VirtualTicks latency = 0;         // of a call, however short
};

// What the ranks of a host share.
class VirtualHost {
 public:
  VirtualHost(VirtualTime* time, int ranks, const VirtualInsideCosts& costs)
      : time_(*time), ranks_(ranks), costs_(costs) {}

 private:
  friend class VirtualInside;
  // Waits until `ranks` of them have come to the meeting, and then for the cost of the call.
  void Meet(std::pair<int, int> meeting, int ranks, VirtualTicks cost);
  VirtualTime& time_;
  const int ranks_;
  const VirtualInsideCosts costs_;
  std::map<std::pair<int, int>, std::vector<VirtualTime::Fiber*>> waiting_;
};

// The communicator of a host's ranks: all come, then all have the result after the time of a ring over their links.
class VirtualInside : public CommBackend {
 public:
  VirtualInside(VirtualHost* host, int local_rank) : CommBackend(local_rank, host->ranks_), host_(*host) {}
  absl::string_view backend() const override { return "virtual nccl"; }
  bool takes_device_memory() const override { return true; }

 protected:
  absl::Status Execute(const CommCall& call) override;
  absl::StatusOr<std::unique_ptr<Communicator>> DoSplit(const SplitPart&) override {
    return absl::UnimplementedError("virtual ranks do not split");
  }

 private:
  VirtualHost& host_;
};

// What AsyncCalls' thread does, on fibers: one call after the other.
class VirtualCalls : public AsyncCalls {
 public:
  // `handover`: from one thread to another; a call takes one to the thread, and one back where somebody waits for it.
  VirtualCalls(VirtualTime* time, Communicator* communicator, VirtualTicks handover)
      : time_(*time), communicator_(*communicator), handover_(handover) {}
  AsyncCall Run(std::function<absl::Status(Communicator&)> call) override;

 private:
  class State;
  VirtualTime& time_;
  Communicator& communicator_;
  const VirtualTicks handover_;
  std::shared_ptr<State> last_;
};

}  // namespace distill
