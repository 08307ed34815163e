// What can be said of flash attention without a GPU: when it is refused.
#include "libdistill/nn/flash_attention.h"

#include "absl/strings/match.h"
#include "tests/support/catch.h"

namespace distill {

TEST_CASE("flash attention is refused on a CPU and in float32, by name") {
  const absl::Status on_cpu = CheckFlashAttention(torch::kCPU, torch::kBFloat16);
  CHECK(on_cpu.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(on_cpu.message(), "use_flash_attention: true needs a GPU"));
  const absl::Status in_float32 = CheckFlashAttention(torch::Device(torch::kCUDA, 0), torch::kFloat32);
  CHECK(in_float32.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(in_float32.message(), "use_flash_attention"));
  CHECK(absl::StrContains(in_float32.message(), "bf16: true"));
  CHECK(CheckFlashAttention(torch::Device(torch::kCUDA, 0), torch::kBFloat16).ok());
}

}  // namespace distill
