#include "bench/train_step/steps.h"

#include <algorithm>

namespace distill {

TokenBatch RowsOfTokens(const std::vector<int64_t>& input_ids, int64_t rows, int64_t length) {
  TokenBatch batch;
  batch.rows = rows;
  batch.length = length;
  batch.input_ids.assign(input_ids.begin(), input_ids.end());
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < length; ++i) {
      batch.labels.push_back(i + 1 < length ? batch.input_ids[row * length + i + 1] : kIgnoreLabel);
    }
    batch.document_starts.push_back({0, length});
  }
  return batch;
}

std::vector<MicroStep> TimedSteps::NextStep() {
  const TokenBatch& batch = batches_[starts_.size() % batches_.size()];
  starts_.push_back(std::chrono::steady_clock::now());
  return {{.loss_count = batch.num_loss_tokens(),
           .num_tokens = batch.num_tokens(),
           .num_samples = batch.rows,
           .forward = [this, &batch] {
             LossSum loss = distiller_(batch);
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
