#include "examples/brain2text/compare_places.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "examples/brain2text/brain_task.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/train/trainer.h"

namespace distill {
namespace {

struct Place {
  std::string dataset_dir;
  double seconds = std::numeric_limits<double>::infinity();
  double loss = 0;
};

absl::StatusOr<TrainResult> TrainFrom(RunContext& run, Brain2TextOptions options, const std::string& dataset_dir,
                                      int64_t batches) {
  options.dataset_dir = dataset_dir;
  options.dataset_probability_val = "";
  TrainerOptions trainer_options = options.trainer;
  trainer_options.output_dir.clear();
  trainer_options.max_steps = batches;
  trainer_options.eval_steps = trainer_options.save_steps = trainer_options.logging_steps = 0;
  trainer_options.best_model = {};
  trainer_options.report_to.clear();
  std::shared_ptr<DayGru> model;
  std::unique_ptr<BatchTask<TensorBatch>> task;
  const auto prepare = [&]() -> absl::Status {
    BrainData data;
    DISTILL_ASSIGN_OR_RETURN(data.train, BrainRecordings::Open(options, "train", {}, BrainRecordings::Labels::kNeeded));
    DISTILL_ASSIGN_OR_RETURN(model, NewDayGru(options, run.device()));
    DISTILL_ASSIGN_OR_RETURN(auto objective, PhonemeObjective::Create(model, nullptr, PhonemeOptionsOf(options)));
    DISTILL_ASSIGN_OR_RETURN(task, MakeBrainTask(run.world(), options, data, std::move(objective)));
    return absl::OkStatus();
  };
  DISTILL_RETURN_IF_ERROR(Agree(run.communicator(), CatchTorch(prepare)));
  DISTILL_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(run, model, trainer_options));
  return trainer->Fit(*task);
}

}  // namespace

absl::Status ComparePlaces(RunContext& run, const Brain2TextOptions& options, const Brain2TextFlags& flags) {
  Place places[] = {{flags.compare_dataset_dir}, {options.dataset_dir}};
  for (int round = 0; round < 2; ++round) {
    for (Place& place : places) {
      DISTILL_ASSIGN_OR_RETURN(const TrainResult result,
                               TrainFrom(run, options, place.dataset_dir, flags.compare_batches));
      place.seconds = std::min(place.seconds, result.train_runtime);
      place.loss = result.train_loss;
    }
  }
  if (places[0].loss != places[1].loss) {
    return absl::InternalError(absl::StrCat("the mean loss is ", places[0].loss, " with the recordings of ",
                                            places[0].dataset_dir, ", and ", places[1].loss, " with those of ",
                                            places[1].dataset_dir, ": are they the same files?"));
  }
  if (run.rank() != 0) return absl::OkStatus();
  for (const Place& place : places) {
    std::printf("%lld batches from %s: %.2f s\n", static_cast<long long>(flags.compare_batches),
                place.dataset_dir.c_str(), place.seconds);
  }
  std::printf("slow-down: %.1f %% (the same losses)\n", 100 * (places[1].seconds / places[0].seconds - 1));
  return absl::OkStatus();
}

}  // namespace distill
