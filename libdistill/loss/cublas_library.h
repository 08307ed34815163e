// Functions of cublasLt, which comes with LibTorch's CUDA part; inside loss/ only. They are looked up at run time:
// linked, the library would take half a gigabyte of addresses and a longer start where there is no GPU.
#pragma once

#include "absl/status/statusor.h"

namespace distill {

// Opens the library of that major version on the first call, for as long as the process lives. Unimplemented: it is not
// found, or has no such function.
[[nodiscard]] absl::StatusOr<void*> FindInCublasLt(int major, const char* function);

}  // namespace distill
