#include "bench/machine.h"

#include <ATen/DeviceAccelerator.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace distill {
namespace {

// A line's number in a file of /proc/self; 0 where there is no such line.
double KiB(const char* name, const char* label) {
  std::ifstream file(absl::StrCat("/proc/self/", name));
  int64_t kib = 0;
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> words = absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    if (absl::StartsWith(line, label)) (void)absl::SimpleAtoi(words[1], &kib);
  }
  return static_cast<double>(kib);
}

}  // namespace

double MatrixRate(torch::Dtype dtype, torch::Device device) {
  constexpr int64_t kSize = 4096;
  const torch::Tensor a = torch::randn({kSize, kSize}).to(device, dtype);
  const torch::Tensor b = torch::randn({kSize, kSize}).to(device, dtype);
  double best = 0;
  for (int i = 0; i < 3; ++i) {
    Synchronize(device);
    const auto start = std::chrono::steady_clock::now();
    const torch::Tensor product = torch::mm(a, b);
    Synchronize(device);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::max(best, 2.0 * kSize * kSize * kSize / seconds);
  }
  return best;
}

void Synchronize(torch::Device device) {
  if (!device.is_cpu()) at::accelerator::synchronizeDevice(device.index());
}

double PeakGiB(torch::Device device) {
  constexpr double kGiB = 1 << 30;
  if (!device.is_cpu()) {
    constexpr size_t kAll = 0;  // of small and large blocks together
    return static_cast<double>(at::accelerator::getDeviceStats(device.index()).allocated_bytes[kAll].peak) / kGiB;
  }
  // Ranks map one another's buckets: of a page that n of them have, an n-th counts for each.
  const double of_others = KiB("status", "RssShmem:") - KiB("smaps_rollup", "Pss_Shmem:");
  return (KiB("status", "VmHWM:") - of_others) * 1024 / kGiB;
}

void ResetPeak(torch::Device device) {
  if (!device.is_cpu()) {
    at::accelerator::resetPeakStats(device.index());
    return;
  }
  std::ofstream("/proc/self/clear_refs") << "5";  // proc(5): the peak becomes what is resident now
}

}  // namespace distill
