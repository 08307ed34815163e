// NCCL between the GPUs of a host. Buffers in device memory go through NCCL, on the caller's stream; buffers in host
// memory (agreements, barriers) through shared memory. NCCL runs in its non-blocking mode: its calls return at once
// and are asked for their state until the deadline. A call then waits for the device: a kernel whose peer has died
// spins for ever, NCCL inside a host does not notice, and only ncclCommAbort ends it. While it waits the call looks at
// the deadline, at NCCL's own errors, and at the other processes, which shared memory watches.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "libdistill/comm/cuda_calls.h"
#include "libdistill/comm/device_reduce.h"
#include "libdistill/comm/setup.h"
#include "libdistill/comm/split.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/backoff.h"

namespace distill {
namespace {

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
    case ReduceOp::kAverage:  // divided afterwards: ncclAvg multiplies every rank's part by 1/n
      return ncclSum;
    case ReduceOp::kMin:
      return ncclMin;
    case ReduceOp::kMax:
      return ncclMax;
    case ReduceOp::kProduct:
      return ncclProd;
  }
  return ncclSum;
}

// Thread blocks of a call's kernel, each of which may take a multiprocessor. A rank uses several communicators at a
// time (gradients, blocks of the student, blocks of the teacher), each from a thread of its own, so ranks launch their
// kernels in different orders, and each waits on the GPU for its like elsewhere. That comes to an end as long as all of
// them find room there at once, beside computing kernels, which end by themselves: with this bound those of three do on
// the 108 multiprocessors of an A100; on smaller GPUs, or with more teachers shared out, it is not sure.
// NCCL_LAUNCH_ORDER_IMPLICIT (2.26) is no way out: it runs kernels one after the other as each host launched them, and
// asks for the same order on all; a rank without tokens launches a pass's gathers ahead.
constexpr int kMaxBlocks = 32;

// What NCCL would choose for its own buffers. It is not registered with a communicator (ncclCommRegister): NCCL leaves
// undefined what a call does where one rank's buffers are registered and another's are not, and Allocate allows that.
class NcclMemory : public CommMemory {
 public:
  static absl::StatusOr<std::unique_ptr<CommMemory>> Create(int device, int64_t bytes) {
    DISTILL_RETURN_IF_ERROR(CudaError("cudaSetDevice", cudaSetDevice(device)));
    void* data = nullptr;
    if (const ncclResult_t result = ncclMemAlloc(&data, static_cast<size_t>(bytes)); result != ncclSuccess) {
      cudaGetLastError();  // else the next call on this thread would have it
      return absl::ResourceExhaustedError(
          absl::StrCat("no ", bytes, " bytes of device memory: ncclMemAlloc: ", ncclGetErrorString(result)));
    }
    std::unique_ptr<CommMemory> memory(new NcclMemory(device, static_cast<char*>(data), bytes));
    DISTILL_RETURN_IF_ERROR(CudaError("cudaMemset", cudaMemset(data, 0, static_cast<size_t>(bytes))));
    // cudaMemset may return before it is done, and streams of the caller's need not wait for it.
    DISTILL_RETURN_IF_ERROR(CudaError("cudaMemset", cudaStreamSynchronize(nullptr)));
    return memory;
  }
  ~NcclMemory() override {
    const OnCudaDevice here(device_);
    ncclMemFree(data());
  }

 private:
  NcclMemory(int device, char* data, int64_t bytes) : CommMemory(data, bytes), device_(device) {}
  const int device_;
};

// What is left to do for an average, once NCCL has the sum.
struct Division {
  void* data = nullptr;
  int64_t count = 0;
  DType dtype = DType::kUInt8;
};

class NcclCommunicator : public Communicator {
 public:
  explicit NcclCommunicator(const Setup& setup)
      : Communicator(setup.world.rank, setup.Names()),
        seed_(setup),
        timeout_(setup.options.timeout),
        device_(setup.options.device_index) {}
  ~NcclCommunicator() override {
    Abort();
    if (done_ != nullptr) cudaEventDestroy(done_);
  }

  absl::string_view backend() const override { return "nccl"; }
  bool takes_device_memory() const override { return true; }
  absl::Status CheckPeers() override {
    if (!ended_.ok()) return ended_;
    return host_ != nullptr ? host_->CheckPeers() : absl::OkStatus();
  }

  absl::Status Start(const ncclUniqueId& id);
  void set_host_communicator(std::unique_ptr<Communicator> host) {
    host_ = std::move(host);
    host_->BecomePart();
  }

 protected:
  absl::Status DoAllReduce(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op,
                           Placement placement) override {
    if (!placement.on_device) return host_->AllReduce(send, receive, count, dtype, op);
    return OnDevice(
        "ncclAllReduce", placement,
        [&](cudaStream_t stream) {
          return ncclAllReduce(send, receive, static_cast<size_t>(count), NcclType(dtype), NcclOp(op), comm_, stream);
        },
        Average(op, receive, count, dtype));
  }
  absl::Status DoReduceScatter(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op,
                               Placement placement) override {
    if (!placement.on_device) return host_->ReduceScatter(send, receive, count, dtype, op);
    return OnDevice(
        "ncclReduceScatter", placement,
        [&](cudaStream_t stream) {
          return ncclReduceScatter(send, receive, static_cast<size_t>(count), NcclType(dtype), NcclOp(op), comm_,
                                   stream);
        },
        Average(op, receive, count, dtype));
  }
  absl::Status DoAllGather(const void* send, void* receive, int64_t count, DType dtype, Placement placement) override {
    if (!placement.on_device) return host_->AllGather(send, receive, count, dtype);
    return OnDevice("ncclAllGather", placement, [&](cudaStream_t stream) {
      return ncclAllGather(send, receive, static_cast<size_t>(count), NcclType(dtype), comm_, stream);
    });
  }
  absl::Status DoBroadcast(void* buffer, int64_t count, DType dtype, int root, Placement placement) override {
    if (!placement.on_device) return host_->Broadcast(buffer, count, dtype, root);
    return OnDevice("ncclBroadcast", placement, [&](cudaStream_t stream) {
      return ncclBroadcast(buffer, buffer, static_cast<size_t>(count), NcclType(dtype), root, comm_, stream);
    });
  }
  absl::Status DoReduce(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op, int root,
                        Placement placement) override {
    if (!placement.on_device) return host_->Reduce(send, receive, count, dtype, op, root);
    return OnDevice(
        "ncclReduce", placement,
        [&](cudaStream_t stream) {
          return ncclReduce(send, receive, static_cast<size_t>(count), NcclType(dtype), NcclOp(op), root, comm_,
                            stream);
        },
        Average(op, receive, rank() == root ? count : 0, dtype));
  }
  absl::Status DoAllToAll(const void* send, void* receive, int64_t count, DType dtype, Placement placement) override {
    if (!placement.on_device) return host_->AllToAll(send, receive, count, dtype);
    return OnDevice("ncclSend and ncclRecv of an all-to-all", placement, [&](cudaStream_t stream) {
      return EnqueueAllToAll(static_cast<const char*>(send), static_cast<char*>(receive), count, dtype, stream);
    });
  }
  absl::Status DoBarrier() override { return host_->Barrier(); }
  absl::Status DoSend(const void* data, int64_t count, DType dtype, int peer, Placement placement) override {
    if (!placement.on_device) return host_->Send(data, count, dtype, peer);
    return OnDevice("ncclSend", placement, [&](cudaStream_t stream) {
      return ncclSend(data, static_cast<size_t>(count), NcclType(dtype), peer, comm_, stream);
    });
  }
  absl::Status DoReceive(void* data, int64_t count, DType dtype, int peer, Placement placement) override {
    if (!placement.on_device) return host_->Receive(data, count, dtype, peer);
    return OnDevice("ncclRecv", placement, [&](cudaStream_t stream) {
      return ncclRecv(data, static_cast<size_t>(count), NcclType(dtype), peer, comm_, stream);
    });
  }
  absl::StatusOr<std::unique_ptr<Communicator>> DoSplit(const SplitPart& part) override {
    return SplitFrom(*this, seed_, part.members, part.rank, &CreateNcclCommunicator);
  }
  absl::StatusOr<std::unique_ptr<CommMemory>> DoAllocate(int64_t bytes, Placement placement) override {
    return placement.on_device ? NcclMemory::Create(device_, bytes) : host_->Allocate(bytes);
  }
  void Abandon(const absl::Status& error) override {
    ended_ = error;
    Abort();
    if (host_ != nullptr) host_->EndPart(error);  // else this rank would seem to have left in order
  }

 private:
  // Also ends kernels that still run. Never waits for other ranks.
  void Abort() {
    if (comm_ != nullptr) ncclCommAbort(std::exchange(comm_, nullptr));
  }
  ncclResult_t EnqueueAllToAll(const char* send, char* receive, int64_t count, DType dtype, cudaStream_t stream) const;
  static Division Average(ReduceOp op, void* data, int64_t count, DType dtype) {
    return op == ReduceOp::kAverage ? Division{data, count, dtype} : Division{};
  }
  absl::Status OnDevice(const char* what, Placement placement, absl::FunctionRef<ncclResult_t(cudaStream_t)> call,
                        const Division& division = {});
  absl::Status AwaitEnqueued(const char* what, ncclResult_t result) const;
  absl::Status AwaitDevice(const char* what) const;
  absl::Status NcclError(const char* what, ncclResult_t state) const;

  const SplitSeed seed_;
  const absl::Duration timeout_;
  const int device_;
  ncclComm_t comm_ = nullptr;
  cudaEvent_t done_ = nullptr;
  std::unique_ptr<Communicator> host_;
  absl::Status ended_;  // the error that ended this communicator
};

absl::Status NcclCommunicator::Start(const ncclUniqueId& id) {
  DISTILL_RETURN_IF_ERROR(CudaError("cudaSetDevice", cudaSetDevice(device_)));
  DISTILL_RETURN_IF_ERROR(CudaError("cudaEventCreate", cudaEventCreateWithFlags(&done_, cudaEventDisableTiming)));
  DISTILL_RETURN_IF_ERROR(CudaError("loading kernels", LoadReduceKernels()));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.maxCTAs = kMaxBlocks;
  return AwaitEnqueued("ncclCommInitRankConfig", ncclCommInitRankConfig(&comm_, world_size(), id, rank(), &config));
}

ncclResult_t NcclCommunicator::EnqueueAllToAll(const char* send, char* receive, int64_t count, DType dtype,
                                               cudaStream_t stream) const {
  const int64_t bytes = count * SizeOf(dtype);
  ncclResult_t result = ncclGroupStart();
  for (int r = 0; r < world_size() && result == ncclSuccess; ++r) {
    result = ncclSend(send + r * bytes, static_cast<size_t>(count), NcclType(dtype), r, comm_, stream);
    if (result != ncclSuccess) break;
    result = ncclRecv(receive + r * bytes, static_cast<size_t>(count), NcclType(dtype), r, comm_, stream);
  }
  const ncclResult_t ended = ncclGroupEnd();
  return result == ncclSuccess ? ended : result;
}

absl::Status NcclCommunicator::OnDevice(const char* what, Placement placement,
                                        absl::FunctionRef<ncclResult_t(cudaStream_t)> call, const Division& division) {
  const auto stream = static_cast<cudaStream_t>(placement.stream);
  DISTILL_RETURN_IF_ERROR(CudaError("cudaSetDevice", cudaSetDevice(device_)));  // it is the thread's
  DISTILL_RETURN_IF_ERROR(AwaitEnqueued(what, call(stream)));
  const int divided = EnqueueReduce(division.data, &division.data, 1, division.count, division.dtype, DeviceOp::kSum,
                                    world_size(), stream);
  DISTILL_RETURN_IF_ERROR(CudaError("dividing an average", divided));
  DISTILL_RETURN_IF_ERROR(CudaError("cudaEventRecord", cudaEventRecord(done_, stream)));
  return AwaitDevice(what);
}

// Until NCCL has taken what it was asked for; for a collective that means that its kernel is on the stream.
absl::Status NcclCommunicator::AwaitEnqueued(const char* what, ncclResult_t result) const {
  const Deadline deadline = Deadline::After(timeout_);
  for (Backoff backoff; result == ncclSuccess || result == ncclInProgress; backoff.Pause()) {
    ncclResult_t state = ncclSuccess;
    result = ncclCommGetAsyncError(comm_, &state);
    if (result == ncclSuccess) result = state;
    if (result == ncclSuccess) return absl::OkStatus();
    if (!backoff.slow()) continue;
    if (host_ != nullptr) DISTILL_RETURN_IF_ERROR(host_->CheckPeers());
    if (deadline.Passed()) return deadline.Error(absl::StrCat(what, ": a rank never came; it"));
  }
  return NcclError(what, result);
}

absl::Status NcclCommunicator::AwaitDevice(const char* what) const {
  constexpr absl::Duration kLastWords = absl::Seconds(1);
  Deadline deadline = Deadline::After(timeout_);
  absl::Status peers;
  for (Backoff backoff;; backoff.Pause()) {
    const cudaError_t state = cudaEventQuery(done_);
    if (state != cudaErrorNotReady) return CudaError(what, state);
    cudaGetLastError();  // it remembers this as an error, and torch asks for one after its own kernels
    if (!backoff.slow()) continue;
    ncclResult_t failed = ncclSuccess;
    if (const ncclResult_t asked = ncclCommGetAsyncError(comm_, &failed); asked != ncclSuccess) failed = asked;
    if (failed != ncclSuccess && failed != ncclInProgress) return NcclError(what, failed);
    // What a peer has sent before it went may still be on its way.
    if (peers.ok() && !(peers = host_->CheckPeers()).ok()) {
      deadline = Deadline::After(std::min(kLastWords, deadline.Left()));
    }
    if (!deadline.Passed()) continue;
    return peers.ok() ? deadline.Error(absl::StrCat(what, ": waiting for the other ranks' GPUs")) : peers;
  }
}

absl::Status NcclCommunicator::NcclError(const char* what, ncclResult_t state) const {
  const char* detail = ncclGetLastError(comm_);
  const bool known = detail != nullptr && *detail != '\0';
  return absl::UnavailableError(
      absl::StrCat(what, ": ", ncclGetErrorString(state), known ? ": " : "", known ? detail : ""));
}

// Rank 0 makes the name under which NCCL's ranks meet.
absl::StatusOr<std::string> MakeId(int rank) {
  if (rank != 0) return std::string();
  ncclUniqueId id;
  if (const ncclResult_t result = ncclGetUniqueId(&id); result != ncclSuccess) {
    return absl::UnavailableError(absl::StrCat("ncclGetUniqueId: ", ncclGetErrorString(result)));
  }
  return std::string(id.internal, sizeof(id.internal));
}

}  // namespace

bool HasNccl() { return true; }

absl::StatusOr<std::string> NameGpu(int device_index) {
  if (device_index < 0) return std::string();
  char address[32] = {};
  DISTILL_RETURN_IF_ERROR(CudaError(absl::StrCat("asking for the PCI address of GPU ", device_index),
                                    cudaDeviceGetPCIBusId(address, sizeof(address), device_index)));
  return std::string(address);
}

MadeCommunicator CreateNcclCommunicator(Setup setup) {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> ids, setup.Exchange(MakeId(setup.world.rank)));
  ncclUniqueId id;
  if (ids[0].size() != sizeof(id.internal)) return absl::FailedPreconditionError("rank 0 uses another NCCL");
  std::memcpy(id.internal, ids[0].data(), sizeof(id.internal));
  auto made = std::make_unique<NcclCommunicator>(setup);
  DISTILL_RETURN_IF_ERROR(
      setup.ExchangeStatus(Annotate(made->Start(id), "starting NCCL (comm_backend shm goes without it)")));
  if (setup.world.world_size == 1 && setup.job_ranks.empty()) {
    made->set_host_communicator(CreateAloneCommunicator());
    return made;
  }
  DISTILL_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> host, CreateShmCommunicator(std::move(setup)));
  made->set_host_communicator(std::move(host));
  return made;
}

}  // namespace distill
