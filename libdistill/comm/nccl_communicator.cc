// NCCL between the GPUs of a host. Buffers in device memory go through NCCL, on the caller's stream; buffers in host
// memory (agreements, barriers) through shared memory. NCCL runs in its non-blocking mode: its calls return at once
// and are asked for their state until the deadline. Errors of work that was enqueued before come out of the next call.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/setup.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/backoff.h"

namespace distill {
namespace {

absl::Status CudaError(const char* what, cudaError_t code) {
  if (code == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(what, ": ", cudaGetErrorString(code)));
}

ncclDataType_t NcclType(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return ncclFloat32;
    case DType::kFloat64:
      return ncclFloat64;
    case DType::kFloat16:
      return ncclFloat16;
    case DType::kBFloat16:
      return ncclBfloat16;
    case DType::kInt32:
      return ncclInt32;
    case DType::kInt64:
      return ncclInt64;
    case DType::kUInt8:
      return ncclUint8;
  }
  return ncclUint8;
}

ncclRedOp_t NcclOp(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return ncclSum;
    case ReduceOp::kAverage:
      return ncclAvg;
    case ReduceOp::kMin:
      return ncclMin;
    case ReduceOp::kMax:
      return ncclMax;
    case ReduceOp::kProduct:
      return ncclProd;
  }
  return ncclSum;
}

cudaStream_t StreamOf(Placement placement) { return static_cast<cudaStream_t>(placement.stream); }

class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(int rank, std::vector<std::string> hosts, const CommunicatorOptions& options)
      : Communicator(rank, std::move(hosts)), timeout_(options.timeout), device_(options.device_index) {}
  // Aborting never waits for other ranks. Synchronise the streams before.
  ~NcclCommunicator() override {
    if (comm_ != nullptr) ncclCommAbort(comm_);
  }

  absl::string_view backend() const override { return "nccl"; }
  bool takes_device_memory() const override { return true; }

  absl::Status Start(const ncclUniqueId& id) {
    DISTILL_RETURN_IF_ERROR(CudaError("cudaSetDevice", cudaSetDevice(device_)));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    return Await("ncclCommInitRankConfig", ncclCommInitRankConfig(&comm_, world_size(), id, rank(), &config));
  }
  void set_host_communicator(std::unique_ptr<Communicator> host) { host_ = std::move(host); }

 protected:
  absl::Status DoAllReduce(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op,
                           Placement placement) override {
    if (!placement.on_device) return host_->AllReduce(send, receive, count, dtype, op);
    DISTILL_RETURN_IF_ERROR(Begin());
    return Await("ncclAllReduce", ncclAllReduce(send, receive, static_cast<size_t>(count), NcclType(dtype), NcclOp(op),
                                                comm_, StreamOf(placement)));
  }
  absl::Status DoReduceScatter(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op,
                               Placement placement) override {
    if (!placement.on_device) return host_->ReduceScatter(send, receive, count, dtype, op);
    DISTILL_RETURN_IF_ERROR(Begin());
    return Await("ncclReduceScatter", ncclReduceScatter(send, receive, static_cast<size_t>(count), NcclType(dtype),
                                                        NcclOp(op), comm_, StreamOf(placement)));
  }
  absl::Status DoAllGather(const void* send, void* receive, int64_t count, DType dtype, Placement placement) override {
    if (!placement.on_device) return host_->AllGather(send, receive, count, dtype);
    DISTILL_RETURN_IF_ERROR(Begin());
    return Await("ncclAllGather",
                 ncclAllGather(send, receive, static_cast<size_t>(count), NcclType(dtype), comm_, StreamOf(placement)));
  }
  absl::Status DoBroadcast(void* buffer, int64_t count, DType dtype, int root, Placement placement) override {
    if (!placement.on_device) return host_->Broadcast(buffer, count, dtype, root);
    DISTILL_RETURN_IF_ERROR(Begin());
    return Await("ncclBroadcast", ncclBroadcast(buffer, buffer, static_cast<size_t>(count), NcclType(dtype), root,
                                                comm_, StreamOf(placement)));
  }
  absl::Status DoBarrier() override { return host_->Barrier(); }
  void Abandon(const absl::Status&) override {
    if (comm_ != nullptr) ncclCommAbort(comm_);
    comm_ = nullptr;
    host_.reset();  // its peers see this rank leave
  }

 private:
  // The device is the thread's; and work that was enqueued earlier may have failed since.
  absl::Status Begin() {
    DISTILL_RETURN_IF_ERROR(CudaError("cudaSetDevice", cudaSetDevice(device_)));
    return Await("work enqueued before", ncclSuccess);
  }

  absl::Status Await(const char* what, ncclResult_t result) const {
    const Deadline deadline = Deadline::After(timeout_);
    ncclResult_t state = result;
    Backoff backoff;
    do {
      if (result != ncclSuccess && result != ncclInProgress) break;
      if (const ncclResult_t asked = ncclCommGetAsyncError(comm_, &state); asked != ncclSuccess) state = asked;
      if (state != ncclInProgress) break;
      if (backoff.slow() && deadline.Passed()) return deadline.Error(absl::StrCat(what, ": a rank never came; it"));
      backoff.Pause();
    } while (true);
    if (state == ncclSuccess) return absl::OkStatus();
    const char* detail = ncclGetLastError(comm_);
    return absl::UnavailableError(
        absl::StrCat(what, ": ", ncclGetErrorString(state), detail != nullptr && *detail != '\0' ? ": " : "", detail));
  }

  const absl::Duration timeout_;
  const int device_;
  ncclComm_t comm_ = nullptr;
  std::unique_ptr<Communicator> host_;
};

// Rank 0 makes the name under which NCCL's ranks meet; the others only check that they can.
absl::StatusOr<std::string> MakeId(int rank, int device) {
  int devices = 0;
  DISTILL_RETURN_IF_ERROR(CudaError("comm_backend nccl finds no GPU", cudaGetDeviceCount(&devices)));
  if (device >= devices) {
    return absl::InvalidArgumentError(absl::StrCat("comm_backend nccl: this rank is to use GPU ", device,
                                                   ", but there are ", devices,
                                                   ": start at most as many ranks as the host has GPUs"));
  }
  if (rank != 0) return std::string();
  ncclUniqueId id;
  if (const ncclResult_t result = ncclGetUniqueId(&id); result != ncclSuccess) {
    return absl::UnavailableError(absl::StrCat("ncclGetUniqueId: ", ncclGetErrorString(result)));
  }
  return std::string(id.internal, sizeof(id.internal));
}

}  // namespace

MadeCommunicator CreateNcclCommunicator(Setup setup) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> ids,
                           setup.Exchange(MakeId(setup.world.rank, setup.options.device_index)));
  ncclUniqueId id;
  if (ids[0].size() != sizeof(id.internal)) return absl::FailedPreconditionError("rank 0 uses another NCCL");
  std::memcpy(id.internal, ids[0].data(), sizeof(id.internal));
  auto made = std::make_unique<NcclCommunicator>(setup.world.rank, setup.hosts, setup.options);
  DISTILL_RETURN_IF_ERROR(setup.ExchangeStatus(made->Start(id)));
  if (setup.world.world_size == 1) {
    made->set_host_communicator(CreateAloneCommunicator());
    return made;
  }
  DISTILL_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> host, CreateShmCommunicator(std::move(setup)));
  made->set_host_communicator(std::move(host));
  return made;
}

}  // namespace distill
