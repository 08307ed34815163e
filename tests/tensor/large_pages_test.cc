#include "libdistill/tensor/large_pages.h"

#include <torch/types.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

#include "tests/support/catch.h"

namespace distill {
namespace {

// The flags (proc_pid_smaps(5)) of the mapping that holds this address.
std::string FlagsAt(const void* address) {
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  std::ifstream maps("/proc/self/smaps");
  bool is_it = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    char follows = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx%c", &begin, &end, &follows) == 3 && follows == ' ') {
      is_it = begin <= wanted && wanted < end;
    }
    if (is_it && line.compare(0, 8, "VmFlags:") == 0) return line.substr(8) + " ";
  }
  return "";
}

bool IsAdvised(const torch::Tensor& tensor) {
  const auto* middle = static_cast<const char*>(tensor.const_data_ptr()) + tensor.nbytes() / 2;
  return FlagsAt(middle).find(" hg ") != std::string::npos;
}

TEST_CASE("large tensors ask for large pages, and small ones do not", "[large_pages]") {
  if (!std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled").good()) {
    std::printf("skipped: this kernel has no large pages\n");
    return;
  }
  UseLargePages();
  UseLargePages();  // does no more
  const torch::Tensor large = torch::empty({64 << 20}, torch::kUInt8), small = torch::empty({4 << 20}, torch::kUInt8);
  CHECK(IsAdvised(large));
  CHECK_FALSE(IsAdvised(small));
}

TEST_CASE("tensors on large pages are written, grown and copied as others are") {
  UseLargePages();
  torch::Tensor values = torch::arange(16 << 20, torch::kInt32);  // 64 MiB
  const torch::Tensor copy = values.clone();
  values.resize_({24 << 20});
  CHECK(values.narrow(0, 0, 16 << 20).equal(copy));
  values.resize_({1});
  CHECK(values.item<int32_t>() == 0);
}

}  // namespace
}  // namespace distill
