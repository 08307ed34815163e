// The library's version, and what this build was made with (for --version and bug reports).
#pragma once

#include <string>

namespace distill {

// "0.1.0"
const char* Version();
// "libdistill 0.1.0 (CUDA 13.0, NCCL)" or "libdistill 0.1.0 (CPU only)".
std::string VersionLine();

}  // namespace distill
