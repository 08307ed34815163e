#include "bench/train_step/compare.h"

#include <cmath>
#include <cstdio>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "bench/train_step/recipe.h"
#include "bench/train_step/steps.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/safetensors.h"
#include "nlohmann/json.hpp"

namespace distill {
namespace {

constexpr double kTolerance = 1e-4;

// A tensor int64 [steps, rows, length], as the values of each step; none where the file has no such tensor.
absl::StatusOr<std::vector<std::vector<int64_t>>> ReadSteps(const SafetensorsFile& file, const std::string& name,
                                                            const BenchRecipe& recipe) {
  std::vector<std::vector<int64_t>> steps;
  const TensorView* view = file.Find(name);
  if (view == nullptr) return steps;
  const std::vector<int64_t> rows = {recipe.rows, recipe.length};
  if (view->dtype != DType::kInt64 || view->shape.size() != 3 ||
      std::vector<int64_t>(view->shape.begin() + 1, view->shape.end()) != rows) {
    return absl::DataLossError(
        absl::StrCat(file.path(), ": tensor ", name, " is not int64 [steps, ", recipe.rows, ", ", recipe.length, "]"));
  }
  DISTILL_ASSIGN_OR_RETURN(const TensorView loaded, file.Load(name));
  const auto* values = static_cast<const int64_t*>(loaded.data);
  for (int64_t step = 0; step < view->shape[0]; ++step, values += recipe.rows * recipe.length) {
    steps.emplace_back(values, values + recipe.rows * recipe.length);
  }
  return steps;
}

absl::StatusOr<std::vector<TokenBatch>> ReadInputs(const std::string& path, const BenchRecipe& recipe) {
  DISTILL_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(path));
  DISTILL_ASSIGN_OR_RETURN(auto ids, ReadSteps(file, "input_ids", recipe));
  DISTILL_ASSIGN_OR_RETURN(auto labels, ReadSteps(file, "labels", recipe));
  labels.resize(ids.size());
  std::vector<TokenBatch> batches;
  for (size_t step = 0; step < ids.size(); ++step) batches.push_back(recipe.batch_of(ids[step], labels[step]));
  return batches;
}

absl::StatusOr<std::vector<double>> ReadLosses(const std::string& path) {
  std::ifstream file(path);
  const nlohmann::json json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!json.is_array()) return absl::DataLossError(absl::StrCat(path, ": not a list of losses"));
  return json.get<std::vector<double>>();
}

}  // namespace

absl::Status CompareWithPeer(RunContext& run, const std::string& name, const std::string& folder) {
  DISTILL_ASSIGN_OR_RETURN(const BenchRecipe recipe, MakeRecipe(name, folder, torch::kFloat32));
  DISTILL_ASSIGN_OR_RETURN(auto batches,
                           ReadInputs(absl::StrCat(folder, "/inputs-", run.rank(), ".safetensors"), recipe));
  DISTILL_ASSIGN_OR_RETURN(const auto expected, ReadLosses(absl::StrCat(folder, "/losses-", run.rank(), ".json")));
  TrainerOptions options;  // those of the peer
  options.max_steps = static_cast<int64_t>(batches.size());
  options.learning_rate = recipe.learning_rate;
  options.lr_scheduler_type = SchedulerType::kConstant;
  options.weight_decay = 0.01;
  options.logging_steps = options.max_steps;
  TimedSteps steps(recipe, std::move(batches));
  DISTILL_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(run, recipe.student, options));
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
