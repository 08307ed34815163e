// What a training step is made of, and where steps come from.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <torch/types.h>

#include "absl/status/status.h"
#include "libdistill/data/batch.h"
#include "libdistill/data/data_sharder.h"

namespace distill {

// One micro-batch's loss. `sums` are further sums over the same tokens that are reported as means ("kl", "ce").
struct LossSum {
  torch::Tensor loss;  // scalar with gradient; undefined when count is 0
  int64_t count = 0;
  std::map<std::string, torch::Tensor> sums = {};  // scalars, detached
};

// A micro-batch, whatever it is made of: how many loss tokens it has, and how to run its forward pass.
struct MicroStep {
  int64_t loss_count = 0;
  int64_t num_tokens = 0;
  int64_t num_samples = 0;
  std::function<LossSum()> forward;
};

// Where the steps of a task come from: the seam for batches other than TokenBatch.
class StepSource {
 public:
  virtual ~StepSource() = default;
  // The same on every rank, as all that follows about the number of steps.
  virtual int64_t steps_per_epoch() const = 0;
  // To be overridden where epochs differ.
  virtual int64_t steps_in_epoch(int64_t epoch) const {
    (void)epoch;
    return steps_per_epoch();
  }
  virtual std::vector<MicroStep> NextStep() = 0;
  // What must be the same on every rank for the steps to belong together, by name (settings, a checksum of the data).
  // Compared before the first step; to be overridden where there is such a thing.
  virtual std::vector<std::pair<std::string, std::string>> Fingerprint() const { return {}; }
  virtual ShardState state() const = 0;
  virtual absl::Status Restore(const ShardState& state) = 0;
};

using TokenLoss = std::function<LossSum(const TokenBatch&)>;

}  // namespace distill
