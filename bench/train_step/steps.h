// The benchmark's steps: batches made beforehand, with the time and the loss of each step kept.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "libdistill/distill.h"

namespace distill {

class TimedSteps : public Task {
 public:
  // One micro-batch a step. `loss_count`: what the loss of a batch counts.
  TimedSteps(std::function<torch::Tensor(const TokenBatch&)> loss, std::function<int64_t(const TokenBatch&)> loss_count,
             std::vector<TokenBatch> batches)
      : loss_(std::move(loss)), loss_count_(std::move(loss_count)), batches_(std::move(batches)) {}

  absl::StatusOr<int64_t> StepsInEpoch(int64_t) override { return static_cast<int64_t>(batches_.size()); }
  absl::StatusOr<std::vector<MicroStep>> NextStep() override;
  std::string Position() const override { return ""; }
  absl::Status Restore(const std::string&) override { return absl::UnimplementedError("a benchmark is not resumed"); }

  // This rank's mean loss of each step.
  const std::vector<double>& losses() const { return losses_; }
  // Median of a step, without the first one and the last; there must have been three or more.
  double MedianSeconds() const;
  // The most memory until the last step began.
  double peak_gib() const { return peak_gib_; }

 private:
  std::function<torch::Tensor(const TokenBatch&)> loss_;
  std::function<int64_t(const TokenBatch&)> loss_count_;
  std::vector<TokenBatch> batches_;
  std::vector<double> losses_;
  std::vector<std::chrono::steady_clock::time_point> starts_;
  double peak_gib_ = 0;
};

}  // namespace distill
