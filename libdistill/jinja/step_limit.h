// How long a rendering may take.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "libdistill/jinja/value.h"

namespace distill::jinja {

// Bounds the steps of a rendering, and how deep they are nested.
class StepLimit {
 public:
  // One more step, one level deeper, until Leave; InvalidArgument beyond the limits.
  absl::Status Enter() {
    if (++depth_ > kMaxDepth) return Error("the recursion is too deep");
    return Take(1);
  }
  void Leave() { --depth_; }
  // So many more steps.
  absl::Status Take(int64_t steps) {
    steps_ += steps;
    return steps_ > kMaxSteps ? Error("the template runs for too long") : absl::OkStatus();
  }

 private:
  static constexpr int kMaxDepth = 1000;
  static constexpr int64_t kMaxSteps = 20'000'000;

  int depth_ = 0;
  int64_t steps_ = 0;
};

}  // namespace distill::jinja
