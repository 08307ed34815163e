#include "libdistill/plan/process_memory.h"

#include <malloc.h>

#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"

namespace distill {
namespace {

// Of LibTorch's code and tables: what the operations of a step touch beside a matrix product's. A page of a library
// comes in when its code first runs. The same for any model: 10 MiB with LibTorch 2.11 on x86-64.
constexpr int64_t kOfOtherOperations = 10 << 20;

// Libraries of matrix products keep the memory that they pack blocks into: of these sizes, all that they keep.
void MakeProduct(torch::Dtype dtype) {
  const torch::Tensor square = at::ones({512, 512}, torch::TensorOptions(dtype)).requires_grad_();
  at::mm(square, square).sum().backward();
}

}  // namespace

ProcessMemory MeasureProcess(torch::Dtype dtype) {
  MakeProduct(dtype);
  malloc_trim(0);
  ProcessMemory memory;
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> words = absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    if (words.size() < 2) continue;
    const int64_t bytes = std::atoll(words[1].c_str()) * 1024;
    if (words[0] == "RssAnon:") memory.own_bytes = bytes;
    if (words[0] == "RssFile:") memory.shared_bytes = bytes + kOfOtherOperations;
  }
  return memory;
}

}  // namespace distill
