// LibTorch's CUDA part (libtorch_cuda and what it needs: cuBLAS, cuDNN and more). Programs are linked with the CPU's
// part alone, since the other costs 0.25 GiB of memory and 0.2 s of start also where there is no GPU. It is opened
// before main, and before the program's own objects at namespace scope, where the driver's library (libcuda.so.1) is
// installed; from there on it is as if it had been linked.
// Every program that links distill_tensor does that (CMakeLists.txt beside this file), whether it calls anything here
// or not.
#pragma once

#include <string>

namespace distill {

// Empty: it is there. Otherwise why not, as dlopen says it.
const std::string& WhyNoTorchCuda();

}  // namespace distill
