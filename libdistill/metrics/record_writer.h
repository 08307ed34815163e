// An observer that writes records: what the log says of training steps, and evaluations.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "libdistill/metrics/observer.h"
#include "libdistill/metrics/record_file.h"

namespace distill {

// An evaluation's values as records name them: "eval_" before each metric, then the epoch.
NamedValues RecordOf(const EvaluationRecord& record);

class RecordWriter : public Observer {
 public:
  explicit RecordWriter(std::unique_ptr<RecordFile> file) : file_(std::move(file)) {}

  // One record, which is on disk (but not synced) on return, or waits for a disk that is full, or for the next time
  // that an object is put (RecordFile).
  [[nodiscard]] virtual absl::Status Write(int64_t step, const NamedValues& values) = 0;

  absl::Status OnLog(const StepRecord& record, TrainingControl&) override { return Write(record.step, record.values); }
  absl::Status OnEvaluate(const EvaluationRecord& record, TrainingControl&) override {
    return Write(record.step, RecordOf(record));
  }
  void BeforeSave(int64_t) override { file_->Flush(); }

 protected:
  const std::unique_ptr<RecordFile> file_;
};

}  // namespace distill
