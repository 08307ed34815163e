#include "examples/brain2text/best_model.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_format.h"
#include "libdistill/checkpoint/checkpoint.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/durable_files.h"
#include "libdistill/store/files.h"

namespace distill {
namespace {

double ValueOf(const std::map<std::string, double>& metrics, const char* name) {
  const auto found = metrics.find(name);
  return found == metrics.end() ? 0 : found->second;
}

}  // namespace

absl::Status BestModel::TakeEarlier() {
  DISTILL_RETURN_IF_ERROR(FinishPublishing(folder_));
  const absl::StatusOr<std::string> text = ReadFile(JoinPath(folder_, kBestMetricsFile));
  if (!text.ok()) return absl::OkStatus();
  const nlohmann::json metrics = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!metrics.is_object()) return absl::OkStatus();
  best_rate_ = metrics.value("phoneme_error_rate", 1e30);
  best_loss_ = metrics.value("loss", 1e30);
  has_best_ = true;
  return absl::OkStatus();
}

absl::Status BestModel::OnEvaluate(const EvaluationRecord& record, TrainingControl&) {
  if (std::exchange(looks_for_earlier_, false)) DISTILL_RETURN_IF_ERROR(TakeEarlier());
  const double rate = ValueOf(record.metrics, "phoneme_error_rate"), loss = ValueOf(record.metrics, "loss");
  const bool is_better = rate < best_rate_ || (rate == best_rate_ && loss < best_loss_);
  if (has_best_ && !is_better) return absl::OkStatus();
  has_best_ = true;
  best_rate_ = rate;
  best_loss_ = loss;
  nlohmann::json metrics = record.metrics;
  metrics["step"] = record.step;
  DISTILL_RETURN_IF_ERROR(PublishFiles(folder_, [&](const std::string& staged) -> absl::Status {
    DISTILL_RETURN_IF_ERROR(write_(staged));
    return WriteWholeFile(JoinPath(staged, kBestMetricsFile), metrics.dump(2) + "\n");
  }));
  LogInfo(absl::StrFormat("the best model so far: step %d, phoneme error rate %.4f", record.step, rate));
  return absl::OkStatus();
}

}  // namespace distill
