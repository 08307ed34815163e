#include "bench/train_step/compare.h"

#include <cmath>
#include <cstdio>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "bench/train_step/steps.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/safetensors.h"
#include "nlohmann/json.hpp"

namespace distill {
namespace {

constexpr double kTolerance = 1e-4;

// int64 [steps, rows, length], one batch a step.
absl::StatusOr<std::vector<TokenBatch>> ReadInputs(const std::string& path) {
  DISTILL_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(path));
  const TensorView* view = file.Find("input_ids");
  if (view == nullptr || view->dtype != DType::kInt64 || view->shape.size() != 3) {
    return absl::DataLossError(absl::StrCat(path, ": no tensor input_ids, int64 [steps, rows, length]"));
  }
  const auto* ids = static_cast<const int64_t*>(view->data);
  const int64_t rows = view->shape[1], length = view->shape[2];
  std::vector<TokenBatch> batches;
  for (int64_t step = 0; step < view->shape[0]; ++step, ids += rows * length) {
    batches.push_back(RowsOfTokens({ids, ids + rows * length}, rows, length));
  }
  return batches;
}

absl::StatusOr<std::vector<double>> ReadLosses(const std::string& path) {
  std::ifstream file(path);
  const nlohmann::json json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!json.is_array()) return absl::DataLossError(absl::StrCat(path, ": not a list of losses"));
  return json.get<std::vector<double>>();
}

}  // namespace

absl::Status CompareWithPeer(RunContext& run, const std::string& folder) {
  DISTILL_ASSIGN_OR_RETURN(const auto teacher, LoadDecoder(folder + "/teacher"));
  DISTILL_ASSIGN_OR_RETURN(const auto student, LoadDecoder(folder + "/student"));
  DISTILL_ASSIGN_OR_RETURN(auto batches, ReadInputs(absl::StrCat(folder, "/inputs-", run.rank(), ".safetensors")));
  DISTILL_ASSIGN_OR_RETURN(const auto expected, ReadLosses(absl::StrCat(folder, "/losses-", run.rank(), ".json")));
  DISTILL_ASSIGN_OR_RETURN(Distiller distiller, Distiller::Create(teacher, student, {.temperature = 2, .alpha = 0.5}));
  TrainerOptions options;  // those of the peer
  options.max_steps = static_cast<int64_t>(batches.size());
  options.learning_rate = 2e-5;
  options.lr_scheduler_type = "constant";
  options.weight_decay = 0.01;
  options.logging_steps = options.max_steps;
  TimedSteps steps(distiller, std::move(batches));
  DISTILL_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(run, student, options));
  DISTILL_RETURN_IF_ERROR(trainer->Fit(steps).status());
  if (steps.losses().size() != expected.size()) return absl::InternalError("the peer ran another number of steps");
  double worst = 0;
  for (size_t step = 0; step < expected.size(); ++step) {
    const double difference = std::abs(steps.losses()[step] - expected[step]) / std::abs(expected[step]);
    worst = std::max(worst, difference);
    if (difference <= kTolerance) continue;
    return absl::InternalError(absl::StrCat("step ", step + 1, " on rank ", run.rank(), ": the loss is ",
                                            steps.losses()[step], ", the peer's ", expected[step]));
  }
  if (run.rank() == 0) {
    std::printf("%zu steps from the peer's weights on its inputs: losses agree within %.1e\n", expected.size(), worst);
  }
  return absl::OkStatus();
}

}  // namespace distill
