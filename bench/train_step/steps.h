// The benchmark's steps: batches made beforehand, with the time and the loss of each step kept.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "libdistill/distill.h"

namespace distill {

// A batch of whole rows without padding: every token but a row's first is a label.
TokenBatch RowsOfTokens(const std::vector<int64_t>& input_ids, int64_t rows, int64_t length);

class TimedSteps : public StepSource {
 public:
  // `distiller` outlives this. One micro-batch a step.
  TimedSteps(Distiller& distiller, std::vector<TokenBatch> batches)
      : distiller_(distiller), batches_(std::move(batches)) {}

  int64_t steps_per_epoch() const override { return static_cast<int64_t>(batches_.size()); }
  std::vector<MicroStep> NextStep() override;
  ShardState state() const override { return {}; }
  absl::Status Restore(const ShardState&) override { return absl::UnimplementedError("a benchmark is not resumed"); }

  // This rank's mean loss of each step.
  const std::vector<double>& losses() const { return losses_; }
  // Median of a step, the first two left out; there must have been four or more.
  double MedianSeconds() const;

 private:
  Distiller& distiller_;
  std::vector<TokenBatch> batches_;
  std::vector<double> losses_;
  std::vector<std::chrono::steady_clock::time_point> starts_;
};

}  // namespace distill
