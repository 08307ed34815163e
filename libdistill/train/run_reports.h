// What observers are told of a run: progress and files on rank 0, and a program's own. Errors are this rank's alone.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "libdistill/metrics/data_wait.h"
#include "libdistill/metrics/observer.h"
#include "libdistill/metrics/record_sums.h"
#include "libdistill/run/run.h"
#include "libdistill/train/train_step.h"
#include "libdistill/train/trainer_options.h"

namespace distill {

class RunReports {
 public:
  // `observers`: the program's.
  RunReports(RunContext& run, const TrainerOptions& options, const std::vector<std::shared_ptr<Observer>>& observers,
             int64_t total_steps)
      : run_(run), options_(options), observers_(observers), total_steps_(total_steps) {}

  // For rank 0: opens what report_to names, which is told first. `starts_anew`: nothing of older records stays, also
  // where `done_steps` of another run came before.
  [[nodiscard]] absl::Status Open(int64_t done_steps, bool starts_anew);

  // After a step, whose means have `beside` with them. Also a record, where one is due.
  [[nodiscard]] absl::Status TellStep(int64_t step, const StepOutcome& outcome, NamedValues beside, bool is_last);
  // Where the last step turned out to be the last one later: its record, if it has none and there are records at all.
  [[nodiscard]] absl::Status TellLastStep();
  [[nodiscard]] absl::Status TellBeforeSave(int64_t step);
  [[nodiscard]] absl::Status Tell(absl::FunctionRef<absl::Status(Observer&)> tell);
  template <typename Record>
  [[nodiscard]] absl::Status Tell(absl::Status (Observer::*what)(const Record&, TrainingControl&),
                                  const Record& record) {
    return Tell([&](Observer& observer) { return (observer.*what)(record, control_); });
  }

  bool wants_to_stop() const { return control_.stops(); }
  // Of the time that records count.
  void PauseClock() { clock_.Pause(); }
  void ResumeClock() { clock_.Resume(); }
  RecordSums& since_record() { return since_record_; }
  double data_wait_seconds() const { return data_waits_.total_seconds(); }

 private:
  absl::Status Log();

  RunContext& run_;
  const TrainerOptions& options_;
  std::vector<std::shared_ptr<Observer>> observers_;
  const int64_t total_steps_;
  TrainingControl control_;
  int64_t step_ = 0;
  NamedValues beside_;  // of that step
  RecordSums since_record_;
  DataWaits data_waits_;
  TrainingClock clock_;  // since the last record, as the next three
  int64_t tokens_ = 0, samples_ = 0;
  int64_t logged_step_ = 0;
};

}  // namespace distill
