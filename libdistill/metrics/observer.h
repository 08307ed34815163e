// Who watches a run: a program sees its steps, evaluations and saves without touching the trainer.
//
//   class StopsAtGoal : public Observer {
//     absl::Status OnEvaluate(const EvaluationRecord& record, TrainingControl& control) override {
//       if (record.metrics.at("accuracy") > 0.95) control.Stop();
//       return absl::OkStatus();
//     }
//   };
//   trainer->AddObserver(std::make_shared<StopsAtGoal>());
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace distill {

// Values by name, in the order in which they are shown.
using NamedValues = std::vector<std::pair<std::string, double>>;

struct StepRecord {
  int64_t step = 0;  // steps done
  int64_t total_steps = 0;
  // "loss", the task's terms, "grad_norm", "learning_rate", "epoch" and more; in OnLog the terms are means over the
  // steps since the last record.
  NamedValues values;
};

struct EvaluationRecord {
  int64_t step = 0;
  double epoch = 0;
  std::map<std::string, double> metrics;  // by their names in the task
};

struct SaveRecord {
  int64_t step = 0;
  std::string folder;  // of the checkpoint
};

// What an observer may ask for.
class TrainingControl {
 public:
  // Training ends as if its last step had been made: on all ranks, after this step or the next one, since ranks tell
  // one another with the step's losses. One rank that asks is enough.
  void Stop() { stops_ = true; }
  bool stops() const { return stops_; }

 private:
  bool stops_ = false;
};

// Called by the thread that trains, on every rank that has added the observer, in the order in which they were added.
// An error ends all ranks with it.
class Observer {
 public:
  virtual ~Observer() = default;
  // Before the first step, and before anything is written: the module is as steps find it, on its device, sharded where
  // it is to be. `step`: above 0 where a run is resumed, with the values of its checkpoint. Where every rank has added
  // the observer it may call Trainer::Evaluate.
  [[nodiscard]] virtual absl::Status OnBegin(int64_t step) {
    (void)step;
    return absl::OkStatus();
  }
  // After each step. `values` are those of the step.
  [[nodiscard]] virtual absl::Status OnStep(const StepRecord& record, TrainingControl& control) {
    (void)record, (void)control;
    return absl::OkStatus();
  }
  // Every logging_steps, and after the last step; never where logging_steps is 0.
  [[nodiscard]] virtual absl::Status OnLog(const StepRecord& record, TrainingControl& control) {
    (void)record, (void)control;
    return absl::OkStatus();
  }
  [[nodiscard]] virtual absl::Status OnEvaluate(const EvaluationRecord& record, TrainingControl& control) {
    (void)record, (void)control;
    return absl::OkStatus();
  }
  // Before the checkpoint of that step is written: what is to be stored by then, so that a run that resumes there finds
  // it.
  virtual void BeforeSave(int64_t step) { (void)step; }
  // When the checkpoint is whole.
  [[nodiscard]] virtual absl::Status OnSave(const SaveRecord& record, TrainingControl& control) {
    (void)record, (void)control;
    return absl::OkStatus();
  }
  // When training has ended well: what Fit returns.
  [[nodiscard]] virtual absl::Status OnEnd(const NamedValues& values) {
    (void)values;
    return absl::OkStatus();
  }
};

}  // namespace distill
