#include "bench/train_step/steps.h"

#include <algorithm>

#include "libdistill/tensor/peak_memory.h"

namespace distill {

std::vector<MicroStep> TimedSteps::NextStep() {
  if (starts_.size() + 1 == batches_.size()) peak_gib_ = static_cast<double>(PeakMemoryBytes(torch::kCPU)) / (1 << 30);
  const TokenBatch& batch = batches_[starts_.size() % batches_.size()];
  starts_.push_back(std::chrono::steady_clock::now());
  return {{.loss_count = loss_count_(batch),
           .num_tokens = batch.num_tokens(),
           .num_samples = batch.rows,
           .forward = [this, &batch] {
             LossSum loss = loss_(batch);
             losses_.push_back(loss.loss.item<double>() / static_cast<double>(loss.count));
             return loss;
           }}};
}

double TimedSteps::MedianSeconds() const {
  std::vector<double> seconds;
  for (size_t i = 3; i < starts_.size(); ++i) {
    seconds.push_back(std::chrono::duration<double>(starts_[i] - starts_[i - 1]).count());
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

}  // namespace distill
