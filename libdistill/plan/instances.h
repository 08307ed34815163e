// The machines that a plan gives time and price for: bench/instances.yaml, which is a part of the program, or a file of
// the user's own in the same form.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace distill {

struct Instance {
  std::string name;  // "g5.2xlarge"
  int64_t gpus = 1;
  std::string gpu;           // "A10G"
  double gpu_memory_gb = 0;  // of each, in units of 10^9 bytes
  // Dense peak of one GPU in matrix products, in 10^12 operations a second; 0: no instructions for the type.
  double bf16_tflops = 0, fp16_tflops = 0, fp32_tflops = 0;
  double network_gbps = 0;  // 10^9 bits a second
  double dollars_per_hour = 0;
  std::string region, date;  // of the price
};

// NotFound: no such file. InvalidArgument names file, line and key: a key that is missing, unknown or given twice, a
// value of the wrong kind or out of range, a name that comes twice. `path`: empty for the list in the program.
[[nodiscard]] absl::StatusOr<std::vector<Instance>> ReadInstances(const std::string& path);
// The same from text; `name` stands for the file in messages.
[[nodiscard]] absl::StatusOr<std::vector<Instance>> ParseInstances(const std::string& text, const std::string& name);

// InvalidArgument lists the names that there are.
[[nodiscard]] absl::StatusOr<Instance> FindInstance(const std::vector<Instance>& instances, const std::string& name);

// What a job has of one GPU with so much memory: less CUDA's context, and a twentieth that the caching allocator cannot
// use.
int64_t UsableBytes(double gpu_memory_gb);

}  // namespace distill
