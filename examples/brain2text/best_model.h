// Keeps the best model of a run in a folder: that with the lowest phoneme error rate, and of equal ones that with the
// lowest loss, as the public baseline chooses.
#pragma once

#include <functional>
#include <string>

#include "libdistill/metrics/observer.h"

namespace distill {

// The folder's file with the step and all metrics.
inline constexpr char kBestMetricsFile[] = "metrics.json";

class BestModel : public Observer {
 public:
  // For rank 0. `write`: the model's files into an existing folder. `resumes`: what a run before has left in `folder`
  // is this one's, and only a better model replaces it.
  BestModel(std::string folder, std::function<absl::Status(const std::string& folder)> write, bool resumes)
      : folder_(std::move(folder)), write_(std::move(write)), looks_for_earlier_(resumes) {}

  // The model, and kBestMetricsFile. Errors are the disk's.
  absl::Status OnEvaluate(const EvaluationRecord& record, TrainingControl& control) override;

 private:
  absl::Status TakeEarlier();

  const std::string folder_;
  const std::function<absl::Status(const std::string& folder)> write_;
  bool looks_for_earlier_;
  bool has_best_ = false;
  double best_rate_ = 0, best_loss_ = 0;
};

}  // namespace distill
