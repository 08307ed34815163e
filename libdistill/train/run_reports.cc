#include "libdistill/train/run_reports.h"

#include <algorithm>
#include <utility>

#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/metrics/reports.h"
#include "libdistill/tensor/catch_torch.h"

namespace distill {

absl::Status RunReports::Open(int64_t done_steps, bool starts_anew) {
  const LogOptions options = {.output_dir = options_.output_dir,
                              .report_to = options_.report_to,
                              .run_name = options_.run_name,
                              .shows_progress = !options_.disable_tqdm,
                              .prints_metrics = options_.print_metrics};
  if (starts_anew && done_steps > 0) DISTILL_RETURN_IF_ERROR(OpenReports(options, 0, total_steps_).status());
  DISTILL_ASSIGN_OR_RETURN(const auto reports, OpenReports(options, done_steps, total_steps_));
  observers_.insert(observers_.begin(), reports.begin(), reports.end());
  return absl::OkStatus();
}

absl::Status RunReports::Tell(absl::FunctionRef<absl::Status(Observer&)> tell) {
  const BusyPhase phase(run_.communicator(), "telling observers", ToldBusy::kWithNextBeat);
  absl::Status status;  // each is told, whatever others do: one may wait for itself on the other ranks
  for (const auto& observer : observers_) status.Update(CatchTorch([&] { return tell(*observer); }));
  return status;
}

absl::Status RunReports::TellStep(int64_t step, const StepOutcome& outcome, NamedValues beside, bool is_last) {
  step_ = step;
  beside_ = std::move(beside);
  tokens_ += outcome.tokens;
  samples_ += outcome.samples;
  data_waits_.Add(outcome.data_wait);
  if (outcome.divisor > 0) since_record_.Add(outcome.means);
  StepRecord seen{step, total_steps_, outcome.means};
  seen.values.insert(seen.values.end(), beside_.begin(), beside_.end());
  absl::Status status = Tell(&Observer::OnStep, seen);
  const int64_t every = options_.logging_steps;
  const bool is_due = every > 0 && (step % every == 0 || is_last);
  if (is_due || (options_.logging_first_step && step == 1)) status.Update(Log());
  return status;
}

absl::Status RunReports::TellBeforeSave(int64_t step) {
  return Tell([step](Observer& observer) {
    observer.BeforeSave(step);
    return absl::OkStatus();
  });
}

absl::Status RunReports::TellLastStep() {
  return options_.logging_steps > 0 && logged_step_ != step_ ? Log() : absl::OkStatus();
}

absl::Status RunReports::Log() {
  StepRecord record{step_, total_steps_, since_record_.Take()};
  record.values.insert(record.values.end(), beside_.begin(), beside_.end());
  clock_.Pause();
  const double seconds = clock_.Seconds();
  const auto is_epoch = [](const auto& value) { return value.first == "epoch"; };
  const auto after = std::find_if(record.values.begin(), record.values.end(), is_epoch) + 1;
  const auto waited = record.values.emplace(after, "data_wait_seconds", data_waits_.Take());
  // A task need not count tokens.
  const auto [speed, count] =
      tokens_ > 0 ? std::pair("tokens_per_second", tokens_) : std::pair("samples_per_second", samples_);
  record.values.emplace(waited, speed, static_cast<double>(count) / seconds);
  if (const auto warning = data_waits_.Judge(seconds); warning && run_.rank() == 0) {
    LogWarning(TextOf(*warning, run_.communicator().Describe(warning->rank)));
  }
  const absl::Status status = Tell(&Observer::OnLog, record);
  logged_step_ = step_;
  tokens_ = samples_ = 0;
  clock_ = {};
  clock_.Resume();
  return status;
}

}  // namespace distill
