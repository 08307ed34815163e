// What one watches of a run: a progress line, metrics.jsonl, metrics.csv and TensorBoard's curves. Rank 0 keeps one.
//
//   DISTILL_ASSIGN_OR_RETURN(auto log, TrainingLog::Open({.output_dir = folder}, done_steps, total_steps));
//   DISTILL_RETURN_IF_ERROR(log->Train(step, {{"loss", loss}, {"tokens_per_second", speed}}));
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/metrics/observer.h"
#include "libdistill/metrics/report_to.h"

namespace distill {

class TrainingLog {
 public:
  // `done_steps` above 0 goes on with the files of an interrupted run: their records of later steps are dropped.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<TrainingLog>> Open(const LogOptions& options, int64_t done_steps,
                                                                         int64_t total_steps);
  ~TrainingLog();

  // One training record: values by name, with "loss" and "tokens_per_second". Errors name the file.
  [[nodiscard]] absl::Status Train(int64_t step, const NamedValues& values);
  // One evaluation; names begin with "eval_".
  [[nodiscard]] absl::Status Evaluation(int64_t step, const NamedValues& values);
  // The end: one "name = value" a line on stdout, which log scrapers match.
  void Final(const NamedValues& values);

 private:
  struct Impl;
  explicit TrainingLog(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace distill
