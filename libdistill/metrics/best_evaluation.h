// The best evaluation of a run so far, and how many came after it in a row. The same on every rank, as metrics are.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "libdistill/metrics/evaluation_options.h"
#include "libdistill/proto/checkpoint_messages.h"

namespace distill {

class BestEvaluation {
 public:
  // `losses`: metrics that are better when they are smaller, by what they are to the task.
  BestEvaluation(const BestModelOptions& options, const std::vector<std::string>& losses);

  // Nothing where the options ask for no metric. InvalidArgument: it is missing; those that there are are named.
  [[nodiscard]] absl::Status Check(const std::map<std::string, double>& metrics) const;

  // Check's error. A metric that is not finite is never the best.
  [[nodiscard]] absl::Status Note(int64_t step, const std::map<std::string, double>& metrics);

  int64_t step() const { return step_; }  // 0: none yet
  const std::map<std::string, double>& metrics() const { return metrics_; }
  // Whether early_stopping_patience is used up.
  bool is_exhausted() const;
  // "loss is best at step 20 with 1.25".
  std::string Text() const;

  void SaveTo(TrainerState& state) const;
  // Nothing of a run that compared something else.
  void Restore(const TrainerState& state);

 private:
  bool IsBetter(double value, double margin) const;
  std::string Compared() const;

  const BestModelOptions options_;
  const std::string metric_;
  const bool greater_is_better_;
  int64_t step_ = 0;
  std::map<std::string, double> metrics_;
  int64_t since_best_ = 0;  // evaluations in a row that were not better by the threshold
};

}  // namespace distill
