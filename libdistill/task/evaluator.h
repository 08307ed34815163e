// How a task is evaluated: one pass over held-out data, of which each rank has a part, gathered into named metrics.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/task/losses.h"

namespace distill {

using Fields = std::vector<std::pair<std::string, std::string>>;  // names and values that ranks compare

// Predictions of all ranks by sample id, as the passes wrote them: each sample once, whatever rank had it.
using Predictions = std::map<int64_t, std::string>;
using MetricValues = std::map<std::string, double>;

// What the passes of one rank gather.
class Metrics {
 public:
  // Adds to a mean over all ranks: of `sum` over `count` elements. `sum`: a scalar tensor, on any device, or a number.
  void Mean(const std::string& name, const torch::Tensor& sum, int64_t count) { means_.Add({name, sum, count}); }
  void Mean(const std::string& name, double sum, int64_t count) {
    means_.Add({name, torch::scalar_tensor(sum, torch::kFloat64), count});
  }
  // What the model says of a sample, as bytes that Evaluator::Summarize reads: for metrics that are no means. Of a
  // sample that comes again the first prediction counts.
  void Predict(int64_t sample_id, std::string prediction) { predictions_.emplace(sample_id, std::move(prediction)); }

  const TermSums& means() const { return means_; }
  const Predictions& predictions() const { return predictions_; }

 private:
  TermSums means_;
  Predictions predictions_;
};

class Evaluator {
 public:
  // A pass over one micro-batch, without gradients and in evaluation mode; null for a rank that has none in a step in
  // which others do.
  using Pass = std::function<absl::Status(Metrics& metrics)>;

  virtual ~Evaluator() = default;
  // Before a pass over the data: back to the first sample, for a model on `device`.
  [[nodiscard]] virtual absl::Status Start(c10::Device device) = 0;
  // The same on every rank, as the number of passes of each step.
  [[nodiscard]] virtual absl::StatusOr<int64_t> Steps() = 0;
  // This rank's micro-batches of the next step.
  [[nodiscard]] virtual absl::StatusOr<std::vector<Pass>> NextStep() = 0;
  // After the last step: lets go of what was made ahead.
  virtual void Stop() {}
  // The metrics of the whole pass, by name: `means` of all ranks, and what follows from the predictions of all. Called
  // on rank 0 alone, whose answer, or error, is every rank's.
  [[nodiscard]] virtual absl::StatusOr<MetricValues> Summarize(const MetricValues& means,
                                                               const Predictions& predictions) {
    (void)predictions;
    return means;
  }
  // What must be the same on every rank, by name. Compared before the first step.
  [[nodiscard]] virtual absl::StatusOr<Fields> Fingerprint() { return Fields(); }
};

}  // namespace distill
