// NCCL between the GPUs of a host. Buffers in device memory go through NCCL, on the caller's stream; buffers in host
// memory (agreements, barriers) through shared memory. NCCL runs in its non-blocking mode: its calls return at once
// and are asked for their state until the deadline. A call then waits for the device: a kernel whose peer has died
// spins for ever, NCCL inside a host does not notice, and only ncclCommAbort ends it. While it waits the call looks at
// the deadline, at NCCL's own errors, and at the other processes, which shared memory watches.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/cuda_calls.h"
#include "libdistill/comm/device_reduce.h"
#include "libdistill/comm/nccl_start.h"
#include "libdistill/comm/setup.h"
#include "libdistill/comm/split.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/backoff.h"

namespace distill {
namespace {

ncclDataType_t NcclType(DType dtype) {
  constexpr ncclDataType_t kTypes[] = {ncclFloat32, ncclFloat64, ncclFloat16, ncclBfloat16,
                                       ncclInt32,   ncclInt64,   ncclUint8};  // in the order of DType
  return kTypes[static_cast<size_t>(dtype)];
}

// An average is divided afterwards: ncclAvg multiplies every rank's part by 1/n.
ncclRedOp_t NcclOp(ReduceOp op) {
  constexpr ncclRedOp_t kOps[] = {ncclSum, ncclSum, ncclMin, ncclMax, ncclProd};  // in the order of ReduceOp
  return kOps[static_cast<size_t>(op)];
}

// Zeroed device memory as NCCL would choose it for its own buffers. ResourceExhausted: the device has not that much.
// It is not registered with a communicator (ncclCommRegister): NCCL leaves undefined what a call does where one rank's
// buffers are registered and another's are not, and Communicator::Allocate allows that.
absl::StatusOr<std::unique_ptr<CommMemory>> AllocateFor(int device, int64_t bytes) {
  DISTILL_RETURN_IF_ERROR(CudaError("cudaSetDevice", cudaSetDevice(device)));
  void* data = nullptr;
  if (const ncclResult_t result = ncclMemAlloc(&data, static_cast<size_t>(bytes)); result != ncclSuccess) {
    cudaGetLastError();  // else the next call on this thread would have it
    return absl::ResourceExhaustedError(
        absl::StrCat("no ", bytes, " bytes of device memory: ncclMemAlloc: ", ncclGetErrorString(result)));
  }
  auto memory = std::make_unique<CudaBytes>(device, data, bytes, &ncclMemFree);
  DISTILL_RETURN_IF_ERROR(CudaError("cudaMemset", cudaMemset(data, 0, static_cast<size_t>(bytes))));
  // cudaMemset may return before it is done, and streams of the caller's need not wait for it.
  DISTILL_RETURN_IF_ERROR(CudaError("cudaMemset", cudaStreamSynchronize(nullptr)));
  return memory;
}

// Thread blocks of a call's kernel, each of which may take a multiprocessor. A rank uses several communicators at a
// time (gradients, blocks of the student, blocks of the teacher), each from a thread of its own, so ranks launch their
// kernels in different orders, and each waits on the GPU for its like elsewhere. That comes to an end as long as all of
// them find room there at once, beside computing kernels, which end by themselves: with this bound those of three do on
// the 108 multiprocessors of an A100; on smaller GPUs, or with more sharded teachers, it is not sure.
// NCCL_LAUNCH_ORDER_IMPLICIT (2.26) is no way out: it runs kernels one after the other as each host launched them, and
// asks for the same order on all; a rank without tokens launches a pass's gathers ahead.
constexpr int kMaxBlocks = 32;

class NcclCommunicator : public CommBackend {
 public:
  explicit NcclCommunicator(const Setup& setup)
      : CommBackend(setup),
        seed_(setup),
        timeout_(setup.options.timeout),
        rendezvous_(setup.rendezvous),
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

  // What NCCL's start needs of this rank's device.
  absl::Status Prepare();
  void set_comm(ncclComm_t comm) { comm_ = comm; }
  void set_host_communicator(std::unique_ptr<CommBackend> host) {
    host_ = std::move(host);
    host_->BecomePart();
  }

 protected:
  absl::Status Execute(const CommCall& call) override {
    return call.placement.on_device ? OnDevice(call) : host_->Run(call);
  }
  absl::StatusOr<std::unique_ptr<Communicator>> DoSplit(const SplitPart& part) override {
    return SplitFrom(*this, seed_, part.members, &CreateNcclCommunicator);
  }
  absl::StatusOr<std::unique_ptr<CommMemory>> DoAllocate(int64_t bytes, Placement placement) override {
    return placement.on_device ? AllocateFor(device_, bytes) : host_->Allocate(bytes);
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
  absl::Status OnDevice(const CommCall& call);
  // Puts NCCL's work on the call's stream.
  ncclResult_t Enqueue(const CommCall& call) const;
  ncclResult_t EnqueueAllToAll(const CommCall& call) const;
  // What is left of an average once NCCL has the sum. Returns a cudaError_t.
  int EnqueueDivision(const CommCall& call) const;
  absl::Status AwaitEnqueued(const char* what, ncclResult_t result) const;
  absl::Status AwaitDevice(const char* what) const;

  const SplitSeed seed_;
  const absl::Duration timeout_;
  const std::shared_ptr<Rendezvous> rendezvous_;
  const int device_;
  ncclComm_t comm_ = nullptr;
  cudaEvent_t done_ = nullptr;
  std::unique_ptr<CommBackend> host_;
  absl::Status ended_;  // the error that ended this communicator
};

absl::Status NcclCommunicator::Prepare() {
  DISTILL_RETURN_IF_ERROR(CudaError("cudaSetDevice", cudaSetDevice(device_)));
  DISTILL_RETURN_IF_ERROR(CudaError("cudaEventCreate", cudaEventCreateWithFlags(&done_, cudaEventDisableTiming)));
  return CudaError("loading kernels", LoadReduceKernels());
}

ncclResult_t NcclCommunicator::Enqueue(const CommCall& call) const {
  const auto stream = static_cast<cudaStream_t>(call.placement.stream);
  const auto count = static_cast<size_t>(call.count);
  const ncclDataType_t type = NcclType(call.dtype);
  const ncclRedOp_t op = NcclOp(call.op);
  switch (call.operation) {
    case CommOperation::kAllReduce:
      return ncclAllReduce(call.input, call.output, count, type, op, comm_, stream);
    case CommOperation::kReduceScatter:
      return ncclReduceScatter(call.input, call.output, count, type, op, comm_, stream);
    case CommOperation::kAllGather:
      return ncclAllGather(call.input, call.output, count, type, comm_, stream);
    case CommOperation::kBroadcast:
      return ncclBroadcast(call.input, call.output, count, type, call.root, comm_, stream);
    case CommOperation::kReduce:
      return ncclReduce(call.input, call.output, count, type, op, call.root, comm_, stream);
    case CommOperation::kAllToAll:
      return EnqueueAllToAll(call);
    case CommOperation::kSend:
      return ncclSend(call.input, count, type, call.peer, comm_, stream);
    case CommOperation::kReceive:
      return ncclRecv(call.output, count, type, call.peer, comm_, stream);
    default:
      return ncclInvalidUsage;  // a barrier has no buffers, and none of them in device memory
  }
}

ncclResult_t NcclCommunicator::EnqueueAllToAll(const CommCall& call) const {
  const auto stream = static_cast<cudaStream_t>(call.placement.stream);
  const auto count = static_cast<size_t>(call.count);
  const ncclDataType_t type = NcclType(call.dtype);
  ncclResult_t result = ncclGroupStart();
  for (int r = 0; r < world_size() && result == ncclSuccess; ++r) {
    result = ncclSend(call.in() + r * call.bytes(), count, type, r, comm_, stream);
    if (result != ncclSuccess) break;
    result = ncclRecv(call.out() + r * call.bytes(), count, type, r, comm_, stream);
  }
  const ncclResult_t ended = ncclGroupEnd();
  return result == ncclSuccess ? ended : result;
}

int NcclCommunicator::EnqueueDivision(const CommCall& call) const {
  const bool has_sum = call.operation != CommOperation::kReduce || rank() == call.root;
  if (!Reduces(call.operation) || call.op != ReduceOp::kAverage || !has_sum) return cudaSuccess;
  const void* sum = call.output;
  return EnqueueReduce(call.output, &sum, 1, call.count, call.dtype, ReduceOp::kSum, world_size(),
                       call.placement.stream);
}

absl::Status NcclCommunicator::OnDevice(const CommCall& call) {
  const std::string what = absl::StrCat(NameOf(call.operation), " by NCCL");
  DISTILL_RETURN_IF_ERROR(CudaError("cudaSetDevice", cudaSetDevice(device_)));  // it is the thread's
  DISTILL_RETURN_IF_ERROR(AwaitEnqueued(what.c_str(), Enqueue(call)));
  DISTILL_RETURN_IF_ERROR(CudaError("dividing an average", EnqueueDivision(call)));
  const auto stream = static_cast<cudaStream_t>(call.placement.stream);
  DISTILL_RETURN_IF_ERROR(CudaError("cudaEventRecord", cudaEventRecord(done_, stream)));
  return AwaitDevice(what.c_str());
}

// Until NCCL has taken what it was asked for; for a collective that means that its kernel is on the stream.
absl::Status NcclCommunicator::AwaitEnqueued(const char* what, ncclResult_t result) const {
  const Deadline deadline = rendezvous_->DeadlineAfter(timeout_);
  for (Backoff backoff; result == ncclSuccess || result == ncclInProgress; backoff.Pause()) {
    ncclResult_t state = ncclSuccess;
    result = ncclCommGetAsyncError(comm_, &state);
    if (result == ncclSuccess) result = state;
    if (result == ncclSuccess) return absl::OkStatus();
    if (!backoff.slow()) continue;
    DISTILL_RETURN_IF_ERROR(host_->CheckPeers());
    if (deadline.Passed()) return deadline.Error(absl::StrCat(what, ": a rank never came; it"));
  }
  return NcclError(what, result, comm_);
}

absl::Status NcclCommunicator::AwaitDevice(const char* what) const {
  constexpr absl::Duration kLastWords = absl::Seconds(1);
  Deadline deadline = rendezvous_->DeadlineAfter(timeout_);
  absl::Status peers;
  for (Backoff backoff;; backoff.Pause()) {
    const cudaError_t state = cudaEventQuery(done_);
    if (state != cudaErrorNotReady) return CudaError(what, state);
    cudaGetLastError();  // it remembers this as an error, and torch asks for one after its own kernels
    if (!backoff.slow()) continue;
    ncclResult_t failed = ncclSuccess;
    if (const ncclResult_t asked = ncclCommGetAsyncError(comm_, &failed); asked != ncclSuccess) failed = asked;
    if (failed != ncclSuccess && failed != ncclInProgress) return NcclError(what, failed, comm_);
    // What a peer has sent before it went may still be on its way.
    if (peers.ok() && !(peers = host_->CheckPeers()).ok()) {
      deadline = Deadline::After(std::min(kLastWords, deadline.Left()));
    }
    if (!deadline.Passed()) continue;
    return peers.ok() ? deadline.Error(absl::StrCat(what, ": waiting for the other ranks' GPUs")) : peers;
  }
}

}  // namespace

bool HasNccl() { return true; }

MadeCommunicator CreateNcclCommunicator(Setup setup) {
  auto made = std::make_unique<NcclCommunicator>(setup);
  DISTILL_ASSIGN_OR_RETURN(ncclComm_t comm, StartNccl(setup, made->Prepare(), kMaxBlocks));
  made->set_comm(comm);
  const bool alone = setup.world.world_size == 1 && setup.job_ranks.empty();
  MadeCommunicator host = alone ? CreateAloneBackend() : CreateShmCommunicator(std::move(setup));
  DISTILL_RETURN_IF_ERROR(host.status());
  made->set_host_communicator(*std::move(host));
  return made;
}

}  // namespace distill
