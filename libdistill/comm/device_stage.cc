#include "libdistill/comm/device_stage.h"

#include <cuda_runtime_api.h>

#include <array>

#include "absl/strings/str_cat.h"
#include "libdistill/core/deadline.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/backoff.h"

namespace distill {
namespace {

absl::Status CudaError(absl::string_view what, cudaError_t code) {
  if (code == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(what, ": ", cudaGetErrorString(code)));
}

class CudaStage : public DeviceStage {
 public:
  CudaStage(int device_index, absl::Duration timeout) : device_(device_index), timeout_(timeout) {}
  ~CudaStage() override {
    cudaSetDevice(device_);
    for (Slot& slot : slots_) {
      if (slot.done != nullptr) cudaEventDestroy(slot.done);
      if (slot.data != nullptr) cudaFreeHost(slot.data);
    }
    if (called_ != nullptr) cudaEventDestroy(called_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  absl::Status Open(int64_t slot_bytes) {
    DISTILL_RETURN_IF_ERROR(CudaError("cudaSetDevice", cudaSetDevice(device_)));
    DISTILL_RETURN_IF_ERROR(CudaError("cudaStreamCreate", cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)));
    DISTILL_RETURN_IF_ERROR(CudaError("cudaEventCreate", cudaEventCreateWithFlags(&called_, cudaEventDisableTiming)));
    for (Slot& slot : slots_) {
      DISTILL_RETURN_IF_ERROR(CudaError(absl::StrCat("pinning ", slot_bytes, " bytes of host memory"),
                                        cudaHostAlloc(&slot.data, static_cast<size_t>(slot_bytes), 0)));
      DISTILL_RETURN_IF_ERROR(
          CudaError("cudaEventCreate", cudaEventCreateWithFlags(&slot.done, cudaEventDisableTiming)));
    }
    return absl::OkStatus();
  }

  char* slot(int64_t segment) const override { return static_cast<char*>(At(segment).data); }
  absl::Status CopyOut(int64_t segment, const void* device_memory, int64_t bytes) override {
    return Begin(slot(segment), device_memory, bytes, stream_, At(segment).done);
  }
  absl::Status CopyIn(void* device_memory, int64_t segment, int64_t bytes) override {
    return Begin(device_memory, slot(segment), bytes, stream_, At(segment).done);
  }
  absl::Status Await(int64_t segment) override { return AwaitEvent(At(segment).done); }
  absl::Status Copy(void* to, const void* from, int64_t bytes, void* stream) override {
    DISTILL_RETURN_IF_ERROR(Begin(to, from, bytes, static_cast<cudaStream_t>(stream), called_));
    return AwaitEvent(called_);
  }

 private:
  struct Slot {
    void* data = nullptr;
    cudaEvent_t done = nullptr;
  };
  const Slot& At(int64_t segment) const { return slots_[static_cast<size_t>(segment % 2)]; }

  absl::Status Begin(void* to, const void* from, int64_t bytes, cudaStream_t stream, cudaEvent_t done) const {
    DISTILL_RETURN_IF_ERROR(CudaError("cudaSetDevice", cudaSetDevice(device_)));  // it is the thread's
    DISTILL_RETURN_IF_ERROR(
        CudaError("cudaMemcpyAsync", cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault, stream)));
    return CudaError("cudaEventRecord", cudaEventRecord(done, stream));
  }

  absl::Status AwaitEvent(cudaEvent_t done) const {
    const Deadline deadline = Deadline::After(timeout_);
    for (Backoff backoff;; backoff.Pause()) {
      const cudaError_t state = cudaEventQuery(done);
      if (state != cudaErrorNotReady) return CudaError("a copy between device and host memory", state);
      if (backoff.slow() && deadline.Passed()) return deadline.Error("a copy between device and host memory");
    }
  }

  const int device_;
  const absl::Duration timeout_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t called_ = nullptr;
  std::array<Slot, 2> slots_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceStage>> DeviceStage::Create(int device_index, int64_t slot_bytes,
                                                                 absl::Duration timeout) {
  auto stage = std::make_unique<CudaStage>(device_index, timeout);
  DISTILL_RETURN_IF_ERROR(stage->Open(slot_bytes));
  return stage;
}

}  // namespace distill
