// The benchmark's steps: batches made beforehand, with the time and the loss of each step kept.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bench/train_step/recipe.h"
#include "libdistill/distill.h"

namespace distill {

class TimedSteps : public Task {
 public:
  // `accumulation`: micro-batches of a step, which divides their number. `trace_file`: if not empty, the last step is
  // traced, which takes its time; none of the other figures counts that step.
  TimedSteps(const BenchRecipe& recipe, std::vector<TokenBatch> batches, size_t accumulation = 1,
             std::string trace_file = "")
      : recipe_(recipe),
        device_(recipe.student->head_weight().device()),
        batches_(std::move(batches)),
        accumulation_(accumulation),
        trace_file_(std::move(trace_file)) {}

  absl::StatusOr<int64_t> StepsInEpoch(int64_t) override { return static_cast<int64_t>(steps()); }
  absl::StatusOr<std::vector<MicroStep>> NextStep() override;
  std::string Position() const override { return ""; }
  absl::Status Restore(const std::string&) override { return absl::UnimplementedError("a benchmark is not resumed"); }

  bool losses_are_final() const override { return recipe_.losses_are_final; }

  // This rank's mean loss of each micro-batch.
  const std::vector<double>& losses() const { return losses_; }
  // Median of a step, without the first one and the last; there must have been three or more.
  double MedianSeconds() const;
  // The most memory until the last step began (tensor/peak_memory.h).
  double peak_gib() const { return peak_gib_; }
  // Writes the trace, when the last step is over.
  void EndTrace();

 private:
  size_t steps() const { return batches_.size() / accumulation_; }
  MicroStep Micro(const TokenBatch& batch);

  const BenchRecipe& recipe_;
  torch::Device device_;
  std::vector<TokenBatch> batches_;
  size_t accumulation_;
  std::string trace_file_;
  std::vector<double> losses_;
  std::vector<std::chrono::steady_clock::time_point> starts_;
  double peak_gib_ = 0;
};

}  // namespace distill
