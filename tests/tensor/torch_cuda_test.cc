#include "libdistill/tensor/torch_cuda.h"

#include <dlfcn.h>

#include <string>

#include <torch/cuda.h>

#include "absl/strings/match.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

bool IsLoaded(const char* library) { return dlopen(library, RTLD_LAZY | RTLD_NOLOAD) != nullptr; }

TEST_CASE("LibTorch's CUDA part is in the process where there is a driver, and nowhere else") {
  CHECK(IsLoaded("libtorch_cpu.so"));
  if (IsLoaded("libcuda.so.1")) {
    INFO(WhyNoTorchCuda());
    if (!absl::StrContains(WhyNoTorchCuda(),
                           "libtorch_cuda.so: cannot open")) {  // as where LibTorch is the CPU's alone
      CHECK(IsLoaded("libtorch_cuda.so"));
      CHECK(WhyNoTorchCuda().empty());
    }
    return;
  }
  CHECK_FALSE(IsLoaded("libtorch_cuda.so"));
  CHECK_FALSE(IsLoaded("libc10_cuda.so"));
  CHECK_FALSE(torch::cuda::is_available());
  CHECK(absl::StrContains(WhyNoTorchCuda(), "libcuda.so.1"));
}

}  // namespace
}  // namespace distill
