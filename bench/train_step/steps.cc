#include "bench/train_step/steps.h"

#include <algorithm>

#include "libdistill/tensor/peak_memory.h"

namespace distill {

absl::StatusOr<std::vector<MicroStep>> TimedSteps::NextStep() {
  if (starts_.size() + 1 == steps()) peak_gib_ = static_cast<double>(PeakMemoryBytes(device_)) / (1 << 30);
  const size_t first = starts_.size() % steps() * accumulation_;
  starts_.push_back(std::chrono::steady_clock::now());
  std::vector<MicroStep> step;
  for (size_t i = 0; i < accumulation_; ++i) step.push_back(Micro(batches_[first + i]));
  return step;
}

MicroStep TimedSteps::Micro(const TokenBatch& batch) {
  const int64_t count = recipe_.loss_count(batch);
  return {.counts = {count},
          .num_tokens = batch.num_tokens(),
          .num_samples = batch.rows,
          .forward = [this, &batch, count](const PassScale&) {
            const torch::Tensor sum = recipe_.loss(batch);
            losses_.push_back(sum.item<double>() / static_cast<double>(count));
            return Losses{{"loss", sum, count}};
          }};
}

double TimedSteps::MedianSeconds() const {
  std::vector<double> seconds;
  for (size_t i = 2; i < starts_.size(); ++i) {
    seconds.push_back(std::chrono::duration<double>(starts_[i] - starts_[i - 1]).count());
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

}  // namespace distill
