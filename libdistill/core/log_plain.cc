// Log lines without spdlog, for builds on machines that have only LibTorch and nvcc (DISTILL_MINIMAL).
#include <cstdio>
#include <string>

#include "libdistill/core/identity.h"
#include "libdistill/core/log.h"

namespace distill {
namespace {

void Write(const char* level, absl::string_view message) {
  std::fprintf(stderr, "%s [%s] %s\n", level, DescribeIdentity().c_str(), std::string(message).c_str());
}

}  // namespace

void LogDebug(absl::string_view) {}
void LogInfo(absl::string_view message) {
  if (GetIdentity().rank == 0) Write("I", message);
}
void LogWarning(absl::string_view message) { Write("W", message); }
void LogError(absl::string_view message) { Write("E", message); }

}  // namespace distill
