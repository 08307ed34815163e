#include "libdistill/metrics/curve_drawer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/thread.h"
#include "libdistill/metrics/draw_figure.h"
#include "libdistill/metrics/record_writer.h"
#include "libdistill/store/durable_files.h"
#include "libdistill/store/files.h"
#include "libdistill/store/store.h"

namespace distill {
namespace {

constexpr int64_t kShare = 100;  // of the time, one part at most

// Whoever looks at a local picture sees the one before or this one. Its other name is always the same, so that a run
// that is killed meanwhile leaves one such file at most.
absl::Status Replace(const std::string& path, const std::string& bytes) {
  const std::string beside = path + ".tmp";
  absl::Status written = WriteWholeFile(beside, bytes);
  if (written.ok()) written = Rename(beside, path);
  if (!written.ok()) {
    if (const absl::StatusOr<std::shared_ptr<Store>> store = StoreOf(beside); store.ok()) {
      (void)(*store)->Remove(beside);
    }
  }
  return written;
}

absl::Status DrawInto(const std::string& path, const RunCurves& run) {
  DISTILL_ASSIGN_OR_RETURN(const Figure figure, FigureOf({run}, {.title = run.name}));
  DISTILL_ASSIGN_OR_RETURN(const std::string png, DrawPng(figure));
  DISTILL_RETURN_IF_ERROR(MakeFolder(ParentFolder(path)));  // as metrics.jsonl's, where somebody removed it
  return IsRemote(path) ? WriteWholeFile(path, png) : Replace(path, png);
}

}  // namespace

CurveDrawer::CurveDrawer(std::string path, RunCurves run, absl::Duration period)
    : path_(std::move(path)), period_(period), run_(std::move(run)) {
  absl::StatusOr<std::thread> worker = StartThread("drawing curves", [this] { Work(); });
  if (worker.ok()) worker_ = *std::move(worker);
  if (!worker.ok()) LogWarning(absl::StrCat(worker.status().message(), "; ", path_, " is drawn at the end alone"));
}

CurveDrawer::~CurveDrawer() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changes_.notify_all();
  if (worker_.joinable()) {
    worker_.join();
  } else {
    Work();
  }
}

absl::Status CurveDrawer::OnLog(const StepRecord& record, TrainingControl&) {
  Add(record.step, record.values);
  return absl::OkStatus();
}

absl::Status CurveDrawer::OnEvaluate(const EvaluationRecord& record, TrainingControl&) {
  Add(record.step, RecordOf(record));
  return absl::OkStatus();
}

void CurveDrawer::Add(int64_t step, const NamedValues& values) {
  const std::lock_guard lock(mutex_);
  run_.Add(step, values);
  is_stale_ = true;
}

void CurveDrawer::Work() {
  std::unique_lock lock(mutex_);
  absl::Duration pause = period_;
  for (bool is_last = false; !is_last;) {
    changes_.wait_for(lock, absl::ToChronoMilliseconds(pause), [this] { return is_ending_; });
    is_last = is_ending_;
    if (!std::exchange(is_stale_, false)) continue;
    const RunCurves run = run_;
    lock.unlock();
    const absl::Time begin = absl::Now();
    Draw(run);
    pause = std::max(period_, kShare * (absl::Now() - begin));
    lock.lock();
  }
}

void CurveDrawer::Draw(const RunCurves& run) {
  const absl::Status drawn = DrawInto(path_, run);
  if (!drawn.ok() && !has_failed_) {
    LogWarning(absl::StrCat(path_, " is not drawn: ", drawn.message(),
                            "; training continues, and so does drawing; this is said once"));
  }
  if (!drawn.ok()) has_failed_ = true;
}

}  // namespace distill
