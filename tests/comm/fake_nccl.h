// What NCCL and CUDA's run-time library do in nccl_start_test.cc, on machines without a GPU: fake_nccl.cc defines the
// functions of both that comm/ calls, and the linker takes them in place of the libraries'. Every process has its own.
#pragma once

#include <functional>

namespace distill::testing {

struct FakeNccl {
  std::function<void()> begin = [] {};            // in ncclCommInitRankConfig
  int begin_result = 0;                           // of it; a ncclResult_t
  std::function<int()> state = [] { return 0; };  // what ncclCommGetAsyncError says
  std::function<void()> abort = [] {};            // in ncclCommAbort
  int set_device_result = 0;                      // of cudaSetDevice; a cudaError_t
  int capability = 90;                            // of every GPU
  int aborted = 0;                                // how often ncclCommAbort was called
};

FakeNccl& fake_nccl();

}  // namespace distill::testing
