#include "libdistill/metrics/progress.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libdistill/metrics/record_writer.h"

namespace distill {
namespace {

std::string ValueText(const std::string& name, double value) {
  if (name == "tokens_per_second") return absl::StrFormat("%.0f tokens/s", value);
  if (name == "samples_per_second") return absl::StrFormat(value < 10 ? "%.1f samples/s" : "%.0f samples/s", value);
  if (name == "data_wait_seconds") return absl::StrFormat("waited %.2f s for data", value);
  if (name == "learning_rate") return absl::StrFormat("lr %.3g", value);
  return absl::StrFormat("%s %.4f", name, value);
}

}  // namespace

std::string ClockTime(double seconds) {
  const int64_t whole = std::llround(std::max(seconds, 0.0));
  if (whole < 3600) return absl::StrFormat("%02d:%02d", whole / 60, whole % 60);
  return absl::StrFormat("%d:%02d:%02d", whole / 3600, whole / 60 % 60, whole % 60);
}

Progress::Progress(FILE* out, bool is_terminal, int64_t done_steps, int64_t total_steps)
    : out_(out),
      is_terminal_(is_terminal),
      first_step_(done_steps),
      total_steps_(total_steps),
      start_(std::chrono::steady_clock::now()) {}

double Progress::SecondsLeft(int64_t step) const {
  const double spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  return spent / static_cast<double>(std::max<int64_t>(step - first_step_, 1)) *
         static_cast<double>(total_steps_ - step);
}

absl::Status Progress::OnLog(const StepRecord& record, TrainingControl&) {
  std::string line = absl::StrCat("step ", record.step, "/", total_steps_);
  for (const auto& [name, value] : record.values) {
    // A rewritten line must fit on one line of the terminal.
    const bool is_short = name == "loss" || absl::EndsWith(name, "s_per_second");
    if (!is_terminal_ || is_short) {
      absl::StrAppend(&line, "  ", ValueText(name, value));
    }
  }
  absl::StrAppend(&line, "  ", ClockTime(SecondsLeft(record.step)), " left");
  // The escape clears what a longer line left behind.
  absl::FPrintF(out_, "%s%s%s", is_terminal_ ? "\r" : "", line, is_terminal_ ? "\x1b[K" : "\n");
  line_is_open_ = is_terminal_;
  std::fflush(out_);
  return absl::OkStatus();
}

absl::Status Progress::OnEvaluate(const EvaluationRecord& record, TrainingControl&) {
  EndLine();
  std::string line = absl::StrCat("step ", record.step, " on held-out data:");
  for (const auto& [name, value] : RecordOf(record)) absl::StrAppend(&line, "  ", ValueText(name, value));
  absl::FPrintF(out_, "%s\n", line);
  std::fflush(out_);
  return absl::OkStatus();
}

absl::Status Progress::OnEnd(const NamedValues&) {
  EndLine();
  return absl::OkStatus();
}

void Progress::EndLine() {
  if (line_is_open_) absl::FPrintF(out_, "\n");
  line_is_open_ = false;
}

}  // namespace distill
