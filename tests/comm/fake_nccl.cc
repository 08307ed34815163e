#include "tests/comm/fake_nccl.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdio>
#include <cstring>

struct ncclComm {};

namespace distill::testing {

FakeNccl& fake_nccl() {
  static FakeNccl fake;
  return fake;
}

}  // namespace distill::testing

namespace {

distill::testing::FakeNccl& fake() { return distill::testing::fake_nccl(); }
ncclComm the_only_one;

}  // namespace

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) { return std::memset(id, 1, sizeof(*id)), ncclSuccess; }
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int, ncclUniqueId, int, ncclConfig_t* config) {
  fake().begin();
  const auto result = static_cast<ncclResult_t>(fake().begin_result);
  if (config->blocking != 0) return ncclInvalidUsage;
  *comm = result == ncclSuccess ? &the_only_one : nullptr;  // as NCCL does
  return result == ncclSuccess ? ncclInProgress : result;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* state) {
  *state = static_cast<ncclResult_t>(fake().state());
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t) {
  ++fake().aborted;
  fake().abort();
  return ncclSuccess;
}
const char* ncclGetLastError(ncclComm_t) { return "what the fake NCCL met"; }
const char* ncclGetErrorString(ncclResult_t result) { return result == ncclSystemError ? "system error" : "error"; }

cudaError_t cudaSetDevice(int) { return static_cast<cudaError_t>(fake().set_device_result); }
cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return *event = nullptr, cudaSuccess; }
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes*, const void*) { return cudaSuccess; }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  const bool is_major = attribute == cudaDevAttrComputeCapabilityMajor;
  return *value = is_major ? fake().capability / 10 : fake().capability % 10, cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* address, int bytes, int device) {
  std::snprintf(address, static_cast<size_t>(bytes), "0000:%02x:00.0", device);
  return cudaSuccess;
}
}
