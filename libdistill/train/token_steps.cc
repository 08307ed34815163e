#include "libdistill/train/token_steps.h"

#include <memory>
#include <utility>

namespace distill {

std::vector<MicroStep> TokenSteps::NextStep() {
  std::vector<MicroStep> steps;
  for (TokenBatch& made : sharder_.NextStep()) {
    const auto batch = std::make_shared<const TokenBatch>(std::move(made));
    steps.push_back({.loss_count = batch->num_loss_tokens(),
                     .num_tokens = batch->num_tokens(),
                     .num_samples = static_cast<int64_t>(batch->sample_ids.size()),
                     .forward = [loss = loss_, batch] { return loss(*batch); }});
  }
  return steps;
}

}  // namespace distill
