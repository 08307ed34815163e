// An observer that draws the curves of a run: curves.png, during the run and when it ends.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "libdistill/metrics/curve.h"
#include "libdistill/metrics/observer.h"

namespace distill {

// A thread of its own draws and writes, at most every `period`, and after a pause of 100 times what the last picture
// took: training waits for neither, and gives 1 % of one core away. A picture that cannot be drawn or written is warned
// of once, and ends no run.
class CurveDrawer : public Observer {
 public:
  // `path`: of the picture, in any store. `run`: the records of the run that this one resumes, and the picture's title.
  CurveDrawer(std::string path, RunCurves run, absl::Duration period = absl::Seconds(10));
  // Draws what came since the last picture.
  ~CurveDrawer() override;

  absl::Status OnLog(const StepRecord& record, TrainingControl&) override;
  absl::Status OnEvaluate(const EvaluationRecord& record, TrainingControl&) override;

 private:
  void Add(int64_t step, const NamedValues& values);
  void Work();  // the thread's
  void Draw(const RunCurves& run);

  const std::string path_;
  const absl::Duration period_;
  std::mutex mutex_;
  std::condition_variable changes_;
  RunCurves run_;
  bool is_stale_ = false, is_ending_ = false;
  bool has_failed_ = false;  // the thread's
  std::thread worker_;
};

}  // namespace distill
