// Which build of a program runs: ranks that run different ones would compute different things.
#pragma once

#include <string>

namespace distill {

// The version, a hash of the program's file, and of LibTorch's libraries, where they are loaded, build ids:
// "libdistill 0.1.0 (CPU only), program 0f..., libc10.so 3a..., libtorch_cpu.so 7c...". Reads the program's file once
// (10 ms for 40 MB that are in memory already); "unknown" where that cannot be done.
std::string BuildId();

}  // namespace distill
