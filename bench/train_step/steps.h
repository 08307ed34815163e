// The benchmark's steps: batches made beforehand, with the time and the loss of each step kept.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "libdistill/distill.h"

namespace distill {

class TimedSteps : public StepSource {
 public:
  // One micro-batch a step. `loss_count`: what the loss of a batch will count.
  TimedSteps(TokenLoss loss, std::function<int64_t(const TokenBatch&)> loss_count, std::vector<TokenBatch> batches)
      : loss_(std::move(loss)), loss_count_(std::move(loss_count)), batches_(std::move(batches)) {}

  int64_t steps_per_epoch() const override { return static_cast<int64_t>(batches_.size()); }
  std::vector<MicroStep> NextStep() override;
  ShardState state() const override { return {}; }
  absl::Status Restore(const ShardState&) override { return absl::UnimplementedError("a benchmark is not resumed"); }

  // This rank's mean loss of each step.
  const std::vector<double>& losses() const { return losses_; }
  // Median of a step, the first two left out; there must have been four or more.
  double MedianSeconds() const;
  // The most memory until the last step began.
  double peak_gib() const { return peak_gib_; }

 private:
  TokenLoss loss_;
  std::function<int64_t(const TokenBatch&)> loss_count_;
  std::vector<TokenBatch> batches_;
  std::vector<double> losses_;
  std::vector<std::chrono::steady_clock::time_point> starts_;
  double peak_gib_ = 0;
};

}  // namespace distill
