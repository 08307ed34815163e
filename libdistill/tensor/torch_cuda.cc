#include "libdistill/tensor/torch_cuda.h"

#include <dlfcn.h>

namespace distill {
namespace {

// As long as the process lives: LibTorch keeps pointers into both.
std::string Open() {
  if (dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) == nullptr) return dlerror();
  if (dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_GLOBAL) == nullptr) return dlerror();
  return "";
}

}  // namespace

const std::string& WhyNoTorchCuda() {
  static const auto* const why = new std::string(Open());
  return *why;
}

}  // namespace distill

// LibTorch asks once whether it has a CUDA part, when anything first needs to know. So this runs before the program's
// own objects at namespace scope are made, one of which may ask; only what other shared libraries do when they are
// loaded comes earlier. The linker is told to look for this name, which brings this file into every program.
extern "C" __attribute__((constructor(101))) void distill_opens_torch_cuda() { (void)distill::WhyNoTorchCuda(); }
