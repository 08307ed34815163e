#include "libdistill/comm/device_memory.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/cuda_calls.h"
#include "libdistill/comm/device_reduce.h"
#include "libdistill/core/deadline.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/backoff.h"

namespace distill {
namespace {

// From cudaMalloc, which network cards can reach, or of the host, from cudaHostAlloc.
absl::StatusOr<std::unique_ptr<CommMemory>> AllocateFor(int device, int64_t bytes, bool pinned) {
  DISTILL_RETURN_IF_ERROR(CudaError("cudaSetDevice", cudaSetDevice(device)));
  void* data = nullptr;
  const size_t size = static_cast<size_t>(bytes);
  const cudaError_t code = pinned ? cudaHostAlloc(&data, size, cudaHostAllocDefault) : cudaMalloc(&data, size);
  if (code == cudaSuccess) return std::make_unique<CudaBytes>(device, data, bytes, pinned ? &cudaFreeHost : &cudaFree);
  cudaGetLastError();  // else the next call on this thread would have it
  return absl::ResourceExhaustedError(absl::StrCat(
      "no ", bytes, pinned ? " bytes of pinned host memory: " : " bytes of device memory: ", cudaGetErrorString(code)));
}

class CudaMemory : public DeviceMemory {
 public:
  CudaMemory(int device_index, absl::Duration timeout) : device_(device_index), timeout_(timeout) {}
  ~CudaMemory() override {
    const OnCudaDevice here(device_);
    for (const cudaEvent_t event : {copied_[0], copied_[1], called_, reduced_}) {
      if (event != nullptr) cudaEventDestroy(event);
    }
    for (const cudaStream_t stream : {copies_[0], copies_[1], reductions_}) {
      if (stream != nullptr) cudaStreamDestroy(stream);
    }
  }
  absl::Status Open();

  int device_index() const override { return device_; }
  std::string pci_address() const override {
    char address[32] = "";
    return cudaDeviceGetPCIBusId(address, sizeof(address), device_) == cudaSuccess ? address : "";
  }
  absl::Status CheckNetworkAccess() const override;
  absl::StatusOr<std::unique_ptr<CommMemory>> Allocate(int64_t bytes) override {
    return AllocateFor(device_, bytes, /*pinned=*/false);
  }
  absl::StatusOr<std::unique_ptr<CommMemory>> AllocatePinned(int64_t bytes) override {
    return AllocateFor(device_, bytes, /*pinned=*/true);
  }
  absl::Status BeginCopy(int64_t segment, void* to, const void* from, int64_t bytes) override {
    const size_t which = static_cast<size_t>(segment % 2);
    return Begin(to, from, bytes, copies_[which], copied_[which]);
  }
  absl::Status AwaitCopy(int64_t segment) override { return Await(copied_[static_cast<size_t>(segment % 2)], kCopy); }
  absl::Status Copy(void* to, const void* from, int64_t bytes, void* stream) override {
    DISTILL_RETURN_IF_ERROR(Begin(to, from, bytes, static_cast<cudaStream_t>(stream), called_));
    return Await(called_, kCopy);
  }
  absl::Status CopyRows(absl::Span<const Rows> copies, void* stream) override;
  absl::Status Reduce(void* out, const void* const* sources, int source_count, int64_t count, DType dtype, ReduceOp op,
                      int divisor) override;
  absl::Status AwaitNetwork() override;

 private:
  static constexpr const char* kCopy = "a copy between device and host memory";
  absl::Status Begin(void* to, const void* from, int64_t bytes, cudaStream_t stream, cudaEvent_t done) const;
  // Returns a cudaError_t.
  int Enqueue(const Rows& copy, cudaStream_t stream) const;
  absl::Status Await(cudaEvent_t done, const char* what) const;

  const int device_;
  const absl::Duration timeout_;
  int64_t longest_pitch_ = 0;  // of cudaMemcpy2D
  bool flushes_ = false;       // what network cards write has to be flushed before it is read
  std::array<cudaStream_t, 2> copies_ = {nullptr, nullptr};  // segments alternate: one's way out, the other's way in
  cudaStream_t reductions_ = nullptr;
  cudaEvent_t called_ = nullptr;
  cudaEvent_t reduced_ = nullptr;
  std::array<cudaEvent_t, 2> copied_ = {nullptr, nullptr};
};

absl::Status CudaMemory::Open() {
  DISTILL_RETURN_IF_ERROR(CudaError("cudaSetDevice", cudaSetDevice(device_)));
  int least = 0;
  int greatest = 0;
  DISTILL_RETURN_IF_ERROR(
      CudaError("cudaDeviceGetStreamPriorityRange",  // so that a backward pass does not hold them up
                cudaDeviceGetStreamPriorityRange(&least, &greatest)));
  for (cudaStream_t* stream : {&copies_[0], &copies_[1], &reductions_}) {
    DISTILL_RETURN_IF_ERROR(
        CudaError("cudaStreamCreate", cudaStreamCreateWithPriority(stream, cudaStreamNonBlocking, greatest)));
  }
  for (cudaEvent_t* event : {&copied_[0], &copied_[1], &called_, &reduced_}) {
    DISTILL_RETURN_IF_ERROR(CudaError("cudaEventCreate", cudaEventCreateWithFlags(event, cudaEventDisableTiming)));
  }
  int pitch = 0;
  DISTILL_RETURN_IF_ERROR(
      CudaError("asking for the longest pitch", cudaDeviceGetAttribute(&pitch, cudaDevAttrMaxPitch, device_)));
  longest_pitch_ = pitch;
  int ordering = 0;
  DISTILL_RETURN_IF_ERROR(
      CudaError("asking for the order of a network card's writes",
                cudaDeviceGetAttribute(&ordering, cudaDevAttrGPUDirectRDMAWritesOrdering, device_)));
  flushes_ = ordering < cudaGPUDirectRDMAWritesOrderingOwner;
  return CudaError("loading the kernels of reductions", LoadReduceKernels());
}

absl::Status CudaMemory::CheckNetworkAccess() const {
  int reachable = 0;
  DISTILL_RETURN_IF_ERROR(CudaError("asking for GPUDirect RDMA",
                                    cudaDeviceGetAttribute(&reachable, cudaDevAttrGPUDirectRDMASupported, device_)));
  if (reachable == 0) return absl::FailedPreconditionError("the GPU has no GPUDirect RDMA");
  if (!flushes_) return absl::OkStatus();
  int options = 0;
  DISTILL_RETURN_IF_ERROR(
      CudaError("asking how a network card's writes are flushed",
                cudaDeviceGetAttribute(&options, cudaDevAttrGPUDirectRDMAFlushWritesOptions, device_)));
  if ((options & cudaFlushGPUDirectRDMAWritesOptionHost) != 0) return absl::OkStatus();
  return absl::FailedPreconditionError("the GPU neither orders nor flushes what a network card writes");
}

absl::Status CudaMemory::Begin(void* to, const void* from, int64_t bytes, cudaStream_t stream, cudaEvent_t done) const {
  DISTILL_RETURN_IF_ERROR(CudaError("cudaSetDevice", cudaSetDevice(device_)));  // it is the thread's
  DISTILL_RETURN_IF_ERROR(
      CudaError("cudaMemcpyAsync", cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault, stream)));
  return CudaError("cudaEventRecord", cudaEventRecord(done, stream));
}

int CudaMemory::Enqueue(const Rows& copy, cudaStream_t stream) const {
  const auto width = static_cast<size_t>(copy.row_bytes);
  const auto rows = static_cast<size_t>(copy.rows);
  if (copy.solid()) return cudaMemcpyAsync(copy.to, copy.from, width * rows, cudaMemcpyDeviceToDevice, stream);
  if (std::max(copy.to_pitch, copy.from_pitch) <= longest_pitch_) {
    return cudaMemcpy2DAsync(copy.to, static_cast<size_t>(copy.to_pitch), copy.from,
                             static_cast<size_t>(copy.from_pitch), width, rows, cudaMemcpyDeviceToDevice, stream);
  }
  cudaError_t code = cudaSuccess;  // rows that lie so far apart are long
  for (int64_t row = 0; row < copy.rows && code == cudaSuccess; ++row) {
    code = cudaMemcpyAsync(copy.to + row * copy.to_pitch, copy.from + row * copy.from_pitch, width,
                           cudaMemcpyDeviceToDevice, stream);
  }
  return code;
}

absl::Status CudaMemory::CopyRows(absl::Span<const Rows> copies, void* stream) {
  DISTILL_RETURN_IF_ERROR(CudaError("cudaSetDevice", cudaSetDevice(device_)));
  for (const Rows& copy : copies) {
    DISTILL_RETURN_IF_ERROR(CudaError("a copy of rows", Enqueue(copy, static_cast<cudaStream_t>(stream))));
  }
  DISTILL_RETURN_IF_ERROR(CudaError("cudaEventRecord", cudaEventRecord(called_, static_cast<cudaStream_t>(stream))));
  return Await(called_, "a copy of rows");
}

absl::Status CudaMemory::Await(cudaEvent_t done, const char* what) const {
  const Deadline deadline = Deadline::After(timeout_);
  for (Backoff backoff;; backoff.Pause()) {
    const cudaError_t state = cudaEventQuery(done);
    if (state != cudaErrorNotReady) return CudaError(what, state);
    cudaGetLastError();  // it remembers this as an error, for whoever asks next on this thread
    if (backoff.slow() && deadline.Passed()) return deadline.Error(what);
  }
}

absl::Status CudaMemory::Reduce(void* out, const void* const* sources, int source_count, int64_t count, DType dtype,
                                ReduceOp op, int divisor) {
  DISTILL_RETURN_IF_ERROR(CudaError("cudaSetDevice", cudaSetDevice(device_)));
  const int code = EnqueueReduce(out, sources, source_count, count, dtype, op, divisor, reductions_);
  DISTILL_RETURN_IF_ERROR(CudaError("a reduction on the device", code));
  DISTILL_RETURN_IF_ERROR(CudaError("cudaEventRecord", cudaEventRecord(reduced_, reductions_)));
  return Await(reduced_, "a reduction on the device");
}

absl::Status CudaMemory::AwaitNetwork() {
  if (!flushes_) return absl::OkStatus();
  DISTILL_RETURN_IF_ERROR(CudaError("cudaSetDevice", cudaSetDevice(device_)));
  return CudaError("flushing what a network card wrote",
                   cudaDeviceFlushGPUDirectRDMAWrites(cudaFlushGPUDirectRDMAWritesTargetCurrentDevice,
                                                      cudaFlushGPUDirectRDMAWritesToOwner));
}

}  // namespace

absl::StatusOr<std::shared_ptr<DeviceMemory>> DeviceMemory::Open(int device_index, absl::Duration timeout) {
  auto memory = std::make_shared<CudaMemory>(device_index, timeout);
  DISTILL_RETURN_IF_ERROR(memory->Open());
  return memory;
}

}  // namespace distill
