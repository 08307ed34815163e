#include "libdistill/tensor/peak_memory.h"

#include <malloc.h>

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

#include <array>
#include <atomic>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace distill {
namespace {

// Of LibTorch's code and tables: what the operations of a step touch beside a matrix product's. A page of a library
// comes in when its code first runs. The same for any model: 10 MiB with LibTorch 2.11 on x86-64.
constexpr int64_t kOfOtherOperations = 10 << 20;

// A line's number in a file of /proc/self; 0 where there is no such line.
int64_t KiB(const char* name, const char* label) {
  std::ifstream file(absl::StrCat("/proc/self/", name));
  int64_t kib = 0;
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> words = absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    if (absl::StartsWith(line, label)) (void)absl::SimpleAtoi(words[1], &kib);
  }
  return kib;
}

// A device without an index is the one in use, as everywhere in LibTorch but in what it tells of memory.
// Before its first tensor it has no statistics.
c10::DeviceIndex IndexOf(c10::Device device) {
  at::globalContext().lazyInitDevice(device.type());
  return device.has_index() ? device.index() : at::accelerator::getDeviceIndex();
}

constexpr size_t kAllBlocks = 0;  // of torch's statistics: small and large ones together

// Of this process on the CPU, by a line of /proc/self/status.
int64_t WithoutOthers(const char* label) {
  const int64_t of_others = KiB("status", "RssShmem:") - KiB("smaps_rollup", "Pss_Shmem:");
  return (KiB("status", label) - of_others) * 1024;
}

}  // namespace

int64_t PeakMemoryBytes(c10::Device device) {
  if (device.is_cpu()) return WithoutOthers("VmHWM:");
  return at::accelerator::getDeviceStats(IndexOf(device)).allocated_bytes[kAllBlocks].peak;
}

int64_t MemoryInUseBytes(c10::Device device) {
  if (!device.is_cpu()) return at::accelerator::getDeviceStats(IndexOf(device)).allocated_bytes[kAllBlocks].current;
  malloc_trim(0);
  return WithoutOthers("VmRSS:");
}

int64_t DeviceMemoryBytes(c10::Device device) {
  if (device.is_cpu()) return 0;
  static std::array<std::atomic<int64_t>, 64> known = {};
  const auto index = static_cast<size_t>(IndexOf(device));
  if (index >= known.size()) return 0;
  int64_t bytes = known[index];
  if (bytes == 0) {
    bytes = static_cast<int64_t>(at::accelerator::getMemoryInfo(static_cast<c10::DeviceIndex>(index)).second);
    known[index] = bytes;
  }
  return bytes;
}

void ResetPeakMemory(c10::Device device) {
  if (!device.is_cpu()) {
    at::accelerator::resetPeakStats(IndexOf(device));
    return;
  }
  std::ofstream("/proc/self/clear_refs") << "5";  // proc(5): the peak becomes what is resident now
}

ProcessMemory MeasureProcess(torch::Dtype dtype) {
  // Libraries of matrix products keep the memory that they pack blocks into: of these sizes, all that they keep.
  const torch::Tensor square = at::ones({512, 512}, torch::TensorOptions(dtype)).requires_grad_();
  at::mm(square, square).sum().backward();
  malloc_trim(0);
  return {.own_bytes = KiB("status", "RssAnon:") * 1024,
          .shared_bytes = KiB("status", "RssFile:") * 1024 + kOfOtherOperations};
}

}  // namespace distill
