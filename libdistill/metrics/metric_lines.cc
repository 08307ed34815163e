#include "libdistill/metrics/metric_lines.h"

#include "absl/strings/str_format.h"
#include "libdistill/metrics/record_writer.h"

namespace distill {

void PrintMetrics(FILE* out, const NamedValues& values) {
  for (const auto& [name, value] : values) absl::FPrintF(out, "%s = %.6g\n", name, value);
  std::fflush(out);
}

NamedValues SpeedsOf(const TrainedWork& work) {
  const auto per_second = [&](int64_t count) { return static_cast<double>(count) / work.seconds; };
  NamedValues values = {{"train_runtime", work.seconds},
                        {"train_samples_per_second", per_second(work.samples)},
                        {"train_steps_per_second", per_second(work.steps)}};
  if (work.tokens > 0) values.emplace_back("train_tokens_per_second", per_second(work.tokens));
  return values;
}

absl::Status MetricLines::OnLog(const StepRecord& record, TrainingControl&) {
  NamedValues values;
  for (const auto& [name, value] : record.values) {
    if (name == "loss") values.emplace_back("train_loss", value);
    if (name == "epoch") values.emplace_back(name, value);
  }
  PrintMetrics(out_, values);
  return absl::OkStatus();
}

absl::Status MetricLines::OnEvaluate(const EvaluationRecord& record, TrainingControl&) {
  PrintMetrics(out_, RecordOf(record));
  return absl::OkStatus();
}

absl::Status Summary::OnEnd(const NamedValues& values) {
  PrintMetrics(out_, values);
  return absl::OkStatus();
}

}  // namespace distill
